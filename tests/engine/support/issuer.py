# ruff: noqa: E501 - the script stays as it is
"""An issuer of tokens on loopback."""

from pathlib import Path
from typing import Any

from .lines import LineProcess
from .toolchain import toolchain

ISSUER_SCRIPT = """
import { createServer } from "node:http";
import { generateKeyPairSync, sign } from "node:crypto";
import { createInterface } from "node:readline";
const keys = { RS256: generateKeyPairSync("rsa", { modulusLength: 2048 }), ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }), other: generateKeyPairSync("rsa", { modulusLength: 2048 }) };
const jwks = { keys: ["RS256", "ES256"].map((kid) => ({ ...keys[kid].publicKey.export({ format: "jwk" }), kid, alg: kid, use: "sig" })) };
const served = new Map();
const server = createServer((request, response) => {
  const own = served.get(request.url);
  response.writeHead(own?.status ?? 200, { "Content-Type": own?.kind ?? "application/json" });
  const base = `http://127.0.0.1:${server.address().port}`;
  if (own) response.end(JSON.stringify(own.body));
  else response.end(JSON.stringify(request.url === "/.well-known/openid-configuration" ? { issuer: base, jwks_uri: `${base}/jwks` } : jwks));
}).listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, claims, algorithm, key, header, serve, publicKey } = JSON.parse(line);
  if (serve) { served.set(serve.path, serve); return console.log(JSON.stringify({ id })); }
  if (publicKey) return console.log(JSON.stringify({ id, jwk: jwks.keys.find((one) => one.kid === publicKey) }));
  const head = `${encode({ alg: algorithm, kid: algorithm, typ: "JWT", ...header })}.${encode(claims)}`;
  const signature = sign("SHA256", Buffer.from(head), { key: keys[key].privateKey, dsaEncoding: "ieee-p1363" });
  console.log(JSON.stringify({ id, token: `${head}.${signature.toString("base64url")}` }));
}).on("close", () => process.exit(0));
"""


class Issuer:
    """A loopback issuer of tokens."""

    def __init__(self, folder: Path) -> None:
        script = folder / "issuer.mjs"
        script.write_text(ISSUER_SCRIPT)
        self.lines = LineProcess([toolchain().node, script])
        self.url = f"http://127.0.0.1:{self.lines.first()['port']}"

    def token(self, algorithm: str = "RS256", key: str | None = None, header: Any = None, **claims: Any) -> str:
        """A signed token. `header` replaces fields of its header, `key` the key it is signed with."""
        base = {"iss": self.url, "aud": "app", "sub": "ann", "exp": 4102444800, "iat": 1700000000}
        asked = {"claims": {**base, **claims}, "algorithm": algorithm, "key": key or algorithm, "header": header or {}}
        token: str = self.lines.ask(**asked)["token"]
        return token

    def serve(self, path: str, body: Any, kind: str = "application/json", status: int = 200) -> str:
        """Lets the issuer answer so under a path; the whole address."""
        self.lines.ask(serve={"path": path, "body": body, "kind": kind, "status": status})
        return self.url + path

    def public_key(self, name: str) -> Any:
        return self.lines.ask(publicKey=name)["jwk"]
