"""The work on one cell ends with a record, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.records import Errored
from pytest_convex_evals.store.runs import RunFolder
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.worker import CellGrader
from tests.support.suites import Suite


@pytest.mark.parametrize(
    ("problem", "cause", "reason"),
    [
        (Trouble("rate_limited", "half \ud800"), "rate_limited", "half \\ud800"),
        (ZeroDivisionError("half \ud800"), "internal", "defect in the work on a cell: ZeroDivisionError: half \\ud800"),
        (PermissionError(13, "denied"), "store_unwritable", "a file of the attempt could not be written: denied"),
    ],
    ids=["trouble", "defect", "disk"],
)
def test_a_submitter_that_raises_makes_an_error(tmp_path: Path, problem: Exception, cause: str, reason: str) -> None:
    item = load_eval(Suite(tmp_path).add("000-good/001-fine") / "TASK.txt")
    run = RunFolder.of("run", str(tmp_path / "store"), "")

    def submit(*_: object) -> object:
        raise problem

    grader = CellGrader(run, "", Tools(ensure_toolchain, tmp_path), None, submit)  # type: ignore[arg-type]
    record = grader.grade(item, Cell("000-good", "001-fine", "gpt-5", "default"), "id")
    assert isinstance(record.verdict, Errored)
    assert (record.verdict.cause, record.verdict.reason) == (cause, reason)
    assert (run.outputs / record.folder / "record.json").is_file()
