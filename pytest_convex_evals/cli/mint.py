"""`convex-evals mint`: name the suite as it is now, after a look at what changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.cli.deployments import reporting_target
from pytest_convex_evals.cli.output import say
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.scores.payload import suite_args
from pytest_convex_evals.scores.process import call
from pytest_convex_evals.suite.version import suite_version


def mint(suite: Path, name: str, notes: str, asked: str, *, yes: bool, to_production: bool) -> int:
    """Show the changes; with a name, make the version."""
    if not any(suite.glob(f"*/*/{TASK_FILE}")):
        raise SettingsError(f"{suite} holds no evals.\n  what to do: give --suite the folder with the categories")
    target = reporting_target(asked, to_production=to_production)
    version = suite_version([suite])
    described = suite_args(
        {"fingerprint": version.fingerprint, "evals": list(version.evals), "parts": dict(version.parts)}
    )
    shown = {field: described[field] for field in ("fingerprint", "parts")}
    changes = call("query", "admin:previewVersion", shown, url=target.url, token=target.token)
    for line in change_lines(version.fingerprint, changes):
        say(line)
    if not name:
        return 0
    if not yes and not _confirmed(f"name this suite {name!r} at {target.shown}?"):
        say("nothing was done")
        return 1
    args = {**described, "name": name} | ({"notes": notes} if notes else {})
    call("mutation", "admin:mintVersion", args, url=target.url, token=target.token)
    say(f"version {name} is {version.fingerprint} at {target.shown}")
    return 0


def change_lines(fingerprint: str, changes: dict[str, Any]) -> list[str]:
    """What differs from the newest version, for people."""
    if changes["previous"] is None:
        return [f"suite {fingerprint}: there is no version yet, so everything is new"]
    kinds = ("added", "removed", "changed")
    lines = [f"  {kind:8} {name}" for kind in kinds for name in sorted(changes[kind])]
    return [f"suite {fingerprint}, since version {changes['previous']}:", *(lines or ["  nothing changed"])]


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("nobody can be asked here.\n  what to do: give --yes")
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
