"""Reading trees of text files in a fixed order."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_convex_evals.errors import BrokenEval

SKIPPED_FOLDERS = frozenset({"node_modules", "_generated", "__pycache__"})


def walk(root: Path) -> list[Path]:
    """All files below `root`, sorted by POSIX path, without generated, installed or hidden folders."""
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        found.extend(Path(folder) / name for name in files)
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def read_text(path: Path) -> str:
    """A file of the suite as text; anything else is a broken eval."""
    try:
        if path.is_symlink():
            raise BrokenEval(path, "is a symbolic link", "put the file itself there")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise BrokenEval(path, "is not UTF-8 text", "save it as UTF-8, or remove it") from None
    except OSError as error:
        raise BrokenEval(path, f"cannot be read: {error.strerror}", "check the file and its permissions") from None


def read_tree(root: Path) -> dict[str, str]:
    """POSIX path below `root` → text."""
    return {path.relative_to(root).as_posix(): read_text(path) for path in walk(root)}
