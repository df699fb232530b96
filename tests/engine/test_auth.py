# ruff: noqa: E501 - programs in tables stay on one line
"""Identities: tokens of configured providers, acting as, what each may call."""

import base64
import json
from pathlib import Path

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node
from .support.toolchain import toolchain

ISSUER_SCRIPT = """
import { createServer } from "node:http";
import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { createInterface } from "node:readline";
const keys = { RS256: generateKeyPairSync("rsa", { modulusLength: 2048 }), ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }), other: generateKeyPairSync("rsa", { modulusLength: 2048 }) };
const jwks = { keys: ["RS256", "ES256"].map((kid) => ({ ...keys[kid].publicKey.export({ format: "jwk" }), kid, alg: kid, use: "sig" })) };
const server = createServer((request, response) => {
  response.setHeader("Content-Type", "application/json");
  const base = `http://127.0.0.1:${server.address().port}`;
  response.end(JSON.stringify(request.url === "/.well-known/openid-configuration" ? { issuer: base, jwks_uri: `${base}/jwks` } : jwks));
}).listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, claims, algorithm = "RS256", key = algorithm, kid = algorithm } = JSON.parse(line);
  const head = `${encode({ alg: algorithm, kid, typ: "JWT" })}.${encode(claims)}`;
  const signature = sign("SHA256", Buffer.from(head), { key: keys[key].privateKey, dsaEncoding: "ieee-p1363" });
  console.log(JSON.stringify({ id, token: `${head}.${signature.toString("base64url")}` }));
}).on("close", () => process.exit(0));
"""


class Issuer:
    """A loopback issuer of tokens."""

    def __init__(self, folder: Path) -> None:
        from .support.lines import LineProcess

        script = folder / "issuer.mjs"
        script.write_text(ISSUER_SCRIPT)
        self.lines = LineProcess([toolchain().node, script])
        self.url = f"http://127.0.0.1:{self.lines.first()['port']}"

    def token(self, algorithm: str = "RS256", key: str | None = None, **claims: object) -> str:
        base = {"iss": self.url, "aud": "app", "sub": "ann", "exp": 4102444800, "iat": 1700000000}
        return self.lines.ask(claims={**base, **claims}, algorithm=algorithm, **({"key": key} if key else {}))["token"]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory):
    running = Issuer(tmp_path_factory.mktemp("issuer"))
    yield running
    running.lines.close()


@pytest.fixture(scope="module")
def app(core: Core, bundler: Bundler, issuer: Issuer) -> Core:
    config = f"""export default {{ providers: [
        {{ domain: "{issuer.url}", applicationID: "app" }},
        {{ type: "customJwt", issuer: "{issuer.url}", jwks: "{issuer.url}/jwks", algorithm: "ES256", applicationID: "custom" }} ] }};"""
    bundler.push(core, {"p.ts": PROGRAMS, "auth.config.ts": config})
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


def test_the_development_key_is_accepted(app: Core) -> None:
    key = "0135d8598650f8f5cb0f30c34ec2e2bb62793bc28717c8eb6fb577996d50be5f4281b59181095065c5d0f86a2c31ddbe9b597ec62b47ded69782cd"
    body = {"path": "_system/frontend/listTableScan", "args": {"table": "none", "limit": 5}, "format": "json"}
    assert app.post("/api/query", body, key).json() == {"status": "success", "value": []}
    assert app.post("/api/query", body, app.key).json() == {"status": "success", "value": []}
