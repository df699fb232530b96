"""The package store: each set of packages is installed once, and linked into the projects that ask for it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_convex_evals.engine.setup import Toolchain, install_environment, npm_command
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.process import Finished, run_command
from pytest_convex_evals.records import Failed

INSTALL_S = 240.0
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


@dataclass(frozen=True, slots=True)
class PackageStore:
    """A folder of installed package sets."""

    root: Path
    toolchain: Toolchain

    def install(self, manifest: Manifest) -> Path | Failed:
        """The folder whose node_modules holds the packages, or why the submission cannot have them."""
        wanted = manifest.to_json()
        seed = f"{platform.system()} {platform.machine()}\n{wanted}"
        target = self.root / hashlib.sha256(seed.encode()).hexdigest()[:24]
        if target.is_dir():
            return target
        self.root.mkdir(parents=True, exist_ok=True)
        with self._lock(target), tempfile.TemporaryDirectory(prefix=".partial-", dir=self.root) as partial:
            if target.is_dir():
                return target
            folder = Path(partial) / "set"
            folder.mkdir()
            (folder / "package.json").write_text(wanted, encoding="utf-8")
            shutil.copy(self.toolchain.folder / ".npmrc", folder / ".npmrc")
            problem = self._npm(folder)
            if problem is not None:
                return problem
            (folder / "node_modules").mkdir(exist_ok=True)
            folder.rename(target)
        return target

    def _npm(self, folder: Path) -> Failed | None:
        code, summary = self._try(folder)
        if code == "ERESOLVE":
            # Conflicts between peers are hygiene; what is really incompatible fails later by itself.
            code, summary = self._try(folder, "--force")
        if code is None:
            return None
        if code in _THEIRS:
            return Failed(cause="package", reason=f"{_THEIRS[code]} ({code}): {summary}")
        if code in {"ENOSPC", "EDQUOT"}:
            raise Trouble("disk_full", f"packages could not be installed: {summary}", remedy="free some space")
        raise Trouble("registry", f"npm failed ({code}): {summary}", remedy="check the network and npm's settings")

    def _try(self, folder: Path, *more: str) -> tuple[str | None, str]:
        command = [
            *npm_command(self.toolchain.node),
            "install",
            "--json",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]
        done = run_command(
            [*command, *more],
            cwd=folder,
            environment=install_environment(self.toolchain.node),
            deadline_s=INSTALL_S,
        )
        if done.timed_out:
            raise Trouble("registry", f"npm did not end within {INSTALL_S:.0f} s", remedy="check the network")
        return (None, "") if done.exit_code == 0 else _error_of(done)

    @contextmanager
    def _lock(self, target: Path) -> Iterator[None]:
        with (self.root / f".{target.name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _error_of(done: Finished) -> tuple[str, str]:
    """Npm's own code and summary; a death without them is no code of theirs."""
    try:
        error = json.loads(done.output)["error"]
        return str(error["code"]), str(error.get("summary", ""))[:600]
    except (ValueError, KeyError, TypeError):
        return f"exit {done.exit_code}", done.complaints.strip()[-600:]


def link_packages(project: Path, packages: Path) -> None:
    """Give a project the packages of a set."""
    (project / "node_modules").symlink_to(packages / "node_modules", target_is_directory=True)
