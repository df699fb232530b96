"""Which deployment a command means, and with which key it speaks to it."""

from __future__ import annotations

from pathlib import Path

from pytest_convex_evals.environment import Environment
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.scores.target import (
    ADMIN_KEYS,
    CONFIG_FILE,
    DEVELOPMENT,
    TOKEN,
    URL,
    Deployments,
    Target,
    guard_production,
)


def environment() -> dict[str, str]:
    """Of this process and of `.env` where the command was given."""
    return Environment.read(Path.cwd()).merged()


def deployment(asked: str, variables: dict[str, str], default: str = "") -> tuple[str, str]:
    """Address and name of the one asked for, else of the environment, else of the default."""
    source = "--url" if asked else URL
    text = asked or variables.get(URL, "") or default
    if not text:
        raise SettingsError(
            f"it is not said which deployment is meant.\n  what to do: give --url, or set {URL}; "
            f"{CONFIG_FILE} gives addresses a name"
        )
    return Deployments.read(Path.cwd()).find(text, source)


def deploy_target(asked: str, variables: dict[str, str]) -> tuple[str, str]:
    """Where the backend goes: what is asked for, else development by its name, else what the variable says."""
    known = Deployments.read(Path.cwd()).urls
    return deployment(asked or (DEVELOPMENT if DEVELOPMENT in known else ""), variables, DEVELOPMENT)


def reporting_target(asked: str, *, to_production: bool) -> Target:
    """A deployment to write results or versions to, with the token for it."""
    variables = environment()
    url, name = deployment(asked, variables)
    guard_production(name, variables, Path.cwd(), forced=to_production, flag=f"--url {DEVELOPMENT}")
    token = variables.get(TOKEN, "")
    if not token:
        raise SettingsError(f"{TOKEN} is not set.\n  what to do: make a token with `convex-evals token create NAME`")
    return Target(url, name, token)


def admin_key(variables: dict[str, str]) -> str:
    """The key with which internal functions can be called."""
    key = next((variables[name] for name in ADMIN_KEYS if variables.get(name)), "")
    if not key:
        raise SettingsError(
            "the key of the deployment is not set.\n"
            f"  what to do: set {ADMIN_KEYS[0]} (Convex dashboard, settings of the deployment) or {ADMIN_KEYS[1]} "
            "(self-hosted; `convex-evals scores` prints it)"
        )
    return key
