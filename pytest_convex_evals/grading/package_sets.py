"""A set of packages on disk: sealed when it is whole, recognised when it is not, read-only in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from pytest_convex_evals.files import write_json

_SEAL = "seal.json"
_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def seal(folder: Path) -> None:
    """Note what is there, and let nobody write."""
    packages = folder / "node_modules"
    for path, status in _entries(packages):
        if not stat.S_ISLNK(status.st_mode):
            Path(path).chmod(stat.S_IMODE(status.st_mode) & ~_WRITE)
    packages.chmod(stat.S_IMODE(packages.stat().st_mode) & ~_WRITE)
    digest, files, size = _digest(packages)
    write_json(folder / _SEAL, {"digest": digest, "files": files, "bytes": size})


def is_whole(folder: Path) -> bool:
    """What was sealed is still what is there: same files, sizes and times of change."""
    try:
        noted = json.loads((folder / _SEAL).read_text(encoding="utf-8"))
        return bool(noted["digest"] == _digest(folder / "node_modules")[0])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def size_of(folder: Path) -> tuple[int, int]:
    """Files and bytes as sealed; nothing for a set that has no seal."""
    try:
        noted = json.loads((folder / _SEAL).read_text(encoding="utf-8"))
        return int(noted["files"]), int(noted["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def last_used(folder: Path) -> float:
    """Seconds since the epoch."""
    try:
        return (folder / _SEAL).stat().st_mtime
    except OSError:
        return 0.0


def note_use(folder: Path) -> None:
    """For those who prune."""
    try:
        os.utime(folder / _SEAL)
    except OSError:
        return


def remove(folder: Path) -> None:
    """Delete it, although it is read-only."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """All below a folder, contents before the folder that holds them."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path))
            yield entry.path, entry.stat(follow_symlinks=False)


def _digest(folder: Path) -> tuple[str, int, int]:
    seen, files, size = hashlib.sha256(), 0, 0
    for path, status in _entries(folder):
        if stat.S_ISDIR(status.st_mode):
            continue
        files, size = files + 1, size + status.st_size
        seen.update(
            f"{os.path.relpath(path, folder)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="replace")
        )
    return seen.hexdigest(), files, size
