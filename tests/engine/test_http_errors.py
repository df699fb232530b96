# ruff: noqa: E501 - programs in tables stay on one line
"""What the HTTP API answers to wrong requests, in words, and that the next client is served."""

import base64
import gzip
import json
import socket
from typing import Any

import pytest

from .support.core import Core, Response, request
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "http.ts": """
        import { httpRouter } from "convex/server";
        import { httpAction } from "./_generated/server";
        const http = httpRouter();
        http.route({ path: "/size", method: "POST", handler: httpAction(async (_, r) => new Response(String((await r.arrayBuffer()).byteLength))) });
        http.route({ path: "/large", method: "GET", handler: httpAction(async (_, r) => {
          let left = Number(new URL(r.url).searchParams.get("n"));
          return new Response(new ReadableStream({ pull(c) { if (left === 0) return c.close(); const n = Math.min(left, 1 << 20); c.enqueue(new Uint8Array(n)); left -= n; } }));
        }) });
        export default http;
    """,
}
JSON = {"Content-Type": "application/json"}
ONE = {"path": "p:q", "args": {"code": "return 1"}}
MIB = 1024 * 1024


def ask(app: Core, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return request(app.url + path, sent, {**JSON, **(headers or {})}, method)


def next_client_is_served(app: Core) -> None:
    assert app.post("/api/query", ONE).json() == {"status": "success", "value": 1}


def call(**change: Any) -> dict[str, Any]:
    return {**ONE, **change}


KEY = "The provided deploy key was invalid for deployment"
CASES = {
    "unknown endpoint": (("POST", "/api/nothing", ONE), 404, "NotFound", "No such endpoint: /api/nothing"),
    "unknown version": (("GET", "/api/v9/sync2"), 404, "NotFound", "No such endpoint: /api/v9/sync2"),
    "no path at all": (("GET", "//"), 400, "BadRequest", "Not a path: //"),
    "wrong method": (
        ("GET", "/api/mutation"),
        405,
        "MethodNotAllowed",
        "/api/mutation does not answer GET, only POST",
    ),
    "upload by PUT": (
        ("PUT", "/api/storage/upload?token=x", b"x"),
        405,
        "MethodNotAllowed",
        "/api/storage/upload does not answer PUT, only GET and HEAD and POST",
    ),
    "wrong key": (("POST", "/api/query", ONE, {"Authorization": "Convex wrong"}), 403, "BadDeployKey", KEY),
    "wrong key in the body": (("POST", "/api/get_config_hashes", {"adminKey": "wrong"}), 403, "BadDeployKey", KEY),
    "key of the wrong type": (
        ("POST", "/api/get_config_hashes", {"adminKey": {"toString": 1}}),
        403,
        "BadDeployKey",
        KEY,
    ),
    "wrong key in the query": (("GET", "/api/check_admin_key?adminKey=wrong"), 403, "BadDeployKey", KEY),
    "no key": (("GET", "/api/list_environment_variables"), 403, "BadDeployKey", KEY),
    "no key for any function": (("POST", "/api/function", ONE), 403, "BadDeployKey", KEY),
    "short header": (
        ("POST", "/api/query", ONE, {"Authorization": "Bearer"}),
        400,
        "InvalidHeaderFailure",
        "Invalid authorization header",
    ),
    "other scheme": (
        ("POST", "/api/query", ONE, {"Authorization": "Basic abcdef"}),
        400,
        "InvalidAdminKey",
        "Unknown authorization scheme",
    ),
    "no token": (
        ("POST", "/api/query", ONE, {"Authorization": "Bearer x.y.z"}),
        401,
        "InvalidAuthHeader",
        "Could not parse JWT payload.",
    ),
    "not JSON": (("POST", "/api/query", b"{"), 400, "BadJsonBody", "Failed to parse the request body as JSON:"),
    "empty": (("POST", "/api/query", b""), 400, "BadJsonBody", "Failed to parse the request body as JSON:"),
    "JSON but no object": (("POST", "/api/query", b"5"), 400, "BadJsonBody", "The request body must be a JSON object"),
    "a list": (("POST", "/api/query", b"[]"), 400, "BadJsonBody", "missing field `path`"),
    "wrong content type": (
        ("POST", "/api/query", ONE, {"Content-Type": "text/plain"}),
        400,
        "BadJsonBody",
        "Expected request with `Content-Type: application/json`",
    ),
    "no content type": (
        ("POST", "/api/query", ONE, {"Content-Type": ""}),
        400,
        "BadJsonBody",
        "Expected request with `Content-Type: application/json`",
    ),
    "unknown encoding": (
        ("POST", "/api/query", ONE, {"Content-Encoding": "constructor"}),
        400,
        "BadEncoding",
        "Unknown content encoding constructor",
    ),
    "not compressed": (
        ("POST", "/api/query", ONE, {"Content-Encoding": "gzip"}),
        400,
        "BadEncoding",
        "Could not decompress the request body",
    ),
    "no path": (("POST", "/api/query", {"args": {}}), 400, "BadJsonBody", "missing field `path`"),
    "path of the wrong type": (
        ("POST", "/api/query", call(path={"toString": 1})),
        400,
        "BadJsonBody",
        "missing field `path`",
    ),
    "wrong path": (
        ("POST", "/api/query", call(path="a b:c")),
        400,
        "BadConvexFunctionIdentifier",
        "a b:c is not a valid path to a Convex function.",
    ),
    "empty path": (
        ("POST", "/api/query", call(path="")),
        400,
        "BadConvexFunctionIdentifier",
        " is not a valid path to a Convex function.",
    ),
    "path in the query": (
        ("GET", "/api/query?path=:&args={}"),
        400,
        "BadConvexFunctionIdentifier",
        ": is not a valid path to a Convex function.",
    ),
    "args of a query": (
        ("GET", "/api/query?path=p:q&args={"),
        400,
        "BadQueryArgs",
        "Failed to parse args as JSON",
    ),
    "short run path": (
        ("POST", "/api/run/p", {"args": {}}),
        400,
        "MissingIdentifier",
        "The path must name a module and a function",
    ),
    "no args": (("POST", "/api/mutation", {"path": "p:m"}), 400, "BadJsonBody", "missing field `args`"),
    "args are text": (
        ("POST", "/api/mutation", call(args="x")),
        400,
        "BadJsonBody",
        "invalid field `args`: it must be an object, or a list of positional arguments",
    ),
    "args are a number": (
        ("POST", "/api/action", call(args=5)),
        400,
        "BadJsonBody",
        "invalid field `args`: it must be an object, or a list of positional arguments",
    ),
    "unknown format": (("POST", "/api/query", call(format="odd")), 400, "BadFormat", "Unknown format odd"),
    "format of the wrong type": (
        ("POST", "/api/query", call(format={"toString": 1})),
        400,
        "BadFormat",
        'Unknown format {"toString":1}',
    ),
    "batch of nothing": (
        ("POST", "/api/query_batch", {"queries": [None]}),
        400,
        "BadJsonBody",
        "missing or invalid field `queries`: it must be a list of queries",
    ),
    "no batch": (
        ("POST", "/api/query_batch", {}),
        400,
        "BadJsonBody",
        "missing or invalid field `queries`: it must be a list of queries",
    ),
    "no timestamp": (
        ("POST", "/api/query_at_ts", ONE),
        400,
        "BadJsonBody",
        "missing or invalid field `ts`: it must be a timestamp of /api/query_ts",
    ),
    "timestamp of the future": (
        ("POST", "/api/query_at_ts", call(ts=base64.b64encode((2**63).to_bytes(8, "little")).decode())),
        400,
        "InvalidTimestamp",
        "The timestamp is ahead of the server: use one of /api/query_ts",
    ),
    "timestamp of long ago": (
        ("POST", "/api/query_at_ts", call(ts=base64.b64encode((1).to_bytes(8, "little")).decode())),
        503,
        "OutOfRetention",
        "The state at this timestamp is no longer kept: ask /api/query_ts for a newer one",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_request_is_told_what_is_wrong(fresh: Core, case: str) -> None:
    sent, status, code, message = CASES[case]
    answer = ask(fresh, *sent)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json"), answer.text
    error = answer.json()
    assert set(error) == {"code", "message"}
    assert error["code"] == code
    assert error["message"] == message or (message[-1] in ".:" and error["message"].startswith(message))
    next_client_is_served(fresh)


ADMIN_CASES = {
    "a change that is none": (
        "/api/update_environment_variables",
        {"changes": [None]},
        "BadJsonBody",
        "invalid field `changes`: each change needs a `name` and a `value`",
    ),
    "a name that is none": (
        "/api/update_environment_variables",
        {"changes": [{"name": {"toString": 1}, "value": "x"}]},
        "EnvironmentVariableNameInvalid",
        'Environment variable name "{"toString":1}" is invalid: it must start with a letter and only contain letters, numbers, and underscores.',
    ),
    "a job without id": ("/api/cancel_job", {}, "BadJsonBody", "missing field `id`"),
    "a job of no component": (
        "/api/cancel_job",
        {"id": "x", "componentId": "none"},
        "InvalidComponentId",
        'Component "none" not found',
    ),
    "jobs of no component": (
        "/api/cancel_all_jobs",
        {"componentId": {"toString": 1}},
        "InvalidComponentId",
        'Component {"toString":1} not found',
    ),
    "jobs of no function": (
        "/api/cancel_all_jobs",
        {"udfPath": "a b"},
        "BadConvexFunctionIdentifier",
        "a b is not a valid path to a Convex function.",
    ),
    "jobs of no time": (
        "/api/cancel_all_jobs",
        {"startNextTs": "soon"},
        "BadJsonBody",
        "invalid field `startNextTs`: it must be a number of nanoseconds",
    ),
    "tables that are none": (
        "/api/delete_tables",
        {"tableNames": [5]},
        "BadJsonBody",
        "missing or invalid field `tableNames`: it must be a list of names",
    ),
    "a system table": (
        "/api/delete_tables",
        {"tableNames": ["_storage"]},
        "InvalidTableName",
        'Cannot delete system table "_storage"',
    ),
}


@pytest.mark.parametrize("case", ADMIN_CASES)
def test_a_wrong_request_of_an_administrator_too(fresh: Core, case: str) -> None:
    path, body, code, message = ADMIN_CASES[case]
    answer = fresh.post(path, body, fresh.key)
    assert (answer.status, answer.json()) == (400, {"code": code, "message": message})
    next_client_is_served(fresh)


def test_a_key_is_accepted_in_the_header_the_body_and_the_query(fresh: Core) -> None:
    assert fresh.post("/api/check_admin_key", {}, fresh.key).json() == {"success": True}
    assert fresh.post("/api/check_admin_key", {"adminKey": fresh.key}).json() == {"success": True}
    query = request(f"{fresh.url}/api/check_admin_key?adminKey={fresh.key.replace('|', '%7C')}")
    assert query.json() == {"success": True}
    lower = ask(fresh, "POST", "/api/check_admin_key", {}, {"Authorization": f"convex {fresh.key}"})
    assert lower.json() == {"success": True}


def test_the_health_of_a_deployment(fresh: Core) -> None:
    assert request(f"{fresh.url}/").text.startswith("This Convex deployment is running.")
    assert request(f"{fresh.url}/instance_name").text == fresh.ready["instanceName"]
    assert (
        request(f"{fresh.url}/version").text == request(f"{fresh.url}/instance_version").text == fresh.ready["version"]
    )


# ── large bodies ────────────────────────────────────────────────────────────────────────────────────────────────────


def padded(size: int) -> bytes:
    """A valid request of exactly this many bytes."""
    body = json.dumps(ONE).encode()
    return body + b" " * (size - len(body))


def test_the_largest_body_of_a_call_and_one_byte_more(fresh: Core) -> None:
    limit = 16 * MIB + 2000
    assert ask(fresh, "POST", "/api/query", padded(limit)).json() == {"status": "success", "value": 1}
    refused = ask(fresh, "POST", "/api/query", padded(limit + 1))
    assert (refused.status, refused.json()) == (
        400,
        {"code": "BadJsonBody", "message": f"Request body is larger than {limit} bytes"},
    )
    next_client_is_served(fresh)


def test_a_body_that_is_small_only_while_compressed(fresh: Core) -> None:
    body = gzip.compress(padded(64 * MIB))
    assert len(body) < MIB
    answer = ask(fresh, "POST", "/api/query", body, {"Content-Encoding": "gzip"})
    assert (answer.status, answer.json()["code"]) == (400, "BadEncoding")
    next_client_is_served(fresh)


def test_the_largest_request_of_an_http_action_and_one_byte_more(fresh: Core) -> None:
    assert request(f"{fresh.site}/size", bytes(20 * MIB)).text == str(20 * MIB)
    try:
        status = request(f"{fresh.site}/size", bytes(20 * MIB + 1)).status
    except OSError:
        status = 400
    assert 400 <= status < 600
    assert request(f"{fresh.site}/size", b"xyz").text == "3"


def test_the_response_of_an_http_action_is_cut_at_its_limit(fresh: Core) -> None:
    assert len(request(f"{fresh.site}/large?n={20 * MIB}").body) == 20 * MIB
    assert len(request(f"{fresh.site}/large?n={25 * MIB}").body) == 20 * MIB
    assert any("HttpResponseTooLarge" in line for entry in fresh.control("logs") for line in entry["logLines"])
    next_client_is_served(fresh)


def test_a_client_that_leaves_in_the_middle_of_its_body(fresh: Core) -> None:
    host, port = fresh.url.removeprefix("http://").split(":")
    for length in (100, 300 * MIB):
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(
                f"POST /api/query HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{".encode()
            )
    next_client_is_served(fresh)


# ── consistent queries ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_query_at_a_timestamp_reads_what_was_there_then(fresh: Core) -> None:
    count = {"path": "p:q", "args": {"code": "return (await ctx.db.query('t').collect()).length"}}

    def at(ts: str) -> Any:
        return fresh.post("/api/query_at_ts", {**count, "ts": ts}).json()["value"]

    stamps = []
    for _ in range(3):
        stamps.append(request(f"{fresh.url}/api/query_ts", b"", method="POST").json()["ts"])
        fresh.control("insert", table="t", documents=[{}])
    assert [at(ts) for ts in stamps] == [0, 1, 2]
    assert fresh.post("/api/query", count).json()["value"] == 3
    now = request(f"{fresh.url}/api/query_ts", b"", method="POST").json()["ts"]
    assert at(now) == 3
    fresh.control("reset")
    assert fresh.post("/api/query_at_ts", {**count, "ts": stamps[0]}).json()["code"] == "OutOfRetention"


def test_a_batch_reads_at_one_timestamp(fresh: Core) -> None:
    """Queries of one batch do not see a write that is made between them."""
    fresh.control("insert", table="t", documents=[{}])
    slow = {
        "path": "p:q",
        "args": {"code": "for (let i = 0; i < 3e6; i++); return (await ctx.db.query('t').collect()).length"},
    }
    for _ in range(3):
        pending = fresh.lines.begin(op="call", params={"path": "p:m", "args": {"code": "await ctx.db.insert('t', {})"}})
        results = fresh.post("/api/query_batch", {"queries": [slow] * 8}).json()["results"]
        pending()
        assert len({result["value"] for result in results}) == 1
