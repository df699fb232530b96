"""The built-in submitters: the reference answer, wrong submissions and empty ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_convex_evals.cells import EMPTY_KINDS
from pytest_convex_evals.generation.answers import submission_from_text
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.wrong import load_wrong

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.suite.evals import Eval

_NO_FILES = "This answer explains a lot and contains no file.\n"


def built_in_submission(item: Eval, cell: Cell) -> Submission:
    """What a built-in submitter hands in for an eval."""
    if cell.kind == "reference":
        return Submission(item.answer_files())
    if cell.kind == "wrong":
        return Submission(load_wrong(item, cell.slug).files)
    if cell.slug == EMPTY_KINDS[0]:
        return submission_from_text(_NO_FILES)
    files = item.answer_files()
    return Submission({path: files[path] for path in ("package.json",) if path in files}, folders=("convex",))
