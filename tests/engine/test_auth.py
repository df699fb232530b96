# ruff: noqa: E501 - programs in tables stay on one line
"""Identities: tokens of configured providers, acting as, what each may call."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core, request
from .support.issuer import Issuer
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node
from .support.sockets import Frames


def inline(issuer: Issuer) -> str:
    keys = json.dumps({"keys": [issuer.public_key("ES256")]}).encode()
    return f"data:text/plain;charset=utf-8;base64,{base64.b64encode(keys).decode()}"


@pytest.fixture(scope="module")
def app(core: Core, bundler: Bundler, issuer: Issuer) -> Core:
    config = f"""export default {{ providers: [
        {{ domain: "{issuer.url}", applicationID: "app" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.url}/jwks", algorithm: "ES256", applicationID: "custom" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{inline(issuer)}", algorithm: "ES256", applicationID: "inline" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.serve("/text", {"keys": []}, "text/plain")}", algorithm: "ES256", applicationID: "text" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.serve("/odd", {"keys": {"filter": 1}})}", algorithm: "ES256", applicationID: "odd" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.serve("/list", [None, {"toString": 1}])}", algorithm: "ES256", applicationID: "list" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.serve("/gone", {}, status=503)}", algorithm: "ES256", applicationID: "gone" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.serve("/mixed", {"keys": [None, {"kty": {"toString": 1}, "kid": "ES256"}, issuer.public_key("ES256")]})}", algorithm: "ES256", applicationID: "mixed" }} ] }};"""
    bundler.push(core, {"p.ts": PROGRAMS, "auth.config.ts": config})
    core.control("allowFetch", origins=[issuer.url])
    return core


WHO = {"path": "p:q", "args": {"code": "return await ctx.auth.getUserIdentity()"}}


def who(app: Core, token: str) -> tuple[int, dict]:
    answer = request(
        f"{app.url}/api/query",
        json.dumps(WHO).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    return answer.status, answer.json()


def test_a_token_by_discovery(app: Core, issuer: Issuer) -> None:
    status, answer = who(app, issuer.token(name="Ann", picture="http://p", email_verified=True, role="boss"))
    assert status == 200
    assert answer["value"] == {
        "tokenIdentifier": f"{issuer.url}|ann",
        "issuer": issuer.url,
        "subject": "ann",
        "name": "Ann",
        "pictureUrl": "http://p",
        "emailVerified": True,
        "role": "boss",
    }


def test_a_custom_token_keeps_the_names_of_its_claims(app: Core, issuer: Issuer) -> None:
    _, answer = who(app, issuer.token("ES256", aud="custom", picture="http://p", org={"id": "o"}))
    assert answer["value"]["picture"] == "http://p"
    assert answer["value"]["org.id"] == "o"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"aud": "other"}, "NoAuthProvider"),
        ({"iss": "http://127.0.0.1:1"}, "NoAuthProvider"),
        ({"exp": 1000}, "Unauthenticated"),
        ({"key": "other"}, "Unauthenticated"),
        ({"aud": ["app", "second"]}, "Unauthenticated"),
        ({"algorithm": "ES256", "aud": "app"}, "Unauthenticated"),
        ({"algorithm": "ES256", "aud": "custom", "exp": 1000}, "InvalidAuthHeader"),
        ({"algorithm": "RS256", "aud": "custom"}, "InvalidAuthHeader"),
    ],
)
def test_tokens_that_are_refused(app: Core, issuer: Issuer, change: dict, code: str) -> None:
    status, answer = who(app, issuer.token(**change))
    assert (status, answer["code"]) == (401, code)


ODD = {"toString": 1, "valueOf": {"toString": 2}}


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"iss": ODD}, 401, "NoAuthProvider"),
        ({"iss": None}, 401, "NoAuthProvider"),
        ({"aud": ODD}, 401, "NoAuthProvider"),
        ({"aud": ["app", ODD]}, 200, None),
        ({"header": {"alg": ODD}}, 401, "Unauthenticated"),
        ({"header": {"kid": ODD}}, 401, "Unauthenticated"),
        ({"sub": ODD}, 401, "Unauthenticated"),
        ({"exp": ODD}, 401, "Unauthenticated"),
        ({"exp": None}, 401, "Unauthenticated"),
        ({"updated_at": 1e300, "address": ODD, "nbf": ODD}, 200, None),
        ({"algorithm": "ES256", "aud": "custom", "header": {"kid": None}}, 401, "InvalidAuthHeader"),
        ({"algorithm": "ES256", "aud": "custom", "sub": 5}, 401, "InvalidAuthHeader"),
        ({"algorithm": "ES256", "aud": "custom", "nbf": 4102444000}, 401, "InvalidAuthHeader"),
        ({"algorithm": "ES256", "aud": "custom", "iat": 4102444000}, 401, "InvalidAuthHeader"),
        ({"algorithm": "ES256", "aud": "inline"}, 200, None),
        ({"algorithm": "ES256", "aud": ["other", "inline"]}, 200, None),
        ({"algorithm": "ES256", "aud": "mixed"}, 200, None),
        ({"algorithm": "ES256", "aud": "text"}, 400, "AuthProviderDiscoveryFailed"),
        ({"algorithm": "ES256", "aud": "odd"}, 400, "AuthProviderDiscoveryFailed"),
        ({"algorithm": "ES256", "aud": "list"}, 400, "AuthProviderDiscoveryFailed"),
        ({"algorithm": "ES256", "aud": "gone"}, 400, "AuthProviderDiscoveryFailed"),
    ],
)
def test_claims_and_keys_of_any_shape(
    app: Core, issuer: Issuer, change: dict[str, Any], status: int, code: str | None
) -> None:
    found, answer = who(app, issuer.token(**change))
    assert (found, answer.get("code")) == (status, code), answer
    assert who(app, issuer.token())[0] == 200


def test_claims_with_names_of_the_language_stay_claims(app: Core, issuer: Issuer) -> None:
    claims = {"constructor": "a", "__proto__": {"subject": "eve"}, "tokenIdentifier": "eve", "subject": "eve"}
    _, plain = who(app, issuer.token(**claims, updated_at=1_700_000_000, address={"formatted": "here"}))
    assert (plain["value"]["subject"], plain["value"]["tokenIdentifier"]) == ("ann", f"{issuer.url}|ann")
    assert plain["value"]["constructor"] == "a"
    assert (plain["value"]["updatedAt"], plain["value"]["address"]) == ("2023-11-14T22:13:20+00:00", "here")
    _, custom = who(app, issuer.token("ES256", aud="custom", **claims, fva=[1]))
    assert (custom["value"]["subject"], custom["value"]["tokenIdentifier"]) == ("ann", f"{issuer.url}|ann")
    assert custom["value"]["__proto__.subject"] == "eve"
    assert "fva" not in custom["value"]


@pytest.mark.parametrize("use", ["mutation", "action", "query"])
def test_an_ended_token_is_noticed_when_it_is_used(fresh: Core, issuer: Issuer, use: str) -> None:
    start = 1_700_000_000
    fresh.control("clock.start", time=start * 1000)
    me = {"code": "await ctx.db?.query('t').collect(); return (await ctx.auth.getUserIdentity())?.subject ?? null"}
    with Frames(fresh) as socket:
        token = issuer.token(exp=start + 60)
        socket.send({"type": "Authenticate", "baseVersion": 0, "tokenType": "User", "value": token})
        socket.subscribe(0, "p:q", me)
        assert socket.updates()[0]["value"] == "ann"
        fresh.control("clock.advance", ms=59_000)
        assert socket.call("Mutation", 0, "p:m", me)["result"] == "ann"
        fresh.control("clock.advance", ms=2_000)
        if use == "query":
            fresh.control("insert", table="t", documents=[{}])
        else:
            call = {"type": use.capitalize(), "requestId": 1, "udfPath": f"p:{use[0]}", "args": [me]}
            socket.send(call)
        messages, closed = socket.rest()
    error = messages[-1]
    assert [message["type"] for message in messages if message["type"] != "Transition"] == ["AuthError"]
    assert error == {
        "type": "AuthError",
        "error": "Convex token identity expired",
        "baseVersion": 1,
        "authUpdateAttempted": False,
    }
    assert closed.code == 1000
    assert who(fresh, token)[0] == 401


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (b"{", "Could not parse the acting-as attributes"),
        (b"", "Could not parse the acting-as attributes"),
        (b"[]", "Acting-as attributes must be an object"),
        (b'"ann"', "Acting-as attributes must be an object"),
        (b"{}", "Acting-as attributes need a tokenIdentifier, or an issuer and a subject"),
        (b'{"subject": "s"}', "Acting-as attributes need a tokenIdentifier, or an issuer and a subject"),
        (b'{"issuer": 5, "subject": "s"}', "Acting-as attribute `issuer` must be a string"),
        (b'{"tokenIdentifier": {"toString": 1}}', "Acting-as attribute `tokenIdentifier` must be a string"),
    ],
)
def test_acting_as_nobody_is_refused(app: Core, attributes: bytes, message: str) -> None:
    answer = app.post("/api/query", WHO, f"{app.key}:{base64.b64encode(attributes).decode()}")
    assert (answer.status, answer.json()) == (400, {"code": "HeaderParseFailure", "message": message})
    wrong = app.post("/api/query", WHO, f"wrong:{base64.b64encode(attributes).decode()}")
    assert (wrong.status, wrong.json()["code"]) == (403, "BadDeployKey")


def test_acting_as_by_a_token_identifier_alone(app: Core) -> None:
    attributes = json.dumps({"tokenIdentifier": "https://i|a|b", "email": "e"}).encode()
    answer = app.post("/api/query", WHO, f"{app.key}:{base64.b64encode(attributes).decode()}")
    assert answer.json()["value"] == {
        "tokenIdentifier": "https://i|a|b",
        "issuer": "https://i",
        "subject": "a|b",
        "email": "e",
    }


def test_what_acting_as_may_not_do(fresh: Core) -> None:
    """Internal functions yes, but not by /api/run and /api/function, and neither system writes nor components."""
    acting = f"{fresh.key}:{base64.b64encode(json.dumps({'issuer': 'i', 'subject': 's'}).encode()).decode()}"
    inner = {"args": {"code": "return 1"}}
    assert fresh.post("/api/query", {"path": "p:innerQ", **inner}, acting).json()["value"] == 1
    for path in ("/api/run/p/innerQ", "/api/function"):
        text = fresh.post(path, {"path": "p:innerQ", **inner}, acting).json()["errorMessage"]
        assert text.endswith("Could not find function for 'p:innerQ'. Did you forget to run `npx convex dev`?")
        assert fresh.post(path, {"path": "p:innerQ", **inner}, fresh.key).json()["value"] == 1
    write = {"path": "_system/frontend/addDocument", "args": {"table": "t", "documents": [{}]}}
    for path in ("/api/mutation", "/api/function"):
        refused = fresh.post(path, write, acting)
        assert (refused.status, refused.json()) == (
            403,
            {"code": "SystemIdentityRequired", "message": "Operation mutation not permitted"},
        )
        assert fresh.post(path, write, fresh.key).json()["value"] == {"success": True}
    for endpoint in ("/api/get_config_hashes", "/api/cancel_all_jobs", "/api/check_admin_key"):
        assert fresh.post(endpoint, {}, acting).json()["code"] == "BadDeployKey"
        assert fresh.post(endpoint, {}, fresh.key).status == 200


def test_a_socket_changes_its_identity_and_runs_its_queries_again(app: Core, issuer: Issuer, tmp_path: Path) -> None:
    script = """
        import { ConvexClient } from "convex/browser";
        import { anyApi as api } from "convex/server";
        const client = new ConvexClient(process.env.URL_);
        const seen = [];
        client.onUpdate(api.p.q, { code: "return (await ctx.auth.getUserIdentity())?.subject ?? null" }, (value) => seen.push(value));
        const until = (n) => new Promise((resolve) => { const timer = setInterval(() => { if (seen.length >= n) { clearInterval(timer); resolve(); } }, 5); });
        await until(1);
        client.setAuth(async () => process.env.TOKEN);
        await until(2);
        console.log(JSON.stringify(seen));
        await client.close();
    """
    output = run_node(script, tmp_path, URL_=app.url, TOKEN=issuer.token())
    assert json.loads(output.splitlines()[-1]) == [None, "ann"]


def test_what_identities_may_call(app: Core) -> None:
    user = {"issuer": "https://i", "subject": "s"}
    inner = {"path": "p:innerQ", "args": {"code": "return (await ctx.auth.getUserIdentity()).subject"}}
    acting = f"{app.key}:{base64.b64encode(json.dumps(user).encode()).decode()}"
    assert app.run("p:innerQ", {"code": "return 1"}, identity="admin") == 1
    assert app.post("/api/query", inner, acting).json()["value"] == "s"
    assert app.post("/api/function", inner, acting).json()["status"] == "error"
    assert (
        "Could not find public function for 'p:innerQ'." in app.fails("p:innerQ", {"code": ""}, identity=user).message
    )
    assert "Could not find public function for 'p:innerQ'." in app.fails("p:innerQ", {"code": ""}).message
    assert app.run("p:q", {"code": "return await ctx.auth.getUserIdentity()"}, identity="admin") is None
    assert app.run("_system/frontend/getSchemas", identity="admin") == {}
    assert "Could not find public function" in app.fails("_system/frontend/getSchemas").message


def test_the_development_key_counts_when_it_is_asked_for(app: Core) -> None:
    key = "0135d8598650f8f5cb0f30c34ec2e2bb62793bc28717c8eb6fb577996d50be5f4281b59181095065c5d0f86a2c31ddbe9b597ec62b47ded69782cd"
    body = {"path": "_system/frontend/listTableScan", "args": {"table": "none", "limit": 5}, "format": "json"}
    assert app.post("/api/query", body, key).status == 403
    app.control("developmentKey")
    assert app.post("/api/query", body, key).json() == {"status": "success", "value": []}
    assert app.post("/api/query", body, app.key).json() == {"status": "success", "value": []}
