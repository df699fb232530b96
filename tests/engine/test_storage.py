# ruff: noqa: E501 - programs in tables stay on one line
"""File storage: uploads, served files, metadata and deletion, in every kind of function and in components."""

import base64
import hashlib
import socket
import time
from urllib.parse import urlsplit

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS

HOUR = 3_600_000

FILES = {
    "p.ts": PROGRAMS,
    "n.ts": """
        "use node";
        import { action } from "./_generated/server";
        import { v } from "convex/values";
        const compile = (code) => new Function("ctx", "args", `return (async () => { ${code} })()`);
        export const a = action({ args: { code: v.string(), args: v.optional(v.any()) }, handler: (ctx, { code, args }) => compile(code)(ctx, args) });
    """,
    "http.ts": """
        import { httpRouter } from "convex/server";
        import { httpAction } from "./_generated/server";
        const http = httpRouter();
        const at = (path, method, handler) => http.route({ path, method, handler: httpAction(handler) });
        at("/keep", "POST", async (ctx, r) => new Response(await ctx.storage.store(await r.blob())));
        at("/show", "GET", async (ctx, r) => { const blob = await ctx.storage.get(new URL(r.url).searchParams.get("id")); return blob === null ? new Response("none", { status: 404 }) : new Response(blob); });
        at("/drop", "POST", async (ctx, r) => { await ctx.storage.delete(await r.text()); return new Response(null, { status: 204 }); });
        export default http;
    """,
    "convex.config.ts": """
        import { defineApp } from "convex/server";
        import shelf from "./shelf/convex.config";
        const app = defineApp();
        app.use(shelf);
        export default app;
    """,
    "shelf/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("shelf");',
    "shelf/f.ts": """
        import { query, mutation, action } from "./_generated/server";
        import { v } from "convex/values";
        const compile = (code) => new Function("ctx", "args", `return (async () => { ${code} })()`);
        const program = { args: { code: v.string(), args: v.optional(v.any()) }, handler: (ctx, { code, args }) => compile(code)(ctx, args) };
        export const q = query(program);
        export const m = mutation(program);
        export const a = action(program);
    """,
}

UPLOAD_URL = "return await ctx.storage.generateUploadUrl()"
GET_URL = "return await ctx.storage.getUrl(args)"


def run(core: Core, code: str, args: object = None, path: str = "p:m") -> object:
    return core.run(path, {"code": code, "args": args})


def upload(core: Core, body: bytes, headers: dict[str, str] | None = None) -> str:
    answer = request(str(run(core, UPLOAD_URL)), body, headers)
    assert answer.status == 200, answer.text
    return answer.json()["storageId"]


def rows(core: Core, component: str = "") -> list[dict]:
    return core.control("list", table="_storage", component=component)["documents"]


def digest(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"Content-Type": "image/png"}, "image/png"),
        ({"Content-Type": "text/plain; charset=utf-8"}, "text/plain; charset=utf-8"),
    ],
)
def test_an_upload_is_kept_as_it_came(fresh: Core, headers: dict[str, str], kept: str) -> None:
    body = bytes(range(256))
    identifier = upload(fresh, body, headers)
    (row,) = rows(fresh)
    assert row == {
        "_id": identifier,
        "_creationTime": row["_creationTime"],
        "contentType": kept,
        "sha256": digest(body),
        "size": 256,
    }
    metadata = run(fresh, "return await ctx.storage.getMetadata(args)", identifier, "p:q")
    assert isinstance(metadata, dict)
    assert (metadata["sha256"], metadata["size"], metadata["contentType"]) == (
        hashlib.sha256(body).hexdigest(),
        256,
        kept,
    )


def raw(url: str, head: str, body: bytes) -> bytes:
    """What the server says to bytes on a socket that is then closed."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
        client.sendall(
            f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n".encode()
            + body
        )
        client.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := client.recv(65536):
            received += chunk
        return received


def test_no_content_type_and_encoded_bytes(fresh: Core) -> None:
    assert b"200 OK" in raw(str(run(fresh, UPLOAD_URL)), "Content-Length: 3", b"abc")
    (row,) = rows(fresh)
    assert row["contentType"] is None
    url = str(run(fresh, GET_URL, row["_id"], "p:q"))
    assert request(url).headers["Content-Type"] is None
    identifier = upload(fresh, b"not really gzip", {"Content-Encoding": "gzip", "Content-Type": "x/y"})
    assert request(str(run(fresh, GET_URL, identifier, "p:q"))).body == b"not really gzip"


def test_a_url_takes_several_uploads_for_an_hour(fresh: Core) -> None:
    fresh.control("clock.start", time=1_700_000_000_000)
    try:
        url = str(run(fresh, UPLOAD_URL))
        assert request(url, b"a").status == 200
        fresh.control("clock.advance", ms=HOUR - 1)
        assert request(url, b"b").status == 200
        fresh.control("clock.advance", ms=2)
        late = request(url, b"c")
        assert (late.status, late.json()["code"]) == (401, "StorageTokenExpired")
        assert len(rows(fresh)) == 2
    finally:
        fresh.control("reset")


@pytest.mark.parametrize(
    ("change", "headers", "status", "code"),
    [
        (lambda url: url.split("?", maxsplit=1)[0], {}, 400, "BadQueryArgs"),
        (lambda url: url[:-6] + "AAAAAA", {}, 401, "StorageTokenInvalid"),
        (lambda url: url.split("=", maxsplit=1)[0] + "=x", {}, 401, "StorageTokenInvalid"),
        (lambda url: url, {"Digest": "sha-256=" + digest(b"other")}, 400, "Sha256Mismatch"),
        (lambda url: url, {"Digest": "md5=x"}, 400, "BadHeader"),
    ],
    ids=["no token", "forged token", "garbled token", "other digest", "bad digest"],
)
def test_uploads_that_are_refused(fresh: Core, change, headers: dict[str, str], status: int, code: str) -> None:
    answer = request(change(str(run(fresh, UPLOAD_URL))), b"body", headers)
    assert (answer.status, answer.json()["code"]) == (status, code)
    assert rows(fresh) == []


def test_digests_and_methods(fresh: Core) -> None:
    upload(fresh, b"body", {"Digest": f"sha-256={digest(b'body')}"})
    assert request(str(run(fresh, UPLOAD_URL)), b"body", method="PUT").status == 405
    assert len(rows(fresh)) == 1


@pytest.mark.parametrize(
    ("head", "body"),
    [("Content-Length: 100", b"only this"), ("Transfer-Encoding: chunked", b"9\r\nonly this\r\n64\r\nand")],
    ids=["length", "chunked"],
)
def test_an_upload_cut_short_stores_nothing(fresh: Core, head: str, body: bytes) -> None:
    parts = urlsplit(str(run(fresh, UPLOAD_URL)))
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as client:
        client.sendall(f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + body)
        time.sleep(0.2)
    for _ in range(3):
        upload(fresh, b"whole")
    assert {row["sha256"] for row in rows(fresh)} == {digest(b"whole")}


@pytest.mark.parametrize(
    ("range_", "status", "body", "content_range"),
    [
        (None, 200, b"0123456789", None),
        ("bytes=2-5", 206, b"2345", "bytes 2-5/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=5-2", 416, b"", "bytes */10"),
        ("bytes=0-1,4-5", 416, b"", "bytes */10"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_served_files(
    fresh: Core, method: str, range_: str | None, status: int, body: bytes, content_range: str | None
) -> None:
    url = str(run(fresh, GET_URL, upload(fresh, b"0123456789", {"Content-Type": "text/x-ten"}), "p:q"))
    answer = request(url, headers={} if range_ is None else {"Range": range_}, method=method)
    assert (answer.status, answer.body) == (status, body if method == "GET" else b"")
    assert answer.headers["Content-Range"] == content_range
    if status != 416:
        kept = ("Content-Type", "Content-Length", "Cache-Control", "Accept-Ranges", "Digest")
        expected = [
            "text/x-ten",
            str(len(body)),
            "private, max-age=2592000",
            "bytes",
            f"sha-256={digest(b'0123456789')}" if range_ is None else None,
        ]
        assert [answer.headers[name] for name in kept] == expected


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("nonsense", 400, "InvalidStoragePath"), ("00000000-0000-0000-0000-000000000000", 404, "FileNotFound")],
)
def test_files_that_are_not_there(fresh: Core, path: str, status: int, code: str) -> None:
    answer = request(f"{fresh.url}/api/storage/{path}")
    assert (answer.status, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("path", ["p:q", "p:m", "p:a", "n:a"])
def test_urls_and_metadata_in_every_kind_of_function(fresh: Core, path: str) -> None:
    identifier = upload(fresh, b"x", {"Content-Type": "a/b"})
    code = """
        const found = [typeof await ctx.storage.getUrl(args), (await ctx.storage.getMetadata(args)).size];
        for (const wrong of ["nonsense", ""]) { try { await ctx.storage.getUrl(wrong); found.push("no error"); } catch (e) { found.push(/Invalid argument `storageId` for `storage.getUrl`/.test(e.message)); } }
        found.push(await ctx.storage.getUrl("00000000-0000-0000-0000-000000000000"));
        return found;
    """
    assert run(fresh, code, identifier, path) == ["string", 1, True, True, None]


@pytest.mark.parametrize("path", ["p:m", "p:a", "n:a"])
def test_deletion_and_blobs_in_functions_that_write(fresh: Core, path: str) -> None:
    identifier = upload(fresh, b"bytes", {"Content-Type": "a/b"})
    url = str(run(fresh, GET_URL, identifier, "p:q"))
    assert run(fresh, "const b = await ctx.storage.get(args); return [await b.text(), b.type]", identifier, path) == [
        "bytes",
        "a/b",
    ]
    run(fresh, "await ctx.storage.delete(args)", identifier, path)
    assert request(url).status == 404
    assert run(fresh, "return await ctx.storage.get(args)", identifier, path) is None
    again = fresh.fails(path, {"code": "await ctx.storage.delete(args)", "args": identifier})
    assert f"storage id {identifier} not found" in again.message
    stored = run(fresh, 'return await ctx.storage.store(new Blob(["new"], { type: "c/d" }))', None, path)
    assert [(row["_id"], row["contentType"], row["size"]) for row in rows(fresh)] == [(stored, "c/d", 3)]
    wrong = "await ctx.storage.store(new Blob(['new']), { sha256: args })"
    if path != "p:m":
        assert "Sha256 mismatch" in fresh.fails(path, {"code": wrong, "args": "0" * 64}).message


def test_http_actions_store_show_and_delete(fresh: Core) -> None:
    identifier = request(f"{fresh.site}/keep", b"hello", {"Content-Type": "a/b"}).text
    shown = request(f"{fresh.site}/show?id={identifier}")
    assert (shown.body, shown.headers["Content-Type"]) == (b"hello", "a/b")
    assert request(f"{fresh.site}/drop", identifier.encode()).status == 204
    assert request(f"{fresh.site}/show?id={identifier}").status == 404
    assert request(f"{fresh.site}/drop", identifier.encode()).status == 500


def test_a_mutation_that_fails_keeps_what_it_deleted(fresh: Core) -> None:
    identifier = upload(fresh, b"x")
    fresh.fails("p:m", {"code": "await ctx.storage.delete(args); throw new Error('no')", "args": identifier})
    assert [row["_id"] for row in rows(fresh)] == [identifier]
    fresh.fails("p:m", {"code": "await ctx.storage.store(new Blob(['y'])); throw new Error('no')"})
    assert len(rows(fresh)) == 1


def test_ids_of_other_tables(fresh: Core) -> None:
    other = run(fresh, 'return await ctx.db.insert("t", {})')
    assert "Invalid storage ID." in fresh.fails("p:q", {"code": GET_URL, "args": other}).message


def test_a_component_has_files_of_its_own(fresh: Core) -> None:
    def inside(code: str, args: object = None, fn: str = "m") -> object:
        return fresh.run(f"f:{fn}", {"code": code, "args": args}, component="shelf", identity="admin")

    identifier = request(str(inside(UPLOAD_URL)), b"inner", {"Content-Type": "a/b"}).json()["storageId"]
    assert ([row["_id"] for row in rows(fresh, "shelf")], rows(fresh)) == ([identifier], [])
    url = str(inside(GET_URL, identifier, "q"))
    assert "?component=" in url
    assert request(url).body == b"inner"
    assert run(fresh, GET_URL, identifier, "p:q") is None
    stored = inside("return await ctx.storage.store(new Blob(['more']))", None, "a")
    assert inside("return await (await ctx.storage.get(args)).text()", stored, "a") == "more"
    for one in (identifier, stored):
        inside("await ctx.storage.delete(args)", one)
    assert request(url).status == 404


def test_subscribed_queries_hear_of_files(fresh: Core) -> None:
    """The system table is read like others, newest last."""
    ids = [upload(fresh, bytes([n])) for n in range(3)]
    assert run(fresh, 'return (await ctx.db.system.query("_storage").collect()).map((f) => f._id)', None, "p:q") == ids
    assert run(fresh, "return (await ctx.db.system.get(args)).size", ids[0], "p:q") == 1
