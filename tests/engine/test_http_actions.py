# ruff: noqa: E501 - programs in tables stay on one line
"""HTTP actions: routing, streams in both directions, failures, clients that go away, limits, on both ports."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from .support.core import Core, request

MIB = 1024 * 1024
DEADLINE = 60.0

FILES = {
    "notes.ts": """
        import { internalMutation, internalQuery } from "./_generated/server";
        import { v } from "convex/values";
        export const add = internalMutation({ args: { text: v.string() }, handler: (ctx, args) => ctx.db.insert("notes", args) });
        export const texts = internalQuery({ args: {}, handler: async (ctx) => (await ctx.db.query("notes").collect()).map((n) => n.text) });
    """,
    "http.ts": """
        import { httpRouter } from "convex/server";
        import { httpAction } from "./_generated/server";
        import { internal } from "./_generated/api";
        const http = httpRouter();
        const at = (path, method, handler) => http.route({ path, method, handler: httpAction(handler) });
        const under = (pathPrefix, method, handler) => http.route({ pathPrefix, method, handler: httpAction(handler) });
        const text = (bytes) => new TextDecoder().decode(bytes);
        const bytes = (text) => new TextEncoder().encode(text);
        const waitFor = async (ctx, wanted) => { while (!(await ctx.runQuery(internal.notes.texts, {})).includes(wanted)) await new Promise((done) => setTimeout(done, 20)); };

        for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) at("/method", method, async (_, r) => Response.json([r.method, r.body !== null, await r.text()]));
        at("/a/exact", "GET", async () => new Response("exact"));
        under("/a/", "GET", async () => new Response("short"));
        under("/a/b/", "GET", async () => new Response("long"));
        under("/a/b/", "POST", async () => new Response("long post"));

        at("/pieces", "POST", async (ctx, r) => {
            const reader = r.body.getReader();
            for (;;) {
                const { done, value } = await reader.read();
                if (done) return new Response("end");
                await ctx.runMutation(internal.notes.add, { text: text(value) });
            }
        });
        at("/dialogue", "GET", async (ctx) => new Response(new ReadableStream({
            async start(controller) {
                controller.enqueue(bytes("first;"));
                await waitFor(ctx, "go on");
                controller.enqueue(bytes("second;"));
                controller.close();
            },
        })));
        at("/proxy", "GET", async () => new Response((await fetch(process.env.CONVEX_SITE_URL + "/dialogue")).body));
        at("/late", "GET", async (ctx) => new Response(new ReadableStream({ async start(controller) { await waitFor(ctx, "go on"); controller.close(); } }), { headers: { "X-Early": "yes" } }));
        at("/mirror", "POST", async (_, r) => new Response(r.body));
        at("/upper", "POST", async (_, r) => new Response(r.body.pipeThrough(new TextDecoderStream()).pipeThrough(new TransformStream({ transform: (chunk, c) => c.enqueue(chunk.toUpperCase()) })).pipeThrough(new TextEncoderStream())));
        at("/form", "POST", async (_, r) => Response.json([...(await r.formData())].map(([k, v]) => [k, typeof v === "string" ? v : v.name])));
        at("/ignore", "POST", async () => new Response("did not look"));
        at("/size", "POST", async (_, r) => { try { return new Response(String((await r.arrayBuffer()).byteLength)); } catch (e) { return new Response(`${e.name}: ${e.message}`, { status: 299 }); } });

        at("/before", "GET", async () => { throw new Error("before"); });
        at("/after", "GET", async () => new Response(new ReadableStream({ pull(c) { this.n = (this.n ?? 0) + 1; if (this.n > 1) throw new Error("after"); c.enqueue(bytes("part")); } })));
        at("/strings", "GET", async () => new Response(new ReadableStream({ start(c) { c.enqueue("text"); c.close(); } })));
        at("/rejects", "GET", async () => { void Promise.reject(new Error("nobody waits")); await new Promise((done) => setTimeout(done, 50)); return new Response("x"); });
        at("/big", "GET", async () => new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(1024 * 1024)); } })));

        at("/watched", "GET", async (ctx, r) => {
            await ctx.runMutation(internal.notes.add, { text: "started" });
            await new Promise((done) => (r.signal.aborted ? done() : r.signal.addEventListener("abort", done)));
            await ctx.runMutation(internal.notes.add, { text: `went on, ${r.signal.aborted}` });
            return new Response("nobody hears");
        });
        at("/cut", "POST", async (ctx, r) => {
            let found;
            try { found = await r.text(); } catch (e) { found = `failed: ${e.name}`; }
            await ctx.runMutation(internal.notes.add, { text: found });
            return new Response("x");
        });
        at("/headers", "GET", async (_, r) => new Response(r.headers.get("x-asked") + new URL(r.url).protocol, { headers: [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"], ["Access-Control-Allow-Origin", "mine"]] }));
        export default http;
    """,
}


@pytest.fixture(params=["site", "cloud"])
def base(fresh: Core, request: pytest.FixtureRequest) -> str:
    """Where HTTP actions are served: on a port of their own, and below a path of the main one."""
    return fresh.site if request.param == "site" else f"{fresh.url}/http"


@contextmanager
def connection(base: str) -> Iterator[tuple[http.client.HTTPConnection, str]]:
    parts = urlsplit(base)
    opened = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE)
    try:
        yield opened, parts.path
    finally:
        opened.close()


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


def notes(core: Core) -> list[str]:
    return core.run("notes:texts", identity="admin")


def write(core: Core, text: str) -> None:
    core.run("notes:add", {"text": text}, identity="admin")


def logged(core: Core, function: str) -> dict:
    entries: list[dict] = []

    def found() -> bool:
        entries[:] = [entry for entry in core.control("logs") if entry["function"] == function]
        return bool(entries)

    eventually(found)
    return entries[-1]


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/a/exact", 200, "exact"),
        ("GET", "/a/exact/", 200, "short"),
        ("GET", "/a/b/c", 200, "long"),
        ("GET", "/a/b/", 200, "long"),
        ("GET", "/a/b", 200, "short"),
        ("POST", "/a/b/c", 200, "long post"),
        ("POST", "/a/exact", 404, "No matching routes found"),
        ("GET", "/A/exact", 404, "No matching routes found"),
        ("GET", "/a%2Fexact", 404, "No matching routes found"),
        ("OPTIONS", "/a/exact", 404, "No matching routes found"),
        ("TRACE", "/a/exact", 405, ""),
        ("HEAD", "/a/exact", 200, ""),
        ("HEAD", "/pieces", 404, ""),
    ],
)
def test_routes(base: str, method: str, path: str, status: int, text: str) -> None:
    answer = request(base + path, method=method)
    assert (answer.status, answer.text) == (status, text)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_methods_and_bodies(base: str, method: str) -> None:
    takes = method not in ("GET", "OPTIONS")
    assert request(f"{base}/method", method=method).json() == [method, False, ""]
    assert request(f"{base}/method", b"body", method=method).json() == [method, takes, "body" if takes else ""]


def test_headers_pass_and_nothing_is_added(base: str) -> None:
    answer = request(f"{base}/headers", headers={"X-Asked": "v:", "Origin": "http://o", "X-Forwarded-Proto": "https"})
    assert answer.text == "v:https:"
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert [name for name in answer.headers if name.lower().startswith("access-control")] == [
        "access-control-allow-origin"
    ]
    assert (
        request(f"{base}/a/exact", headers={"Forwarded": "for=1;proto=https"}).headers["Access-Control-Allow-Origin"]
        is None
    )


def test_a_request_is_read_while_it_arrives(fresh: Core, base: str) -> None:
    with connection(base) as (client, prefix):
        client.putrequest("POST", f"{prefix}/pieces")
        client.putheader("Transfer-Encoding", "chunked")
        client.endheaders()
        for count, piece in enumerate([b"one", b"two", b"three"], start=1):
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            eventually(lambda count=count: len(notes(fresh)) == count)
        client.send(b"0\r\n\r\n")
        assert client.getresponse().read() == b"end"
    assert notes(fresh) == ["one", "two", "three"]


@pytest.mark.parametrize("path", ["/dialogue", "/proxy"])
def test_a_response_is_heard_while_it_is_made(fresh: Core, base: str, path: str) -> None:
    """Also when it is the response to a fetch that is passed on."""
    with connection(base) as (client, prefix):
        client.request("GET", prefix + path)
        answer = client.getresponse()
        assert answer.read1() == b"first;"
        write(fresh, "go on")
        assert answer.read() == b"second;"


def test_the_head_does_not_wait_for_the_body(fresh: Core, base: str) -> None:
    with connection(base) as (client, prefix):
        client.request("GET", f"{prefix}/late")
        answer = client.getresponse()
        assert answer.headers["X-Early"] == "yes"
        write(fresh, "go on")
        assert answer.read() == b""


def test_streams_pass_through_unchanged(base: str) -> None:
    body = bytes(range(256)) * 12_000
    assert request(f"{base}/mirror", body).body == body
    assert request(f"{base}/upper", "grüße".encode() * 1000).text == "GRÜSSE".replace("SS", "ß".upper()) * 1000
    form = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="x.txt"\r\n\r\nfile\r\n--b--\r\n'
    assert request(f"{base}/form", form, {"Content-Type": "multipart/form-data; boundary=b"}).json() == [
        ["a", "1"],
        ["f", "x.txt"],
    ]


def test_a_request_that_nobody_reads(base: str) -> None:
    with connection(base) as (client, prefix):
        for _ in range(3):
            client.request("POST", f"{prefix}/ignore", b"x" * 300_000)
            assert client.getresponse().read() == b"did not look"


def test_an_error_before_the_head_is_an_answer(fresh: Core, base: str) -> None:
    answer = request(f"{base}/before")
    assert answer.status == 500
    assert answer.json()["code"].endswith("Server Error: Uncaught Error: before")
    assert logged(fresh, "GET /before")["error"].startswith("Uncaught Error: before\n")
    assert request(f"{base}/rejects").json()["code"].endswith("Uncaught Error: nobody waits")


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/after", b"part", "Uncaught Error: after"),
        ("/strings", b"", "Uncaught TypeError: Received non-Uint8Array chunk"),
    ],
)
def test_an_error_after_the_head_is_only_logged(fresh: Core, base: str, path: str, body: bytes, error: str) -> None:
    answer = request(base + path)
    assert (answer.status, answer.body) == (200, body)
    assert logged(fresh, f"GET {path}")["error"].startswith(error)


def test_a_response_is_cut_at_twenty_mebibytes(fresh: Core, base: str) -> None:
    answer = request(f"{base}/big")
    assert (answer.status, len(answer.body)) == (200, 20 * MIB)
    assert logged(fresh, "GET /big")["logLines"] == [
        "[ERROR] HttpResponseTooLarge: HTTP actions support responses up to 20 MiB"
    ]


def test_a_request_is_taken_up_to_twenty_mebibytes(base: str) -> None:
    assert request(f"{base}/size", bytes(20 * MIB)).text == str(20 * MIB)
    refused = request(f"{base}/size", bytes(20 * MIB + 1))
    assert refused.status == 299
    assert refused.text == "TypeError: HttpRequestTooLarge: HTTP actions support requests up to 20 MiB"


def test_a_client_that_goes_away_is_noticed_and_the_handler_goes_on(fresh: Core, base: str) -> None:
    with connection(base) as (client, prefix):
        client.request("GET", f"{prefix}/watched")
        eventually(lambda: notes(fresh) == ["started"])
    eventually(lambda: notes(fresh) == ["started", "went on, true"])


def test_a_request_cut_short_fails_where_it_is_read(fresh: Core, base: str) -> None:
    parts = urlsplit(base)
    with socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE) as client:
        client.sendall(f"POST {parts.path}/cut HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nonly this".encode())
    eventually(lambda: len(notes(fresh)) == 1)
    assert notes(fresh)[0].startswith("failed: ")
    assert request(f"{base}/a/exact").text == "exact"
