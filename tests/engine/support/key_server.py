# ruff: noqa: E501 - the script stays as it is
"""Issuers of tokens on loopback whose keys change and whose answers can be made hostile."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from .lines import LineProcess
from .toolchain import toolchain

SCRIPT = """
import { createServer } from "node:http";
import { generateKeyPairSync, sign } from "node:crypto";
import { createInterface } from "node:readline";
const make = { RS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }), ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }), EdDSA: () => generateKeyPairSync("ed25519") };
const keys = {};
let published = {};
const renew = (name, algorithm) => { keys[name] = make[algorithm](); return { ...keys[name].publicKey.export({ format: "jwk" }), kid: name, alg: algorithm, use: "sig" }; };
for (const algorithm of Object.keys(make)) published[algorithm] = renew(algorithm, algorithm);
const served = new Map();
const asked = [];
const server = createServer((request, response) => {
  asked.push(request.url);
  const base = `http://127.0.0.1:${server.address().port}`;
  const own = served.get(request.url);
  if (own === undefined) {
    response.setHeader("Content-Type", "application/json");
    return response.end(JSON.stringify(request.url === "/.well-known/openid-configuration" ? { issuer: base, jwks_uri: `${base}/jwks` } : { keys: Object.values(published) }));
  }
  response.writeHead(own.status ?? 200, { "Content-Type": "application/json", ...own.headers });
  if (own.hang) return response.write("{");
  if (own.endless) {
    const piece = Buffer.alloc(65536, " ");
    const more = () => { while (!response.destroyed && response.write(piece)); };
    response.on("drain", more);
    return more();
  }
  response.end(own.body);
}).listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, sign: given, serve, renew: renewed, publish } = JSON.parse(line);
  let answer = {};
  if (serve) served.set(serve.path, serve.answer ?? undefined);
  else if (renewed) answer.key = renew(renewed.name, renewed.algorithm);
  else if (publish) published = publish;
  else if (given) {
    const head = `${encode(given.header)}.${encode(given.claims)}`;
    const edwards = given.algorithm === "EdDSA";
    const signature = sign(edwards ? null : "SHA256", Buffer.from(head), { key: keys[given.key].privateKey, dsaEncoding: "ieee-p1363" });
    answer.token = `${head}.${signature.toString("base64url")}`;
  } else answer = { published, asked: asked.splice(0) };
  console.log(JSON.stringify({ id, ...answer }));
}).on("close", () => process.exit(0));
"""


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class KeyServer:
    """One issuer. Keys are named after their algorithm unless renewed under another name."""

    def __init__(self, folder: Path) -> None:
        script = folder / "keys.mjs"
        script.write_text(SCRIPT)
        self.lines = LineProcess([toolchain().node, script])
        self.url = f"http://127.0.0.1:{self.lines.first()['port']}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Good claims; a change to None leaves one out."""
        claims = {"iss": self.url, "aud": "app", "sub": "ann", "exp": 4102444800, "iat": 1700000000, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, algorithm: str = "RS256", key: str | None = None, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        head = {"alg": algorithm, "kid": key or algorithm, "typ": "JWT", **(header or {})}
        asked = {"algorithm": algorithm, "key": key or algorithm, "claims": self.claims(**claims)}
        asked["header"] = {name: value for name, value in head.items() if value is not None}
        return str(self.lines.ask(sign=asked)["token"])

    def unsigned(self, header: dict[str, Any], signature: str = "", **claims: Any) -> str:
        return f"{encoded(header)}.{encoded(self.claims(**claims))}.{signature}"

    def by_secret(self, secret: bytes, **claims: Any) -> str:
        """A token signed with a public key as if it were a secret."""
        head = self.unsigned({"alg": "HS256", "kid": "RS256"}, **claims).removesuffix(".")
        mac = hmac.new(secret, head.encode(), hashlib.sha256).digest()
        return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    def serve(self, path: str, **answer: Any) -> None:
        """Answer so under a path; without anything as usual again."""
        self.lines.ask(serve={"path": path, "answer": answer or None})

    def renew(self, name: str, algorithm: str) -> dict[str, Any]:
        """A new key under a name, not yet published; its public part."""
        return dict(self.lines.ask(renew={"name": name, "algorithm": algorithm})["key"])

    def publish(self, *keys: Any) -> None:
        self.lines.ask(publish=list(keys))

    def published(self) -> list[dict[str, Any]]:
        found = self.lines.ask()["published"]
        return list(found.values()) if isinstance(found, dict) else list(found)

    def asked(self) -> list[str]:
        """Paths asked for since the last time."""
        return list(self.lines.ask()["asked"])

    def close(self) -> None:
        self.lines.close()
