"""The suite in the vitest layout of these tests, beside one with Python graders of the same meaning."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_convex_evals.suite.evals import load_eval
from tests.support.suites import write_tree

HOME = Path(__file__).parent.parent / "vitest_suite"
EVERYTHING = os.environ.get("VITEST_SUITES") == "all"
TWIN = "as-python-"
"""Stands before the categories of the suite with Python graders."""


def copy_suite(target: Path) -> Path:
    """The suite as its owners have it."""
    shutil.copytree(HOME / "suite", target)
    return target / "evals"


def copy_twins(target: Path) -> Path:
    """The same evals with Python graders; what is submitted is the same."""
    for task in sorted((HOME / "suite" / "evals").glob("*/*/TASK.txt")):
        item = load_eval(task)
        folder = target / f"{TWIN}{item.category}" / item.name
        write_tree(folder / "answer", item.answer_files())
        shutil.copy(task, folder / "TASK.txt")
        shutil.copy(HOME / "python" / item.category / f"{item.name}.py", folder / "grader.py")
        if item.pipeline == "static":
            shutil.copy(item.root / "eval.json", folder / "eval.json")
    return target


def add_wrong(evals: Path, grader: str, *, prefix: str = "") -> None:
    """The submissions that must fail, with the checks that must say so."""
    for told in sorted((HOME / "wrong").glob("*/*/*/why.json")):
        category, name, slug = told.parent.relative_to(HOME / "wrong").parts
        why: Mapping[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        folder = evals / f"{prefix}{category}" / name / "wrong" / slug
        shutil.copytree(told.parent, folder, ignore=shutil.ignore_patterns("why.json"), dirs_exist_ok=True)
        lines = [f"step = {json.dumps(why['step'])}", f"why = {json.dumps(why['why'])}"]
        lines += [f"check = {json.dumps(why[grader], ensure_ascii=False)}"] if why[grader] else []
        lines += [f"delete = {json.dumps(why['delete'])}"] if why["delete"] else []
        (folder / "expect.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def static_eval(
    suite: Path, name: str, grader: str, *, answer: Mapping[str, str] | None = None, pipeline: str = "static"
) -> None:
    """A small eval in the vitest layout."""
    files = {
        "TASK.txt": "Anything.\n",
        "answer/package.json": '{ "name": "project", "type": "module", "dependencies": { "convex": "1.48.0" } }\n',
        "answer/convex/main.ts": "export const answer = 42;\n",
        "grader.test.ts": grader,
        **({"eval.json": '{ "pipeline": "static" }\n'} if pipeline == "static" else {}),
    }
    files |= {f"answer/{path}": text for path, text in (answer or {}).items()}
    write_tree(suite / "evals" / "000-bad" / name, files)
