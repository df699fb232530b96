# ruff: noqa: E501 - programs stay on one line
"""An auth config that reads variables follows them when they change."""

import base64
import json
from pathlib import Path

import pytest

from .support.core import ControlError, request
from .support.durable import DurableCore
from .support.issuer import Issuer
from .support.programs import PROGRAMS
from .support.project import Bundler, PushError


def config(issuer: Issuer) -> str:
    keys = base64.b64encode(json.dumps({"keys": [issuer.public_key("ES256")]}).encode()).decode()
    return f'export default {{ providers: [{{ type: "customJwt", issuer: process.env.ISSUER, jwks: "data:text/plain;charset=utf-8;base64,{keys}", algorithm: "ES256", applicationID: "app" }}] }};'


def answer(core: DurableCore, token: str) -> tuple[int, str]:
    body = json.dumps({"path": "p:q", "args": {"code": "return (await ctx.auth.getUserIdentity()).subject"}}).encode()
    got = request(
        f"{core.url}/api/query", body, {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    )
    return got.status, got.json().get("value") or got.json()["code"]


def test_providers_follow_their_variables(bundler: Bundler, issuer: Issuer, tmp_path: Path) -> None:
    core = DurableCore(tmp_path / "data")
    mine, other = issuer.token("ES256"), issuer.token("ES256", iss="https://other.example")
    try:
        with pytest.raises(PushError, match="AuthConfigMissingEnvironmentVariable"):
            bundler.push(core, {"p.ts": PROGRAMS, "auth.config.ts": config(issuer)})
        core.control("env.set", variables={"ISSUER": "https://other.example"})
        bundler.push(core, {"p.ts": PROGRAMS, "auth.config.ts": config(issuer)})
        assert (answer(core, mine), answer(core, other)) == ((401, "NoAuthProvider"), (200, "ann"))
        core.control("env.set", variables={"ISSUER": issuer.url})
        assert (answer(core, mine), answer(core, other)) == ((200, "ann"), (401, "NoAuthProvider"))
        with pytest.raises(ControlError, match="AuthConfigMissingEnvironmentVariable"):
            core.control("env.set", variables={"ISSUER": None, "OTHER": "1"})
        with pytest.raises(ControlError, match="InvalidProviderDomainUrl"):
            core.control("env.set", variables={"ISSUER": "nonsense"})
        core = core.again()
        assert core.control("env.list") == {"ISSUER": issuer.url}
        assert answer(core, mine) == (200, "ann")
    finally:
        core.close()
