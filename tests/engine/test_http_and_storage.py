# ruff: noqa: E501 - programs in tables stay on one line
"""HTTP actions, the function API, file storage and the limits of the HTTP front."""

import hashlib
import json

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "http.ts": """
        import { httpRouter } from "convex/server";
        import { httpAction } from "./_generated/server";
        import { ConvexError } from "convex/values";
        import { internal } from "./_generated/api";
        const http = httpRouter();
        const at = (path, method, handler) => http.route({ path, method, handler: httpAction(handler) });
        at("/echo", "POST", async (ctx, request) => new Response(await request.text(), { status: 201, headers: { "X-Mine": "yes", "Content-Type": "text/x-own" } }));
        at("/own", "POST", async (_, r) => { const j = await r.json(); return Response.json([j.constructor === Array, Object.getPrototypeOf(j[0]) === Object.prototype, (await new Response("[]").json()) instanceof Array]); });
        at("/exact", "GET", async () => new Response("exact"));
        http.route({ pathPrefix: "/", method: "GET", handler: httpAction(async (_, r) => new Response("short " + new URL(r.url).pathname + new URL(r.url).search)) });
        http.route({ pathPrefix: "/long/", method: "GET", handler: httpAction(async () => new Response("long")) });
        at("/boom", "GET", async () => { throw new Error("bang"); });
        at("/data", "GET", async () => { throw new ConvexError({ a: 1 }); });
        at("/wrong", "GET", async () => "not a response");
        at("/stream", "GET", async () => new Response(new ReadableStream({ start(c) { for (const part of ["one ", "two ", "three"]) c.enqueue(new TextEncoder().encode(part)); c.close(); } })));
        at("/who", "GET", async (ctx) => { try { return Response.json(await ctx.auth.getUserIdentity()); } catch (e) { return new Response(e.message, { status: 299 }); } });
        at("/write", "POST", async (ctx, r) => Response.json(await ctx.runMutation(internal.p.innerM, { code: await r.text() })));
        at("/url", "GET", async (_, r) => new Response(r.url));
        at("/store", "POST", async (ctx, r) => Response.json(await ctx.storage.store(await r.blob())));
        at("/none", "GET", async () => new Response(null, { status: 204 }));
        export default http;
    """,
}


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/exact", 200, "exact"),
        ("GET", "/exact/", 200, "short /exact/"),
        ("GET", "/long/x", 200, "long"),
        ("GET", "/other?q=1", 200, "short /other?q=1"),
        ("HEAD", "/exact", 200, ""),
        ("POST", "/exact", 404, "No matching routes found"),
        ("OPTIONS", "/exact", 404, "No matching routes found"),
        ("GET", "/stream", 200, "one two three"),
        ("GET", "/none", 204, ""),
    ],
)
def test_routing(fresh: Core, method: str, path: str, status: int, text: str) -> None:
    answer = request(fresh.site + path, method=method)
    assert (answer.status, answer.text) == (status, text)
    assert request(f"{fresh.url}/http{path}", method=method).status == status


def test_requests_and_responses_pass_unchanged(fresh: Core) -> None:
    answer = request(f"{fresh.site}/echo", "grüße".encode(), {"Content-Type": "text/plain"})
    assert (answer.status, answer.text, answer.headers["X-Mine"], answer.headers["Content-Type"]) == (
        201,
        "grüße",
        "yes",
        "text/x-own",
    )
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert request(f"{fresh.site}/url?a=b").text == f"{fresh.site}/url?a=b"
    assert request(f"{fresh.site}/own", b"[{}]").json() == [True, True, True]
    assert request(f"{fresh.site}/own", b"{").json()["code"].split(": ", 2)[2].startswith("Uncaught SyntaxError: ")
    assert request(f"{fresh.site}/write", b'return typeof await ctx.db.insert("t", {})').json() == "string"


def test_failures_of_http_actions(fresh: Core) -> None:
    boom = request(f"{fresh.site}/boom")
    assert boom.status == 500
    assert boom.json()["code"].endswith("Server Error: Uncaught Error: bang")
    assert boom.json()["trace"].startswith("Uncaught Error: bang\n    at ")
    assert request(f"{fresh.site}/data").json()["data"] == {"a": 1}
    assert request(f"{fresh.site}/wrong").status == 500


def test_identity_of_http_actions(fresh: Core) -> None:
    assert request(f"{fresh.site}/who").json() is None
    refused = request(f"{fresh.site}/who", headers={"Authorization": "Bearer a.b.c"})
    assert refused.status == 299
    assert "Could not parse JWT payload" in refused.text


def test_no_http_actions(bundler, core: Core) -> None:
    plain = Core()
    try:
        answer = request(f"{plain.site}/x")
        assert (answer.status, answer.text) == (404, "This Convex deployment does not have HTTP actions enabled.")
    finally:
        plain.close()


def test_the_function_api(fresh: Core) -> None:
    def post(endpoint: str, **body: object) -> tuple[int, dict]:
        answer = fresh.post(endpoint, body)
        return answer.status, answer.json()

    code = {"code": "console.log('x'); return { i: 5n, n: NaN, b: new Uint8Array([1]).buffer }"}
    assert post("/api/query", path="p:q", args=code) == (
        200,
        {"status": "success", "value": {"b": "AQ==", "i": "5", "n": "NaN"}, "logLines": ["[LOG] 'x'"]},
    )
    encoded = post("/api/query", path="p:q", args=[code], format="convex_encoded_json")[1]["value"]
    assert encoded["i"] == {"$integer": "BQAAAAAAAAA="}
    assert post("/api/query", path="p:q", args={"code": "return 1"}) == (200, {"status": "success", "value": 1})
    status, error = post("/api/mutation", path="p:m", args={"code": "throw new t.ConvexError('why')"})
    assert (status, error["status"], error["errorData"]) == (200, "error", "why")
    assert post("/api/query", path="p:m", args={"code": ""})[1]["errorMessage"].endswith(
        "Trying to execute p.js:m as Query, but it is defined as Mutation."
    )
    assert post("/api/query", path="none:x", args={})[1]["errorMessage"].endswith(
        "Could not find public function for 'none:x'."
    )
    assert post("/api/run/p/q", args={"code": "return 3"})[1]["value"] == 3
    assert post("/api/run/p/innerQ", args={"code": ""})[1]["errorMessage"].endswith(
        "Could not find function for 'p:innerQ'. Did you forget to run `npx convex dev`?"
    )
    assert post("/api/query", path="p:q")[1]["code"] == "BadJsonBody"
    assert post("/api/query", path="p:q", args={}, format="odd")[1]["code"] == "BadFormat"
    assert (
        post("/api/query_batch", queries=[{"path": "p:q", "args": {"code": "return 1"}}])[1]["results"][0]["value"] == 1
    )
    query = request(f"{fresh.url}/api/query?path=p:q&args=" + json.dumps({"code": "return+1"}).replace(" ", ""))
    assert query.json()["value"] == 1


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/api/nothing", {}, 404, "NotFound"),
        ("/api/get_config_hashes", {}, 403, "BadDeployKey"),
        ("/api/query", {"Authorization": "Convex wrong"}, 403, "BadDeployKey"),
        ("/api/query", {"Authorization": "Basic abcdefg"}, 400, "InvalidAdminKey"),
        ("/api/query", {"Authorization": "Bearer x.y.z"}, 401, "InvalidAuthHeader"),
    ],
)
def test_bad_requests_get_a_code(fresh: Core, path: str, headers: dict[str, str], status: int, code: str) -> None:
    body = json.dumps({"path": "p:q", "args": {"code": ""}}).encode()
    answer = request(fresh.url + path, body, {"Content-Type": "application/json", **headers})
    assert (answer.status, answer.json()["code"]) == (status, code)


def test_bodies_that_are_not_json_or_too_large(fresh: Core) -> None:
    kinds = [(b"{", "application/json"), (b"{}", "text/plain"), (b'"' + b"x" * 17_000_000 + b'"', "application/json")]
    for body, kind in kinds:
        answer = request(f"{fresh.url}/api/query", body, {"Content-Type": kind})
        assert (answer.status, answer.json()["code"]) == (400, "BadJsonBody")
    assert fresh.run("p:q", {"code": "return 1"}) == 1


def test_cross_origin_requests(fresh: Core) -> None:
    answer = request(
        f"{fresh.url}/api/query",
        headers={"Origin": "http://site", "Access-Control-Request-Headers": "x-a"},
        method="OPTIONS",
    )
    assert (answer.headers["Access-Control-Allow-Origin"], answer.headers["Access-Control-Allow-Headers"]) == (
        "http://site",
        "x-a",
    )


def upload(app: Core, body: bytes, **headers: str) -> str:
    url = app.run("p:m", {"code": "return await ctx.storage.generateUploadUrl()"})
    return request(url, body, headers).json()["storageId"]


def test_files_are_uploaded_served_and_deleted(fresh: Core) -> None:
    identifier = upload(fresh, b"hello", **{"Content-Type": "text/x-mine"})
    row = fresh.run("p:q", {"code": "return await ctx.db.system.get(args)", "args": identifier})
    digest = hashlib.sha256(b"hello")
    assert (row["size"], row["contentType"]) == (5, "text/x-mine")
    url = fresh.run("p:q", {"code": "return await ctx.storage.getUrl(args)", "args": identifier})
    served = request(url)
    assert (served.status, served.body, served.headers["Content-Type"]) == (200, b"hello", "text/x-mine")
    part = request(url, headers={"Range": "bytes=1-3"})
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, b"ell", "bytes 1-3/5")
    assert request(url, headers={"Range": "bytes=9-"}).status == 416
    metadata = fresh.run("p:q", {"code": "return await ctx.storage.getMetadata(args)", "args": identifier})
    assert (metadata["sha256"], len(metadata["storageId"])) == (digest.hexdigest(), 36)
    fresh.run("p:m", {"code": "await ctx.storage.delete(args)", "args": identifier})
    assert request(url).json()["code"] == "FileNotFound"
    assert fresh.run("p:q", {"code": "return await ctx.storage.getUrl(args)", "args": identifier}) is None
    assert (
        f"storage id {identifier} not found"
        in fresh.fails("p:m", {"code": "await ctx.storage.delete(args)", "args": identifier}).message
    )


def test_files_in_actions(fresh: Core) -> None:
    code = 'const id = await ctx.storage.store(new Blob(["abc"], { type: "text/plain" })); const blob = await ctx.storage.get(id); return [await blob.text(), blob.type, await (await fetch(await ctx.storage.getUrl(id))).text()]'
    assert fresh.run("p:a", {"code": code}) == ["abc", "text/plain", "abc"]
    assert "store() expects a Blob." in fresh.fails("p:a", {"code": 'await ctx.storage.store("x")'}).message
    assert isinstance(request(f"{fresh.site}/store", b"x").json(), str)


def test_wrong_uploads(fresh: Core) -> None:
    assert request(f"{fresh.url}/api/storage/upload", b"").json()["code"] == "BadQueryArgs"
    assert request(f"{fresh.url}/api/storage/upload?token=zzz", b"").status == 401
    url = fresh.run("p:m", {"code": "return await ctx.storage.generateUploadUrl()"})
    assert request(url, b"x", {"Digest": "sha-256=" + "A" * 43 + "="}).json()["code"] == "Sha256Mismatch"
    assert request(f"{fresh.url}/api/storage/nonsense").json()["code"] == "InvalidStoragePath"


def test_system_tables_are_read_only_and_apart(fresh: Core) -> None:
    identifier = upload(fresh, b"x")
    assert (
        "System tables can only be accessed with db.system."
        in fresh.fails("p:q", {"code": "await ctx.db.get(args)", "args": identifier}).message
    )
    fresh.run("p:m", {"code": 'await ctx.db.insert("t", {})'})
    code = 'await ctx.db.system.get((await ctx.db.query("t").first())._id)'
    assert "User tables cannot be accessed with db.system." in fresh.fails("p:q", {"code": code}).message
    usage = fresh.call("p:q", {"code": 'return await ctx.db.system.query("_storage").collect()'})["usage"]
    assert usage["documentsRead"] == 0
