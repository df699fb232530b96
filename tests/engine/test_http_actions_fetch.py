# ruff: noqa: E501 - programs in tables stay on one line
"""`fetch` in actions of both runtimes: streams, aborts, redirects, refusals; and errors that nobody catches."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "n.ts": """
        "use node";
        import { action } from "./_generated/server";
        import { v, ConvexError } from "convex/values";
        import { api, internal } from "./_generated/api";
        const compile = (code) => new Function("ctx", "args", "t", `return (async () => { ${code} })()`);
        export const a = action({ args: { code: v.string(), args: v.optional(v.any()) }, handler: (ctx, { code, args }) => compile(code)(ctx, args, { ConvexError, api, internal }) });
    """,
}


class Fixture(ThreadingHTTPServer):
    """Sends a response in parts: the second one when it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.go_on = threading.Event()
        self.hung_up = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Fixture
    served = False

    def log_message(self, *_: object) -> None:
        pass

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self) -> None:
        if self.path == "/go":
            self.server.go_on.set()
            self.answer(b"gone")
        elif self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/plain")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://example.invalid/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        elif self.path == "/plain":
            self.answer(b"plain")
        elif self.path == "/once":
            if self.served:
                self.close_connection = True  # without a word, as a server that was about to close
                return
            self.served = True
            self.answer(b"once")
        else:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(b"first;")
            if self.path == "/endless":
                try:
                    while True:
                        self.chunk(b"x" * 65536)
                except OSError:
                    self.server.hung_up.set()
                    self.close_connection = True
                    return
            self.server.go_on.wait(60)
            self.chunk(b"second;")
            self.chunk(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"]))[::-1])

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def fixture(fresh: Core) -> Iterator[Fixture]:
    server = Fixture()
    fresh.control("allowFetch", origins=[server.url])
    yield server
    fresh.control("allowFetch", origins=[])
    server.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["p:a", "n:a"], ids=["default", "node"])
def action(request: pytest.FixtureRequest) -> str:
    """An action of either runtime."""
    return request.param


def run(core: Core, action: str, code: str, args: object = None) -> object:
    return core.run(action, {"code": code, "args": args})


def test_a_response_is_read_while_it_arrives(fresh: Core, fixture: Fixture, action: str) -> None:
    code = """
        const text = (bytes) => new TextDecoder().decode(bytes);
        const response = await fetch(args + "/slow");
        const reader = response.body.getReader();
        const first = text((await reader.read()).value);
        await fetch(args + "/go");
        const second = text((await reader.read()).value);
        return [response.url, first, second, (await reader.read()).done];
    """
    assert run(fresh, action, code, fixture.url) == [f"{fixture.url}/slow", "first;", "second;", True]


def test_a_response_that_is_let_go_is_closed(fresh: Core, fixture: Fixture, action: str) -> None:
    code = """
        const response = await fetch(args + "/endless");
        const reader = response.body.getReader();
        await reader.read();
        await reader.cancel();
        return response.status;
    """
    assert run(fresh, action, code, fixture.url) == 200
    assert fixture.hung_up.wait(60)


def test_a_response_nobody_reads_ends_with_the_action(fresh: Core, fixture: Fixture, action: str) -> None:
    assert run(fresh, action, "return (await fetch(args + '/endless')).status", fixture.url) == 200
    assert fixture.hung_up.wait(60)


def test_a_signal_ends_the_request_and_its_body(fresh: Core, fixture: Fixture, action: str) -> None:
    code = """
        const found = [];
        const first = new AbortController();
        const response = await fetch(args + "/endless", { signal: first.signal });
        const reader = response.body.getReader();
        await reader.read();
        first.abort(new Error("enough"));
        try { for (;;) await reader.read(); } catch (e) { found.push(e.message); }
        try { await fetch(args + "/plain", { signal: first.signal }); } catch (e) { found.push(e.message); }
        return found;
    """
    assert run(fresh, action, code, fixture.url) == ["enough", "enough"]
    assert fixture.hung_up.wait(60)


def test_bodies_redirects_and_byte_readers(fresh: Core, fixture: Fixture, action: str) -> None:
    code = """
        const again = await fetch(args + "/redirect");
        const manual = await fetch(args + "/redirect", { redirect: "manual" });
        const sent = await fetch(args + "/x", { method: "POST", body: new Blob(["abc"]).stream(), duplex: "half" });
        const byob = (await fetch(args + "/plain")).body.getReader({ mode: "byob" });
        const piece = (await byob.read(new Uint8Array(3))).value;
        const both = (await fetch(args + "/plain")).clone();
        return [await again.text(), again.url, manual.status, await sent.text(), new TextDecoder().decode(piece), await both.text()];
    """
    assert run(fresh, action, code, fixture.url) == ["plain", f"{fixture.url}/plain", 302, "cba", "pla", "plain"]


def test_a_request_never_meets_a_connection_that_its_server_gives_up(
    fresh: Core, fixture: Fixture, action: str
) -> None:
    code = "const all = []; for (let i = 0; i < 5; i++) all.push(await (await fetch(args)).text()); return all"
    assert run(fresh, action, code, f"{fixture.url}/once") == ["once"] * 5
    assert run(fresh, action, code, f"{fixture.url}/once") == ["once"] * 5


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/away", "TypeError: fetch failed: http://example.invalid cannot be reached from here"),
        ("/cut", "TypeError: fetch failed: "),
    ],
)
def test_failures_are_type_errors(fresh: Core, fixture: Fixture, action: str, path: str, error: str) -> None:
    code = "try { return await (await fetch(args)).text(); } catch (e) { return `${e.name}: ${e.message}`; }"
    assert str(run(fresh, action, code, fixture.url + path)).startswith(error)


def test_errors_that_nobody_catches_fail_their_own_action(fresh: Core, fixture: Fixture, action: str) -> None:
    """While another action of the same process is waiting, a lost rejection and a throwing timer find the call they belong to."""
    kind = "Action"
    patient = fresh.lines.begin(
        op="call",
        params={
            "path": action,
            "kind": kind,
            "args": {"code": "return await (await fetch(args + '/slow')).text()", "args": fixture.url},
        },
    )
    lost = "void Promise.reject(new Error('lost')); await new Promise((done) => setTimeout(done, 100)); return 1"
    assert fresh.fails(action, {"code": lost}).detail.startswith("Uncaught Error: lost")
    thrown = "setTimeout(() => { throw new Error('in a timer'); }, 1); await new Promise((done) => setTimeout(done, 500)); return 1"
    assert fresh.fails(action, {"code": thrown}).detail.startswith("Uncaught Error: in a timer")
    fixture.go_on.set()
    assert patient()["ok"]["value"] == "first;second;"
