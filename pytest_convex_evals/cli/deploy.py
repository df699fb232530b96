"""`convex-evals deploy`: the scores backend pushed by the real Convex CLI."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from pytest_convex_evals.cli.deployments import admin_key, deploy_target, environment
from pytest_convex_evals.cli.output import say
from pytest_convex_evals.cli.scores_project import MIGRATION_STEPS, cli_of, project_copy
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain
from pytest_convex_evals.errors import EvalsError, SettingsError
from pytest_convex_evals.scores.target import PRODUCTION


def deploy(asked: str, *, production: bool) -> int:
    """Push, and say what is left to do."""
    variables = environment()
    url, name = deploy_target(asked or (PRODUCTION if production else ""), variables)
    if name == PRODUCTION and not production:
        raise SettingsError(f"{url} is production.\n  what to do: give --production if that is meant")
    if production and name != PRODUCTION:
        raise SettingsError(f"{url} is not the production deployment.\n  what to do: leave --production or --url out")
    key = admin_key(variables)
    say(f"push the scores backend to {name or 'a deployment'} ({url})")
    toolchain = ensure_toolchain(lambda line: say(f"set-up: {line}"))
    with tempfile.TemporaryDirectory(prefix="convex-evals-deploy-") as folder:
        push(project_copy(Path(folder), toolchain), toolchain, url, key, production=production)
    say()
    say("if rows of an older schema are there: loosen the schema, push, migrate, tighten it, push again. To migrate:")
    for command in MIGRATION_STEPS:
        say(f"  {command}")
    return 0


class PushFailed(EvalsError):  # noqa: N818 - how it ended
    """The CLI could not push."""


def push(project: Path, toolchain: Toolchain, url: str, key: str, *, production: bool, quiet: bool = False) -> None:
    """One push; the key goes by the environment, which no process table shows to others."""
    command = ["deploy", "--yes"] if production else ["dev", "--once"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONVEX_")}
    path = f"{toolchain.node.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    where = {"CONVEX_SELF_HOSTED_URL": url, "CONVEX_SELF_HOSTED_ADMIN_KEY": key}
    done = subprocess.run(
        [str(toolchain.node), str(cli_of(project)), *command, "--typecheck", "disable"],
        cwd=project,
        env=kept | where | {"PATH": path, "CI": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        check=False,
    )
    if done.returncode:
        told = f"\n{done.stdout.decode(errors='replace')}" if quiet else ""
        raise PushFailed(
            f"the push failed (exit code {done.returncode}).{told}\n"
            "  what to do: read what the Convex CLI says above; check the address and the key"
        )
