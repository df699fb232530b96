"""npm, as the package store runs it: registry only, scripts off, and its own codes say whose fault a failure is."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from pytest_convex_evals.cage.levels import Cage
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.engine.setup import Toolchain, install_environment, npm_command
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import Finished, run_command
from pytest_convex_evals.records import Failed

INSTALL_S = 240.0
MAX_FILES = 150_000
MAX_BYTES = 1536 * MB
_LOOK_S = 1.0
_LIMITS = Limits(memory=4096 * MB, file=512 * MB, open_files=65_536)
_QUIETLY = ("--json", "--ignore-scripts", "--no-audit", "--no-fund")
_SOURCES = ("git", "remote", "file", "directory")
_REGISTRY_ONLY = tuple(f"--allow-{source}=none" for source in _SOURCES)
"""For what packages ask for in their turn; what the submission asks for has been looked at."""
_THEIRS = {
    "E404": "a package does not exist",
    "ETARGET": "a version does not exist",
    "ENOVERSIONS": "a package has no versions",
    "EINVALIDPACKAGENAME": "a name is not the name of a package",
    "EINVALIDTAGNAME": "a version is neither a range nor a tag",
    "EUNSUPPORTEDPROTOCOL": "a version is not one of the registry",
    "EBADPLATFORM": "a package does not run on this kind of machine",
    "ERESOLVE": "packages exclude each other",
    **{f"EALLOW{source.upper()}": "a package asks for one that is not of the registry" for source in _SOURCES},
}
"""npm's codes that are about what was asked for."""
_TOO_MUCH = "too much"


def install_packages(toolchain: Toolchain, folder: Path) -> Failed | None:
    """Install what package.json asks for, exactly as package-lock.json says when there is one."""
    command = "ci" if (folder / "package-lock.json").is_file() else "install"
    code, summary = _try(toolchain, folder, command)
    if code == "ERESOLVE":
        # Conflicts between peers are hygiene; what is really incompatible fails later by itself.
        code, summary = _try(toolchain, folder, command, "--force")
    if code is None:
        return _foreign(folder)
    if code == _TOO_MUCH:
        return Failed(cause="limit", reason=f"the packages have more than {summary}")
    if code == "EFBIG":
        return Failed(cause="limit", reason=f"a package has a file of more than {_LIMITS.file} bytes")
    if code in _THEIRS:
        return Failed(cause="package", reason=f"{_THEIRS[code]} ({code}): {summary}")
    if code in {"ENOSPC", "EDQUOT"}:
        raise Trouble("disk_full", f"packages could not be installed: {summary}", remedy="free some space")
    raise Trouble("registry", f"npm failed ({code}): {summary}", remedy="check the network and npm's settings")


def _try(toolchain: Toolchain, folder: Path, *arguments: str) -> tuple[str | None, str]:
    limited = Cage("node", toolchain.node, folder).prefix(Program(limits=_LIMITS))
    done = run_command(
        [*limited, *npm_command(toolchain.node), *arguments, *_QUIETLY, *_REGISTRY_ONLY],
        cwd=folder,
        environment=install_environment(toolchain.node),
        deadline_s=INSTALL_S,
        watch=lambda _pid: _too_much(folder),
        watch_s=_LOOK_S,
    )
    too_much = done.used_up or ("" if done.exit_code else _too_much(folder))
    if too_much:
        return _TOO_MUCH, too_much
    if done.timed_out:
        raise Trouble("registry", f"npm did not end within {INSTALL_S:.0f} s", remedy="check the network")
    return (None, "") if done.exit_code == 0 else _error_of(done)


def _too_much(folder: Path) -> str:
    """What the packages have too much of."""
    files = size = 0
    for root, _, names in os.walk(folder):
        files += len(names)
        for name in names:
            with suppress(OSError):
                size += os.lstat(f"{root}/{name}").st_size
        if files > MAX_FILES:
            return f"{MAX_FILES} files"
        if size > MAX_BYTES:
            return f"{MAX_BYTES // MB} MB"
    return ""


def _foreign(folder: Path) -> Failed | None:
    """The lock says where a package came from only when that was not the registry."""
    try:
        packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    except (ValueError, KeyError, TypeError) as error:
        raise Trouble("registry", f"what npm installed is not written down: {error}", remedy="run it again") from None
    for name, entry in packages.items():
        if "resolved" in entry or "link" in entry:
            reason = f"{name.removeprefix('node_modules/')} is not a package of the registry"
            return Failed(cause="package", reason=reason)
    return None


def _error_of(done: Finished) -> tuple[str, str]:
    """Npm's own code and summary; a death without them is no code of theirs."""
    try:
        error = json.loads(done.output)["error"]
        return str(error["code"]), str(error.get("summary", ""))[:600]
    except (ValueError, KeyError, TypeError):
        return f"exit {done.exit_code}", done.complaints.strip()[-600:]
