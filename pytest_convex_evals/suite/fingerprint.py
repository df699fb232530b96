"""Fingerprints: a hash of everything that decides a verdict."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import pytest_convex_evals
from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.suite.evals import Eval
from pytest_convex_evals.suite.files import walk
from pytest_convex_evals.suite.vitest import SHARED

_DECIDING = ("backends", "engine", "grading", "prompts")
"""The parts of the package that decide verdicts."""
_DECIDING_FILES = ("generation/parser.py", "values.py", "worker.py")


def digest(parts: list[tuple[str, bytes]]) -> str:
    """A hash over named contents, independent of how they were cut."""
    total = hashlib.sha256()
    for name, content in parts:
        for piece in (name.encode(), content):
            total.update(len(piece).to_bytes(8, "big"))
            total.update(piece)
    return total.hexdigest()


def _tree(root: Path, prefix: str) -> list[tuple[str, bytes]]:
    return [(f"{prefix}/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in walk(root)]


@cache
def harness_fingerprint() -> str:
    """Of prompts, guidelines, grading code, engine and the versions of the tools it pins."""
    package = Path(pytest_convex_evals.__file__).parent
    parts = [("version", pytest_convex_evals.__version__.encode())]
    for name in _DECIDING:
        parts += [part for part in _tree(package / name, name) if not part[0].endswith(".pyc")]
    parts += [(name, (package / name).read_bytes()) for name in _DECIDING_FILES]
    return digest(parts)


def eval_fingerprint(item: Eval) -> str:
    """Of task, answer, grader and settings of one eval."""
    parts = _tree(item.answer, "answer")
    for name in (TASK_FILE, item.grader.name, "eval.toml", "eval.json"):
        path = item.root / name
        if path.is_file():
            parts.append((name, path.read_bytes()))
    suite = item.vitest
    if suite is not None:
        parts += _tree(suite.root / SHARED, "suite") if (suite.root / SHARED).is_dir() else []
        parts += [(path.name, path.read_bytes()) for path in suite.lint_configs().values()]
    return digest(parts)


def cell_fingerprint(item: Eval, guidelines: str) -> str:
    """Of everything that decides the verdict on an answer to this eval, short enough to read."""
    parts = [("eval", eval_fingerprint(item)), ("harness", harness_fingerprint()), ("guidelines", guidelines)]
    return digest([(name, text.encode()) for name, text in parts])[:16]
