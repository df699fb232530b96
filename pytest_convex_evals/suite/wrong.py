"""Wrong submissions: files laid over the answer that must fail at a named place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.records import StepName
from pytest_convex_evals.suite.evals import Eval, read_toml
from pytest_convex_evals.suite.files import read_tree

if TYPE_CHECKING:
    from pathlib import Path

EXPECT_FILE = "expect.toml"
_KEYS = {"step", "check", "why", "delete"}


@dataclass(frozen=True, slots=True)
class WrongSubmission:
    """A submission that must fail, and where."""

    slug: str
    step: StepName
    checks: tuple[str, ...]
    """Checks that must fail; only for the tests step."""
    why: str
    files: dict[str, str]
    """The whole submission."""


def wrong_slugs(root: Path) -> list[str]:
    """The slugs of an eval, sorted; works on broken evals too."""
    folder = root / "wrong"
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def load_wrong(item: Eval, slug: str) -> WrongSubmission:
    """The wrong submission, or `BrokenEval`."""
    folder = item.root / "wrong" / slug
    if not folder.is_dir():
        known = ", ".join(wrong_slugs(item.root)) or "none"
        raise BrokenEval(folder, "does not exist", f"the wrong submissions of this eval are: {known}")
    path = folder / EXPECT_FILE
    if not path.is_file():
        raise BrokenEval(folder, f"has no {EXPECT_FILE}", "say where it must fail: step, check and why")
    content = read_toml(path, _KEYS)
    step: StepName | None = content.get("step")
    if step is None or step not in get_args(StepName):
        raise BrokenEval(path, f"step {step!r} is not a step", f"use one of {', '.join(get_args(StepName))}")
    checks = _strings(path, content.get("check", []), "check")
    if (step == "tests") != bool(checks):
        problem = "names no check" if step == "tests" else f"names a check, but step is {step!r}"
        raise BrokenEval(path, problem, 'a check goes with step = "tests", and the other way round')
    why = content.get("why")
    if not isinstance(why, str) or not why.strip():
        raise BrokenEval(path, "does not say why", 'write why = "…", the mistake in one sentence')
    return WrongSubmission(slug, step, checks, why, _lay_over(item, folder, path, content.get("delete", [])))


def _lay_over(item: Eval, folder: Path, expect: Path, deleted: object) -> dict[str, str]:
    files = item.answer_files()
    for path in _strings(expect, deleted, "delete"):
        if files.pop(path, None) is None:
            raise BrokenEval(expect, f"deletes {path!r}, which the answer does not have", "name a file of answer/")
    own = read_tree(folder)
    del own[EXPECT_FILE]
    if not own and not deleted:
        raise BrokenEval(folder, "changes nothing", "add the files that differ from answer/, or delete some")
    return files | own


def _strings(path: Path, value: object, key: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(entry, str) and entry for entry in items):
        raise BrokenEval(path, f"{key} must be a string or a list of strings", f'write for example {key} = "…"')
    return tuple(items)
