"""npm, as the package store runs it: registry only, scripts off, and its own codes say whose fault a failure is."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_convex_evals.engine.setup import Toolchain, install_environment, npm_command
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import Finished, run_command
from pytest_convex_evals.records import Failed

INSTALL_S = 240.0
_QUIETLY = ("--json", "--ignore-scripts", "--no-audit", "--no-fund")
_THEIRS = {
    "E404": "a package does not exist",
    "ETARGET": "a version does not exist",
    "ENOVERSIONS": "a package has no versions",
    "EINVALIDPACKAGENAME": "a name is not the name of a package",
    "EINVALIDTAGNAME": "a version is neither a range nor a tag",
    "EUNSUPPORTEDPROTOCOL": "a version is not one of the registry",
    "EBADPLATFORM": "a package does not run on this kind of machine",
    "ERESOLVE": "packages exclude each other",
}
"""npm's codes that are about what was asked for."""


def install_packages(toolchain: Toolchain, folder: Path) -> Failed | None:
    """Install what package.json asks for, exactly as package-lock.json says when there is one."""
    command = "ci" if (folder / "package-lock.json").is_file() else "install"
    code, summary = _try(toolchain, folder, command)
    if code == "ERESOLVE":
        # Conflicts between peers are hygiene; what is really incompatible fails later by itself.
        code, summary = _try(toolchain, folder, command, "--force")
    if code is None:
        return None
    if code in _THEIRS:
        return Failed(cause="package", reason=f"{_THEIRS[code]} ({code}): {summary}")
    if code in {"ENOSPC", "EDQUOT"}:
        raise Trouble("disk_full", f"packages could not be installed: {summary}", remedy="free some space")
    raise Trouble("registry", f"npm failed ({code}): {summary}", remedy="check the network and npm's settings")


def _try(toolchain: Toolchain, folder: Path, *arguments: str) -> tuple[str | None, str]:
    done = run_command(
        [*npm_command(toolchain.node), *arguments, *_QUIETLY],
        cwd=folder,
        environment=install_environment(toolchain.node),
        deadline_s=INSTALL_S,
    )
    if done.timed_out:
        raise Trouble("registry", f"npm did not end within {INSTALL_S:.0f} s", remedy="check the network")
    return (None, "") if done.exit_code == 0 else _error_of(done)


def _error_of(done: Finished) -> tuple[str, str]:
    """Npm's own code and summary; a death without them is no code of theirs."""
    try:
        error = json.loads(done.output)["error"]
        return str(error["code"]), str(error.get("summary", ""))[:600]
    except (ValueError, KeyError, TypeError):
        return f"exit {done.exit_code}", done.complaints.strip()[-600:]
