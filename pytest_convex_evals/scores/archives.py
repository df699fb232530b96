"""Archives of files as the scores backend keeps them: one JSON text, the same bytes for the same content."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.files import write_atomically
from pytest_convex_evals.suite.files import walk
from pytest_convex_evals.suite.version import read_anyhow

LIMIT = 5 * 2**20
"""Bytes of an archive; the backend takes no larger one."""
_NAMES_ROOM = 2**18
_PROJECT, _ANSWER, _WRONG = "project", "answer.md", "wrong"


def sha256(data: bytes) -> str:
    """The name of an archive."""
    return hashlib.sha256(data).hexdigest()


def archive(files: Mapping[str, bytes], limit: int = LIMIT) -> bytes:
    """Files sorted by path. What does not fit below the limit is left out, the largest first, and named."""
    entries = {path: json.dumps(_entry(path, content), ensure_ascii=False) for path, content in files.items()}
    sizes = {path: len(text.encode()) + 2 for path, text in entries.items()}
    kept, room = set(entries), limit - 100 - sum(sizes.values())
    if room < 0:
        kept, room = set(), limit - _NAMES_ROOM
        for path in sorted(entries, key=lambda path: (sizes[path], path)):
            if sizes[path] <= room:
                kept.add(path)
                room -= sizes[path]
    listed = ", ".join(entries[path] for path in sorted(kept))
    return f'{{"version": 1, "files": [{listed}]{_omitted(files, kept)}}}'.encode()


def _entry(path: str, content: bytes) -> dict[str, str]:
    try:
        return {"path": path, "text": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path": path, "base64": b64encode(content).decode()}


def _omitted(files: Mapping[str, bytes], kept: set[str]) -> str:
    missing = [{"path": path, "bytes": len(files[path])} for path in sorted(files) if path not in kept]
    if not missing:
        return ""
    named: list[dict[str, object]] = []
    room = _NAMES_ROOM - 200
    for one in missing:
        room -= len(json.dumps(one)) + 2
        if room < 0:
            break
        named.append({**one})
    return f', "omitted": {json.dumps(named)}, "omittedCount": {len(missing)}'


def output_archive(attempt: Path) -> bytes | None:
    """The files of a submission; without any, the answer as it was written; None when there is neither."""
    project = attempt / _PROJECT
    found = {
        path.relative_to(project).as_posix(): path.read_bytes()
        for path in walk(project)
        if path.is_file() and not path.is_symlink()
    }
    if not found and (attempt / _ANSWER).is_file():
        found = {_ANSWER: (attempt / _ANSWER).read_bytes()}
    return archive(found) if found else None


def source_archive(task: Path) -> bytes:
    """Everything that makes an eval, but for its wrong submissions."""
    root = task.parent
    wanted = [path for path in walk(root) if path.relative_to(root).parts[0] != _WRONG]
    files = {path.relative_to(root).as_posix(): read_anyhow(path) for path in wanted}
    return archive({TASK_FILE: read_anyhow(task)} | files)


class SourceStore:
    """Archives of evals as they were when runs began, each content once."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "sources"

    def keep(self, data: bytes) -> str:
        """The hash; what is there already is not written again."""
        name = sha256(data)
        path = self._path(name)
        if not path.is_file() or path.stat().st_size != len(data):
            write_atomically(path, data, durable=False)  # a damaged one is noticed by its hash
        return name

    def get(self, name: str) -> bytes | None:
        """The archive; None when it is gone or damaged."""
        try:
            data = self._path(name).read_bytes()
        except OSError:
            return None
        return data if sha256(data) == name else None

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
