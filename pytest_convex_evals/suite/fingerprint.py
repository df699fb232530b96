"""Fingerprints: a hash of everything that decides a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest_convex_evals
from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.suite.evals import Eval
from pytest_convex_evals.suite.files import walk
from pytest_convex_evals.suite.vitest import SHARED

_DECIDING = ("backends", "engine", "grading")
"""The parts of the package that decide verdicts on a submission."""
_ASKING = ("prompts",)
"""The part that decides what is asked."""
_DECIDING_FILES = ("generation/parser.py", "values.py", "worker.py")
_SHOWN = 16
_PARTS = (
    ("prompts/guidelines.md", "guidelines"),
    ("prompts/", "prompts"),
    ("engine/src/toolchain/check/", "lint and type configs"),
    ("engine/package", "tool versions"),
    ("engine/", "engine"),
    ("backends/", "engine"),
    ("grading/", "grading"),
)
"""Which part of a suite's fingerprint a file of the package belongs to: the first whose start fits."""


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
def _package(names: tuple[str, ...], files: tuple[str, ...], without: tuple[str, ...] = ()) -> str:
    package = Path(pytest_convex_evals.__file__).parent
    parts = [("version", pytest_convex_evals.__version__.encode())]
    for name in names:
        parts += [part for part in _tree(package / name, name) if not part[0].endswith((".pyc", *without))]
    parts += [(name, (package / name).read_bytes()) for name in files]
    return digest(parts)


@cache
def harness_parts() -> dict[str, str]:
    """What decides verdicts and is no eval, by name: a hash of each."""
    package = Path(pytest_convex_evals.__file__).parent
    parts: dict[str, list[tuple[str, bytes]]] = {"version": [("version", pytest_convex_evals.__version__.encode())]}
    for name in (*_DECIDING, *_ASKING):
        for path, content in _tree(package / name, name):
            if not path.endswith(".pyc"):
                part = next(part for start, part in _PARTS if path.startswith(start))
                parts.setdefault(part, []).append((path, content))
    parts["grading"] += [(name, (package / name).read_bytes()) for name in _DECIDING_FILES]
    return {name: digest(contents) for name, contents in parts.items()}


def harness_fingerprint() -> str:
    """Of prompts, guidelines, grading code, engine and the versions of the tools it pins."""
    return _package((*_DECIDING, *_ASKING), _DECIDING_FILES)


def eval_fingerprint(item: Eval) -> str:
    """Of task, answer, grader and settings of one eval."""
    return _joined(_eval_parts(item))


def _eval_parts(item: Eval) -> dict[str, str]:
    """What people change about an eval, by the name that they have for it."""
    parts = {
        "task": _files(item, (TASK_FILE,)),
        "answer": _tree(item.answer, "answer"),
        "grader": _files(item, (item.grader.name,)) + _shared(item),
        "settings": _files(item, ("eval.toml", "eval.json")),
    }
    return {name: digest(found) for name, found in parts.items()}


def _files(item: Eval, names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [(name, (item.root / name).read_bytes()) for name in names if (item.root / name).is_file()]


def _shared(item: Eval) -> list[tuple[str, bytes]]:
    """What a suite in the vitest layout has beside its evals, and verdicts depend on."""
    suite = item.vitest
    if suite is None:
        return []
    helpers = _tree(suite.root / SHARED, SHARED) if (suite.root / SHARED).is_dir() else []
    return helpers + [(path.name, path.read_bytes()) for path in suite.lint_configs().values()]


def fingerprint_parts(item: Eval, guidelines: str) -> dict[str, str]:
    """Of everything that decides the verdict on an answer to this eval, by what it is: changes can be named."""
    parts = _eval_parts(item) | {
        "guidelines": digest([("guidelines", guidelines.encode())]),
        "prompt": _package(_ASKING, (), ("guidelines.md",)),
        "tools": _package(_DECIDING, _DECIDING_FILES),
    }
    return {name: text[:_SHOWN] for name, text in parts.items()}


def joined_fingerprint(parts: Mapping[str, str]) -> str:
    """The one fingerprint of a cell, short enough to read."""
    return _joined(parts)[:_SHOWN]


def _joined(parts: Mapping[str, str]) -> str:
    return digest([(name, text.encode()) for name, text in parts.items()])


def cell_fingerprint(item: Eval, guidelines: str) -> str:
    """Of everything that decides the verdict on an answer to this eval."""
    return joined_fingerprint(fingerprint_parts(item, guidelines))


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What is not as it was; `unknown` when the earlier record does not say what it was made of."""
    if not before:
        return ("unknown",)
    return tuple(name for name in now if before.get(name) != now[name])
