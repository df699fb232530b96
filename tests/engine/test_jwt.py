# ruff: noqa: E501 - programs in tables stay on one line
"""Tokens by auth.config: who is believed, until when, by which keys; key servers that lie, hang or are gone; what a stranger may call."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core, Response, request
from .support.key_server import KeyServer
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node

NOW = 1_750_000_000
FILES = {
    "p.ts": PROGRAMS
    + 'import { internalAction } from "./_generated/server"; export const innerA = internalAction(program);',
    "http.ts": """
        import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; import { internal } from "./_generated/api";
        const http = httpRouter();
        http.route({ path: "/who", method: "GET", handler: httpAction(async (ctx) => Response.json((await ctx.auth.getUserIdentity())?.subject ?? null)) });
        http.route({ path: "/plain", method: "GET", handler: httpAction(async () => new Response("ran")) });
        http.route({ path: "/inner", method: "GET", handler: httpAction(async (ctx) => Response.json(await ctx.runQuery(internal.p.innerQ, { code: "return (await ctx.auth.getUserIdentity())?.subject ?? null" }))) });
        export default http;
    """,
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyServer]:
    running = KeyServer(tmp_path_factory.mktemp("keys"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def app(core: Core, bundler: Bundler, keys: KeyServer) -> Core:
    inline = json.dumps({"keys": keys.published()}).encode()
    data = f"data:text/plain;charset=utf-8;base64,{base64.b64encode(inline).decode()}"
    custom = f'type: "customJwt", issuer: "{keys.url}", jwks:'
    providers = [
        f'{{ domain: "{keys.url}/", applicationID: "app" }}',
        f'{{ {custom} "{keys.url}/jwks", algorithm: "ES256", applicationID: "es" }}',
        f'{{ {custom} "{keys.url}/jwks", algorithm: "RS256", applicationID: "rs" }}',
        f'{{ {custom} "{data}", algorithm: "ES256", applicationID: "data" }}',
        f'{{ {custom} "{keys.url}/hostile", algorithm: "ES256", applicationID: "hostile" }}',
        f'{{ {custom} "http://127.0.0.1:9/jwks", algorithm: "ES256", applicationID: "down" }}',
        f'{{ type: "customJwt", issuer: "{keys.url}/open", jwks: "{keys.url}/jwks", algorithm: "ES256" }}',
    ]
    bundler.push(core, FILES | {"auth.config.ts": f"export default {{ providers: [{', '.join(providers)}] }};"})
    core.control("allowFetch", origins=[keys.url, "http://127.0.0.1:9"])
    return core


@pytest.fixture
def at_noon(app: Core) -> Core:
    """Time stands at NOW."""
    app.control("clock.start", time=NOW * 1000)
    return app


def ask(app: Core, token: str | None, code: str = "return await ctx.auth.getUserIdentity()", **body: Any) -> Response:
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    asked = {"path": "p:q", "args": {"code": code}, **body}
    return request(f"{app.url}/api/query", json.dumps(asked).encode(), headers)


def subject(app: Core, token: str) -> str:
    answer = ask(app, token)
    assert answer.status == 200, answer.text
    return answer.json()["value"]["subject"]


def refusal(app: Core, token: str) -> tuple[int, str]:
    answer = ask(app, token)
    assert answer.status != 200, answer.text
    assert answer.json()["message"]
    return answer.status, answer.json()["code"]


CUSTOM, OIDC = (401, "InvalidAuthHeader"), (401, "Unauthenticated")


@pytest.mark.parametrize(
    ("algorithm", "aud"),
    [("RS256", "app"), ("EdDSA", "app"), ("ES256", "es"), ("RS256", "rs"), ("ES256", "data"), ("ES256", ["x", "es"])],
)
def test_tokens_that_are_believed(app: Core, keys: KeyServer, algorithm: str, aud: Any) -> None:
    assert subject(app, keys.token(algorithm, aud=aud)) == "ann"


def test_an_issuer_with_or_without_a_slash(app: Core, keys: KeyServer) -> None:
    answer = ask(app, keys.token(iss=f"{keys.url}/")).json()["value"]
    assert (answer["issuer"], answer["tokenIdentifier"]) == (f"{keys.url}/", f"{keys.url}/|ann")


def test_a_custom_provider_without_an_application_takes_any_audience(app: Core, keys: KeyServer) -> None:
    for aud in ("anything", None, ["a", "b"]):
        assert subject(app, keys.token("ES256", iss=f"{keys.url}/open", aud=aud)) == "ann"


WRONG: dict[str, tuple[dict[str, Any], tuple[int, str]]] = {
    "another issuer": ({"iss": "http://127.0.0.1:9"}, (401, "NoAuthProvider")),
    "no issuer": ({"iss": None}, (401, "NoAuthProvider")),
    "an issuer that only begins alike": ({"iss": "{url}.example"}, (401, "NoAuthProvider")),
    "another audience": ({"aud": "other"}, (401, "NoAuthProvider")),
    "no audience": ({"aud": None}, (401, "NoAuthProvider")),
    "two audiences by discovery": ({"aud": ["app", "es"]}, OIDC),
    "an algorithm that discovery does not allow": ({"algorithm": "ES256"}, OIDC),
    "an algorithm that is not the configured one": ({"algorithm": "ES256", "aud": "rs"}, CUSTOM),
    "the header names another algorithm than was used": ({"algorithm": "RS256", "aud": "es", "header": {"alg": "ES256"}}, CUSTOM),
    "a key of another kind under the name": ({"algorithm": "RS256", "aud": "rs", "header": {"kid": "ES256"}}, CUSTOM),
    "an unknown key": ({"algorithm": "ES256", "aud": "es", "header": {"kid": "nobody"}}, CUSTOM),
    "an unknown key by discovery": ({"header": {"kid": "nobody"}}, OIDC),
    "no key named": ({"algorithm": "ES256", "aud": "es", "header": {"kid": None}}, CUSTOM),
    "no subject": ({"algorithm": "ES256", "aud": "es", "sub": None}, CUSTOM),
    "no subject by discovery": ({"sub": None}, OIDC),
    "no end": ({"algorithm": "ES256", "aud": "es", "exp": None}, CUSTOM),
    "no end by discovery": ({"exp": None}, OIDC),
    "an end in words": ({"algorithm": "ES256", "aud": "es", "exp": "4102444800"}, CUSTOM),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), WRONG.values(), ids=WRONG.keys())
def test_tokens_that_are_not_believed(
    app: Core, keys: KeyServer, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    if change.get("iss"):
        change = change | {"iss": change["iss"].replace("{url}", keys.url)}
    assert refusal(app, keys.token(**change)) == expected


def test_by_discovery_a_token_need_not_name_its_key(app: Core, keys: KeyServer) -> None:
    assert subject(app, keys.token(header={"kid": None})) == "ann"


def test_signatures_that_are_none(app: Core, keys: KeyServer) -> None:
    good = keys.token("ES256", aud="es")
    head, claims, signature = good.split(".")
    other = keys.token("ES256", aud="es", sub="eve").split(".")
    public = json.dumps(next(key for key in keys.published() if key["kid"] == "RS256")).encode()
    for token in (
        f"{head}.{other[1]}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[:-4]}",
        f"{head}.{claims}.{'A' * len(signature)}",
        keys.unsigned({"alg": "none", "kid": "ES256"}, aud="es"),
        keys.unsigned({"alg": "None"}, aud="rs"),
        keys.unsigned({"kid": "ES256"}, aud="es"),
        keys.by_secret(public, aud="rs"),
    ):
        assert refusal(app, token) == CUSTOM, token
    assert refusal(app, keys.unsigned({"alg": "none"})) == OIDC
    assert refusal(app, keys.by_secret(public)) == OIDC


@pytest.mark.parametrize(
    "token",
    ["x", "a.b.c", "...", "e30.e30", "e30.e30.e30.e30", "W10.W10.W10", "bnVsbA.bnVsbA.x", "e30=.e30.", "\u00e9.e30.x"],
)
def test_what_is_no_token(app: Core, token: str) -> None:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}".encode().decode("latin1")}
    body = json.dumps({"path": "p:q", "args": {"code": ""}}).encode()
    answer = request(f"{app.url}/api/query", body, headers)
    assert (answer.status, answer.json()["code"]) in [(401, "InvalidAuthHeader"), (401, "NoAuthProvider")]


# ── age ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({"exp": NOW + 1}, True),
        ({"exp": NOW}, False),
        ({"exp": NOW - 60}, False),
        ({"exp": NOW + 60, "nbf": NOW + 3600}, True),
    ],
)
def test_the_age_of_a_token_by_discovery(at_noon: Core, keys: KeyServer, claims: dict[str, int], good: bool) -> None:
    token = keys.token(**claims)
    assert (subject(at_noon, token) == "ann") if good else (refusal(at_noon, token) == OIDC)


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({"exp": NOW - 4}, True),
        ({"exp": NOW - 6}, False),
        ({"nbf": NOW + 4}, True),
        ({"nbf": NOW + 6}, False),
        ({"iat": NOW + 4}, True),
        ({"iat": NOW + 6}, False),
    ],
)
def test_the_age_of_a_custom_token_has_five_seconds_of_leeway(
    at_noon: Core, keys: KeyServer, claims: dict[str, int], good: bool
) -> None:
    token = keys.token("ES256", aud="es", **claims)
    if good:
        assert subject(at_noon, token) == "ann"
    else:
        answer = ask(at_noon, token)
        assert (answer.status, answer.json()["code"]) == CUSTOM
        assert "Could not validate token:" in answer.json()["message"]


def test_a_token_ages_with_the_clock(at_noon: Core, keys: KeyServer) -> None:
    token = keys.token(exp=NOW + 3600)
    assert subject(at_noon, token) == "ann"
    at_noon.control("clock.advance", ms=3_600_000)
    assert refusal(at_noon, token) == OIDC


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_key_counts_at_once_and_a_withdrawn_one_no_longer(app: Core, keys: KeyServer) -> None:
    before = keys.published()
    old = keys.token("ES256", aud="es")
    new = keys.renew("second", "ES256")
    token = keys.token("ES256", key="second", aud="es")
    assert refusal(app, token) == CUSTOM
    try:
        keys.publish(*before, new)
        assert (subject(app, token), subject(app, old)) == ("ann", "ann")
        keys.publish(new)
        assert subject(app, token) == "ann"
        assert refusal(app, old) == CUSTOM
        assert subject(app, keys.token("ES256", aud="data")) == "ann", "keys in the configuration do not change"
    finally:
        keys.publish(*before)


def test_junk_among_the_keys_does_no_harm(app: Core, keys: KeyServer) -> None:
    before = keys.published()
    try:
        junk = [
            None,
            5,
            "key",
            [],
            {},
            {"kid": "ES256", "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
            {"kid": "ES256", "kty": "oct", "k": "AA"},
        ]
        keys.publish(*junk, *before)
        assert subject(app, keys.token("ES256", aud="es")) == "ann"
        assert subject(app, keys.token()) == "ann"
    finally:
        keys.publish(*before)


HOSTILE: dict[str, dict[str, Any]] = {
    "not JSON": {"body": "<html>"},
    "nothing": {"body": ""},
    "null": {"body": "null"},
    "a list": {"body": "[]"},
    "no keys": {"body": "{}"},
    "keys that are no list": {"body": '{"keys": {"ES256": 1}}'},
    "another content type": {"body": '{"keys": []}', "headers": {"Content-Type": "text/html"}},
    "an error": {"status": 500, "body": "{}"},
    "another good status": {"status": 204, "body": ""},
    "somewhere else": {"status": 302, "headers": {"Location": "/jwks"}, "body": ""},
    "for ever more": {"endless": True},
    "never the end": {"hang": True},
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_key_server_that_answers_badly(app: Core, keys: KeyServer, answer: dict[str, Any]) -> None:
    keys.serve("/hostile", **answer)
    keys.asked()
    found = ask(app, keys.token("ES256", aud="hostile"))
    assert (found.status, found.json()["code"]) == (400, "AuthProviderDiscoveryFailed")
    assert keys.url in found.json()["message"]
    assert keys.asked() == ["/hostile"], "a redirect is not followed"
    assert subject(app, keys.token("ES256", aud="es")) == "ann"


def test_keys_may_come_as_a_key_set(app: Core, keys: KeyServer) -> None:
    keys.serve(
        "/hostile",
        body=json.dumps({"keys": keys.published()}),
        headers={"Content-Type": "application/jwk-set+json; charset=utf-8"},
    )
    assert subject(app, keys.token("ES256", aud="hostile")) == "ann"


def test_a_key_server_that_is_gone(app: Core, keys: KeyServer) -> None:
    answer = ask(app, keys.token("ES256", aud="down"))
    assert (answer.status, answer.json()["code"]) == (400, "AuthProviderDiscoveryFailed")
    assert "http://127.0.0.1:9/jwks did not answer" in answer.json()["message"]


@pytest.mark.parametrize(("algorithm", "aud"), [("RS256", "app"), ("ES256", "es")], ids=["discovery", "keys"])
def test_only_what_actions_may_reach_is_asked_for_keys(app: Core, keys: KeyServer, algorithm: str, aud: str) -> None:
    """auth.config is submitted code: it must not send the core anywhere."""
    keys.asked()
    app.control("allowFetch", origins=["http://127.0.0.1:9"])
    try:
        answer = ask(app, keys.token(algorithm, aud=aud))
        assert (answer.status, answer.json()["code"]) == (400, "AuthProviderDiscoveryFailed")
        assert "cannot be reached from here" in answer.json()["message"]
        assert subject(app, keys.token("ES256", aud="data")) == "ann", "keys in the configuration need no request"
        assert keys.asked() == []
    finally:
        app.control("allowFetch", origins=[keys.url, "http://127.0.0.1:9"])
    assert subject(app, keys.token(algorithm, aud=aud)) == "ann"


def test_discovery_does_not_lead_to_where_actions_may_not_go(app: Core, keys: KeyServer, tmp_path: Path) -> None:
    path, hidden = "/.well-known/openid-configuration", KeyServer(tmp_path)
    keys.serve(path, body=json.dumps({"issuer": keys.url, "jwks_uri": f"{hidden.url}/jwks"}))
    try:
        assert refusal(app, keys.token()) == (400, "AuthProviderDiscoveryFailed")
        assert hidden.asked() == []
    finally:
        keys.serve(path)
        hidden.close()


def test_a_deployment_may_issue_tokens_itself(bundler: Bundler, keys: KeyServer) -> None:
    """Libraries do that with HTTP actions."""
    issued = json.dumps({"keys": keys.published()})
    routes = f"""
        import {{ httpRouter }} from "convex/server"; import {{ httpAction }} from "./_generated/server";
        const http = httpRouter(); const url = process.env.CONVEX_SITE_URL;
        http.route({{ path: "/.well-known/openid-configuration", method: "GET", handler: httpAction(async () => Response.json({{ issuer: url, jwks_uri: `${{url}}/jwks` }})) }});
        http.route({{ path: "/jwks", method: "GET", handler: httpAction(async () => Response.json({issued})) }});
        export default http;
    """
    config = "export default { providers: [{ domain: process.env.CONVEX_SITE_URL, applicationID: 'app' }] };"
    own = Core()
    try:
        bundler.push(own, {"p.ts": PROGRAMS, "http.ts": routes, "auth.config.ts": config})
        assert subject(own, keys.token(iss=own.site)) == "ann"
    finally:
        own.close()


def test_issuers_of_somebody_who_serves_code_of_their_own_may_be_anywhere(bundler: Bundler, keys: KeyServer) -> None:
    own = Core("--own")
    try:
        config = f'export default {{ providers: [{{ domain: "{keys.url}", applicationID: "app" }}] }};'
        bundler.push(own, {"p.ts": PROGRAMS, "auth.config.ts": config})
        assert subject(own, keys.token()) == "ann"
    finally:
        own.close()


DISCOVERY: dict[str, tuple[dict[str, Any], int]] = {
    "another issuer": ({"body": '{"issuer": "https://evil.example", "jwks_uri": "{url}/jwks"}'}, 400),
    "no address of keys": ({"body": '{"issuer": "{url}"}'}, 400),
    "keys of its own": ({"body": '{"issuer": "{url}", "jwks_uri": "data:application/json,{}"}'}, 400),
    "a file": ({"body": '{"issuer": "{url}", "jwks_uri": "file:///etc/passwd"}'}, 400),
    "nothing there": ({"status": 404, "body": "{}"}, 404),
    "an error": ({"status": 503, "body": "{}"}, 503),
    "elsewhere": ({"status": 301, "headers": {"Location": "/"}, "body": ""}, 400),
}


@pytest.mark.parametrize(("answer", "status"), DISCOVERY.values(), ids=DISCOVERY.keys())
def test_a_discovery_that_is_not_believed(app: Core, keys: KeyServer, answer: dict[str, Any], status: int) -> None:
    path = "/.well-known/openid-configuration"
    keys.serve(path, **answer | {"body": answer["body"].replace("{url}", keys.url)})
    try:
        assert refusal(app, keys.token()) == (status, "AuthProviderDiscoveryFailed")
    finally:
        keys.serve(path)
    assert subject(app, keys.token()) == "ann"


# ── what identities say and may ──────────────────────────────────────────────────────────────────────────────────────


def test_claims_by_discovery_have_the_names_of_the_platform(app: Core, keys: KeyServer) -> None:
    claims = {"given_name": "Ann", "family_name": "Onym", "zoneinfo": "UTC", "locale": "en", "birthdate": "2000-02-29", "phone_number": "1", "phone_number_verified": False, "website": "http://w", "updated_at": 1_700_000_000, "address": {"formatted": "here"}, "jti": "x", "nbf": 1, "roles": ["a", {"b": 1}]}  # fmt: skip
    found = ask(app, keys.token(**claims)).json()["value"]
    assert found == {
        "tokenIdentifier": f"{keys.url}|ann",
        "issuer": keys.url,
        "subject": "ann",
        "givenName": "Ann",
        "familyName": "Onym",
        "timezone": "UTC",
        "language": "en",
        "birthday": "2000-02-29",
        "phoneNumber": "1",
        "phoneNumberVerified": False,
        "websiteUrl": "http://w",
        "updatedAt": "2023-11-14T22:13:20+00:00",
        "address": "here",
        "roles": ["a", {"b": 1}],
    }


def test_claims_of_a_custom_token_keep_their_names(app: Core, keys: KeyServer) -> None:
    found = ask(
        app,
        keys.token("ES256", aud="es", given_name="Ann", org={"id": "o", "deep": {"x": 1}}, roles=["a"], issuer="eve"),
    ).json()["value"]
    assert {name: found[name] for name in ("given_name", "org.id", "org.deep.x", "roles", "issuer")} == {
        "given_name": "Ann",
        "org.id": "o",
        "org.deep.x": 1,
        "roles": ["a"],
        "issuer": keys.url,
    }


def test_http_actions_run_for_everybody_and_a_bad_token_shows_when_it_is_asked_for(app: Core, keys: KeyServer) -> None:
    def get(path: str, token: str | None) -> Response:
        return request(app.site + path, headers={} if token is None else {"Authorization": f"Bearer {token}"})

    good, bad = keys.token(), keys.token(exp=1000)
    assert [get("/who", good).json(), get("/inner", good).json(), get("/who", None).json()] == ["ann", "ann", None]
    assert (get("/plain", bad).status, get("/plain", bad).text) == (200, "ran")
    answer = get("/who", bad)
    assert answer.status == 500
    assert "Could not verify OIDC token claim." in answer.json()["code"]


FRONTS = """
import { ConvexClient, ConvexHttpClient } from "convex/browser";
import { anyApi as api } from "convex/server";
const { URL_, TOKEN, KEY } = process.env;
const code = { code: "return 1" };
const told = (promise) => promise.then((value) => value, (error) => (/Could not find public function for '[^']*'/.exec(error.message) ?? [error.message])[0]);
const all = async (client) => [await told(client.query(api.p.innerQ, code)), await told(client.mutation(api.p.innerM, code)), await told(client.action(api.p.innerA, code))];
const found = {};
for (const Client of [ConvexHttpClient, ConvexClient]) {
  const stranger = new Client(URL_);
  found[`stranger ${Client.name}`] = await all(stranger);
  const user = new Client(URL_);
  user.setAuth(Client === ConvexClient ? async () => TOKEN : TOKEN);
  found[`user ${Client.name}`] = await all(user);
  const admin = new Client(URL_);
  (admin.client ?? admin).setAdminAuth(KEY);
  found[`admin ${Client.name}`] = await all(admin);
  const acting = new Client(URL_);
  (acting.client ?? acting).setAdminAuth(KEY, { subject: "s", issuer: "https://i" });
  found[`acting ${Client.name}`] = await all(acting);
  for (const client of [stranger, user, admin, acting]) await client.close?.();
}
console.log(JSON.stringify(found));
"""


def test_internal_functions_are_seen_by_admins_alone_over_every_front(
    app: Core, keys: KeyServer, tmp_path: Path
) -> None:
    output = json.loads(run_node(FRONTS, tmp_path, URL_=app.url, TOKEN=keys.token(), KEY=app.key).splitlines()[-1])
    hidden = [f"Could not find public function for 'p:{name}'" for name in ("innerQ", "innerM", "innerA")]
    for client in ("ConvexHttpClient", "ConvexClient"):
        for who in ("stranger", "user"):
            assert output[f"{who} {client}"] == hidden, (who, client)
        for who in ("admin", "acting"):
            assert output[f"{who} {client}"] == [1, 1, 1], (who, client)


@pytest.mark.parametrize("name", ["innerQ", "innerM", "innerA"])
def test_internal_functions_over_plain_http(app: Core, keys: KeyServer, name: str) -> None:
    user = {"Content-Type": "application/json", "Authorization": f"Bearer {keys.token()}"}
    admin = {"Content-Type": "application/json", "Authorization": f"Convex {app.key}"}
    identity = base64.b64encode(b'{"issuer": "https://i", "subject": "s"}').decode()
    acting = {"Content-Type": "application/json", "Authorization": f"Convex {app.key}:{identity}"}
    body = json.dumps({"path": f"p:{name}", "args": {"code": "return 1"}}).encode()
    missing = f"Could not find function for 'p:{name}'. Did you forget to run `npx convex dev`?"
    assert request(f"{app.url}/api/run/p/{name}", body, admin).json()["value"] == 1
    for headers in (user, acting):
        assert missing in request(f"{app.url}/api/run/p/{name}", body, headers).json()["errorMessage"]
    assert request(f"{app.url}/api/function", body, admin).json()["value"] == 1
    assert missing in request(f"{app.url}/api/function", body, acting).json()["errorMessage"]
    assert request(f"{app.url}/api/function", body, user).status == 403
    if name == "innerQ":
        query = f"{app.url}/api/query?path=p:{name}&args=%7B%22code%22%3A%22return%201%22%7D"
        assert request(query, headers=admin).json()["value"] == 1
        assert "Could not find public function" in request(query, headers=user).json()["errorMessage"]
        batch = json.dumps({"queries": [{"path": "p:innerQ", "args": {"code": "return 1"}}]}).encode()
        [result] = request(f"{app.url}/api/query_batch", batch, user).json()["results"]
        assert "Could not find public function" in result["errorMessage"]


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        ("short", 400, "InvalidHeaderFailure"),
        ("Basic YTpi", 400, "InvalidAdminKey"),
        ("Convex wrong", 403, "BadDeployKey"),
        ("Convex {key}:!!!", 400, "HeaderParseFailure"),
        ("Convex {key}:e30=", 400, "HeaderParseFailure"),
        ("Convex {key}:W10=", 400, "HeaderParseFailure"),
    ],
)
def test_headers_that_are_refused(app: Core, header: str, status: int, code: str) -> None:
    headers = {"Content-Type": "application/json", "Authorization": header.replace("{key}", app.key)}
    answer = request(f"{app.url}/api/query", json.dumps({"path": "p:q", "args": {"code": ""}}).encode(), headers)
    assert (answer.status, answer.json()["code"]) == (status, code)


def test_schemes_are_read_in_any_case(app: Core, keys: KeyServer) -> None:
    body = json.dumps({"path": "p:q", "args": {"code": "return (await ctx.auth.getUserIdentity())?.subject"}}).encode()
    for header in (f"bearer {keys.token()}", f"BEARER {keys.token()}"):
        answer = request(f"{app.url}/api/query", body, {"Content-Type": "application/json", "Authorization": header})
        assert answer.json()["value"] == "ann"
