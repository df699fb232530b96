"""`convex-evals token`: made here, known to the backend by its hash only."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_convex_evals.cli.deployments import admin_key, deployment, environment
from pytest_convex_evals.cli.output import say, table
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.scores.process import call
from pytest_convex_evals.scores.target import TOKEN, URL

_DAY_MS = 24 * 3600 * 1000
_PREFIX = "evals_"


def _internal(name: str, args: dict[str, Any], asked: str) -> tuple[str, Any]:
    variables = environment()
    url, _ = deployment(asked, variables)
    return url, call("internal", f"auth:{name}", args, url=url, admin_key=admin_key(variables))


def create_token(name: str, scopes: Sequence[str], days: float | None, asked: str) -> int:
    """Print a new token, once: nobody can look it up later."""
    if days is not None and not days > 0:
        raise SettingsError(f"--days is {days:g}.\n  what to do: give a number above 0, or leave it out")
    token = _PREFIX + secrets.token_urlsafe(32)
    args: dict[str, Any] = {"name": name, "hash": hashlib.sha256(token.encode()).hexdigest(), "scopes": list(scopes)}
    if days is not None:
        args["expiresAt"] = time.time() * 1000 + days * _DAY_MS
    url, _ = _internal("createToken", args, asked)
    say(f"token {name} ({', '.join(scopes)}), shown only now:")
    say()
    say(f"  {URL}={url}")
    say(f"  {TOKEN}={token}")
    say()
    say("put both into the environment or into .env; it is a key, so keep it out of the repository")
    return 0


def list_tokens(asked: str) -> int:
    """One line per token."""
    _, found = _internal("listTokens", {}, asked)
    if not found:
        say("there are no tokens yet; `convex-evals token create NAME` makes one")
        return 0
    rows = [("name", "scopes", "created", "expires", "last used", "revoked")]
    for one in found:
        times = [_day(one[field]) for field in ("createdAt", "expiresAt", "lastUsedAt", "revokedAt")]
        rows.append((one["name"], ",".join(one["scopes"]), times[0], times[1], times[2], times[3]))
    for line in table(rows):
        say(line)
    return 0


def _day(moment: float | None) -> str:
    return "-" if moment is None else f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M}"


def revoke_token(name: str, asked: str) -> int:
    """From now on it is refused."""
    _internal("revokeToken", {"name": name}, asked)
    say(f"token {name} is revoked")
    return 0
