"""The package store: each set of packages is installed once, and linked into the projects that ask for it.

A set has its name only when it is whole, so a half-finished one is never used. One that was damaged later is noticed by
its seal, which every process looks at once, and installed again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.npm import install_packages
from pytest_convex_evals.grading.package_sets import is_whole, last_used, note_use, remove, seal, size_of
from pytest_convex_evals.records import Failed

LOCK_FILE = "package-lock.json"
_IN_USE = ".in-use"
_PARTIAL = ".partial-"


@dataclass(slots=True)
class PackageStore:
    """A folder of installed package sets."""

    root: Path
    toolchain: Toolchain
    _checked: set[str] = field(default_factory=set)
    _use: int | None = None

    def install(self, manifest: Manifest, lock: str | None = None) -> Path | Failed:
        """The folder whose node_modules holds the packages, or why the submission cannot have them.

        With the lock of an earlier attempt exactly its versions are installed.
        """
        wanted = manifest.to_json()
        seed = f"{platform.system()} {platform.machine()}\n{wanted}{lock or ''}"
        target = self.root / hashlib.sha256(seed.encode()).hexdigest()[:24]
        self._announce_use()
        if self._is_there(target):
            return target
        with self._lock(target):
            if self._is_there(target):
                return target
            if target.exists():
                remove(target)
            problem = self._make(target, wanted, lock)
        if problem is not None:
            return problem
        self._checked.add(target.name)
        return target

    def _is_there(self, target: Path) -> bool:
        if target.name in self._checked and target.is_dir():
            return True
        if not target.is_dir() or not is_whole(target):
            return False
        note_use(target)
        self._checked.add(target.name)
        return True

    def _make(self, target: Path, wanted: str, lock: str | None) -> Failed | None:
        partial = self.root / f"{_PARTIAL}{target.name}"
        if partial.exists():
            # Whoever began it holds no lock any more, so it is dead.
            remove(partial)
        partial.mkdir()
        try:
            (partial / "package.json").write_text(wanted, encoding="utf-8")
            if lock is not None:
                (partial / LOCK_FILE).write_text(lock, encoding="utf-8")
            shutil.copy(self.toolchain.folder / ".npmrc", partial / ".npmrc")
            problem = install_packages(self.toolchain, partial)
            if problem is not None:
                return problem
            (partial / "node_modules").mkdir(exist_ok=True)
            seal(partial)
            partial.rename(target)
        finally:
            if partial.exists():
                remove(partial)
        return None

    def _announce_use(self) -> None:
        """Until `close`, or the end of this process, nothing is pruned."""
        if self._use is None:
            self.root.mkdir(parents=True, exist_ok=True)
            self._use = os.open(self.root / _IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._use, fcntl.LOCK_SH)

    def close(self) -> None:
        """No set is needed any more by this process."""
        if self._use is not None:
            os.close(self._use)
            self._use = None

    @contextmanager
    def _lock(self, target: Path) -> Iterator[None]:
        with (self.root / f".{target.name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True, slots=True)
class StoredSet:
    """One set of packages, as people look at it."""

    folder: Path
    files: int
    bytes: int
    used_at: float


def stored_sets(root: Path) -> list[StoredSet]:
    """All sets, the one used last first."""
    folders = (
        [path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")] if root.is_dir() else []
    )
    sets = [StoredSet(folder, *size_of(folder), last_used(folder)) for folder in folders]
    return sorted(sets, key=lambda one: one.used_at, reverse=True)


@contextmanager
def alone_in(root: Path) -> Iterator[bool]:
    """Whether nobody uses the store; nobody begins to as long as this lasts."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / _IN_USE).open("w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def prune(root: Path, unused_since: float) -> list[StoredSet]:
    """Remove sets that were not used since then, and what dead processes left; call it `alone_in` the store."""
    doomed = [one for one in stored_sets(root) if one.used_at < unused_since]
    for one in doomed:
        remove(one.folder)
    for left in [*root.glob(f"{_PARTIAL}*")]:
        remove(left)
    kept = {one.folder.name for one in stored_sets(root)}
    for lock in root.glob(".*.lock"):
        if lock.name[1:].removesuffix(".lock") not in kept:
            lock.unlink()
    return doomed


def link_packages(project: Path, packages: Path) -> None:
    """Give a project the packages of a set."""
    (project / "node_modules").symlink_to(packages / "node_modules", target_is_directory=True)
