"""An eval: a directory with a task, a reference answer and a grader."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import TASK_FILE
from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.records import Pipeline
from pytest_convex_evals.suite.files import read_text, read_tree, walk
from pytest_convex_evals.suite.vitest import VITEST_GRADER, VitestSuite, answer_paths, read_eval_json

GRADERS = ("grader.py", VITEST_GRADER)
_KEYS = {"pipeline", "tags", "extra_time"}
_PIPELINES: dict[str, Pipeline] = {"full": "full", "static": "static"}


@dataclass(frozen=True, slots=True)
class Eval:
    """One eval that obeys the rules of the suite."""

    root: Path
    category: str
    name: str
    grader: Path
    """The one grader."""
    pipeline: Pipeline = "full"
    tags: tuple[str, ...] = ()
    extra_time: float = 0.0
    """Seconds added to the deadline of the tests step."""

    @property
    def id(self) -> str:
        """`category/name`."""
        return f"{self.category}/{self.name}"

    @property
    def answer(self) -> Path:
        """Folder of the reference answer."""
        return self.root / "answer"

    def task(self) -> str:
        """The prompt text."""
        return read_text(self.root / TASK_FILE)

    @property
    def vitest(self) -> VitestSuite | None:
        """The suite around it, when its grader is one of vitest."""
        return VitestSuite.of(self.root) if self.grader.name == VITEST_GRADER else None

    def answer_files(self) -> dict[str, str]:
        """The reference submission."""
        if self.vitest is None:
            return read_tree(self.answer)
        names = answer_paths([path.relative_to(self.answer).as_posix() for path in walk(self.answer)])
        return {name: read_text(self.answer / name) for name in names}


def eval_identity(task: Path) -> tuple[str, str]:
    """(category, name) of the eval that a TASK.txt belongs to."""
    return task.parent.parent.name, task.parent.name


def load_eval(task: Path) -> Eval:
    """The eval of a TASK.txt; `BrokenEval` names the file and the remedy."""
    root = task.parent
    if not read_text(task).strip():
        raise BrokenEval(task, "is empty", "write the prompt that the model gets")
    if not (root / "answer").is_dir():
        raise BrokenEval(root, "has no answer/ folder", "add the reference project as answer/")
    graders = [root / name for name in GRADERS if (root / name).is_file()]
    if len(graders) != 1:
        problem = "has no grader" if not graders else f"has two graders: {' and '.join(p.name for p in graders)}"
        raise BrokenEval(root, problem, f"keep exactly one of {' and '.join(GRADERS)}")
    category, name = eval_identity(task)
    settings = _settings_of(root)
    return Eval(root, category, name, graders[0], **settings)


def _settings_of(root: Path) -> dict[str, Any]:
    ours, theirs = root / "eval.toml", root / "eval.json"
    if ours.exists() and theirs.exists():
        raise BrokenEval(root, "has eval.toml and eval.json", "keep one of them")
    if theirs.exists():
        pipeline = read_eval_json(theirs).get("pipeline", "full")
        return {"pipeline": _pipeline(theirs, pipeline)}
    return _settings(ours) if ours.exists() else {}


def _pipeline(path: Path, name: object) -> Pipeline:
    if not isinstance(name, str) or name not in _PIPELINES:
        raise BrokenEval(path, f"unknown pipeline {name!r}", f"use {' or '.join(map(repr, _PIPELINES))}")
    return _PIPELINES[name]


def read_toml(path: Path, known: set[str]) -> dict[str, Any]:
    """A TOML file that has no keys but the known ones."""
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise BrokenEval(path, f"is not TOML: {error}", "correct the syntax") from None
    for key in content:
        if key not in known:
            raise BrokenEval(path, f"unknown key {key!r}", f"use only {', '.join(sorted(known))}")
    return content


def _settings(path: Path) -> dict[str, Any]:
    content = read_toml(path, _KEYS)
    pipeline = _pipeline(path, content.get("pipeline", "full"))
    tags = content.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise BrokenEval(path, "tags must be a list of strings", 'write for example tags = ["auth"]')
    extra = content.get("extra_time", 0)
    if isinstance(extra, bool) or not isinstance(extra, int | float) or not 0 <= extra <= 3600:
        raise BrokenEval(path, "extra_time must be a number of seconds", "write for example extra_time = 30")
    return {"pipeline": pipeline, "tags": tuple(tags), "extra_time": float(extra)}
