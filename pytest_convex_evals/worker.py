"""The work on one cell: attempt folder, submission, steps, expectation, record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.abc import Loader
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.errors import BrokenEval, Trouble, disk_trouble
from pytest_convex_evals.files import write_atomically
from pytest_convex_evals.grading.pipeline import errored, run_steps, steps_of, verdict_of
from pytest_convex_evals.grading.steps.base import Bench
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.records import CellRecord, Errored, Expectation, Failed, Passed, StepRecord
from pytest_convex_evals.store.runs import RunFolder
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import Eval
from pytest_convex_evals.suite.fingerprint import cell_fingerprint
from pytest_convex_evals.suite.wrong import WrongSubmission, load_wrong


@dataclass(slots=True)
class CellGrader:
    """Grades the cells of one worker, one after the other."""

    run: RunFolder
    guidelines: str
    """The text that stands in the prompts; part of the fingerprint."""
    tools: Tools
    loader: Loader | None
    """Loads graders; pytest's own gives messages as pytest writes them."""
    submit: Callable[[Eval, Cell], Submission]
    """Where submissions come from."""

    def grade(self, item: Eval, cell: Cell, node_id: str) -> CellRecord:
        """The record of a cell; whatever happens, there is one."""
        try:
            attempt, folder = self.run.new_attempt(cell)
        except OSError as error:
            trouble = disk_trouble(error, "the run store")
            return record_without_grading(item, cell, node_id, self.run, self.guidelines, trouble)
        common = _common(item, cell, node_id, self.run, self.guidelines)
        steps: tuple[StepRecord, ...] = ()
        expectation: Expectation | None = None
        submission = Submission({})
        started = time.monotonic()
        try:
            submission = self.submit(item, cell)
            started = time.monotonic()
            if submission.answer_text is not None:
                write_atomically(folder / "answer.md", submission.answer_text, durable=False)
            bench = Bench(item, submission, folder, self.tools)
            try:
                steps = run_steps(steps_of(item.pipeline, self.loader), bench)
            finally:
                bench.close()
            if bench.backend is not None:
                common |= {"backend_version": bench.backend.version, "sandbox": "node"}
            verdict = verdict_of(steps)
            if cell.kind == "wrong":
                verdict, expectation = judge_wrong(load_wrong(item, cell.slug), steps, verdict)
        except (Trouble, BrokenEval, OSError) as problem:
            verdict = errored(_as_trouble(problem))
        record = CellRecord(
            **common,
            attempt=attempt,
            folder=folder.relative_to(self.run.outputs).as_posix(),
            generation=submission.generation,
            verdict=verdict,
            steps=steps,
            expectation=expectation,
            grading_s=round(time.monotonic() - started, 4),
        )
        self._keep(folder, record)
        return record

    def _keep(self, folder: Path, record: CellRecord) -> None:
        """A copy beside the files; the journal is what counts."""
        try:
            write_atomically(folder / "record.json", record.model_dump_json(indent=1) + "\n", durable=False)
        except OSError:
            return


def _common(item: Eval, cell: Cell, node_id: str, run: RunFolder, guidelines: str) -> dict[str, Any]:
    """What a record says whether or not the cell was graded."""
    return {
        "run_id": run.id,
        "eval": cell.eval_id,
        "category": cell.category,
        "name": cell.name,
        "model": cell.submitter,
        "experiment": cell.experiment,
        "repeat": cell.repeat,
        "node_id": node_id,
        "pipeline": item.pipeline,
        "backend": "none" if item.pipeline == "static" else "embedded",
        "backend_version": "",
        "sandbox": "none",
        "fingerprint": cell_fingerprint(item, guidelines),
        "started_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def record_without_grading(
    item: Eval, cell: Cell, node_id: str, run: RunFolder, guidelines: str, trouble: Trouble
) -> CellRecord:
    """The record of a cell that could not be graded."""
    common = _common(item, cell, node_id, run, guidelines)
    return CellRecord(**common, attempt=1, folder="", verdict=errored(trouble), grading_s=0.0)


def _as_trouble(problem: Trouble | BrokenEval | OSError) -> Trouble:
    if isinstance(problem, Trouble):
        return problem
    if isinstance(problem, BrokenEval):
        return Trouble("eval", str(problem), remedy=problem.remedy)
    return disk_trouble(problem, "a file of the attempt")


def judge_wrong(
    wrong: WrongSubmission, steps: tuple[StepRecord, ...], verdict: Passed | Failed | Errored
) -> tuple[Passed | Failed | Errored, Expectation]:
    """A wrong submission passes when it fails where it must."""
    step = next((step for step in steps if step.name == wrong.step), None)
    checks = {check.name: check.verdict for check in step.checks} if step else {}
    unknown = [name for name in wrong.checks if step and step.checks and name not in checks]
    met = (
        step is not None
        and isinstance(step.verdict, Failed)
        and all(isinstance(checks.get(name), Failed) for name in wrong.checks)
    )
    expectation = Expectation(step=wrong.step, checks=wrong.checks, why=wrong.why, met=met)
    if met:
        return Passed(), expectation
    if unknown:
        reason = f"expect.toml names {', '.join(unknown)}, which the grader does not have"
        return Errored(cause="eval", reason=reason, remedy="correct the name in expect.toml"), expectation
    if isinstance(verdict, Errored):
        return verdict, expectation
    where = f"{wrong.step} ({', '.join(wrong.checks)})" if wrong.checks else wrong.step
    happened = verdict.reason if isinstance(verdict, Failed) else "it passed everything"
    return Failed(cause="not_caught", reason=f"must fail at {where}: {wrong.why}\ninstead: {happened}"), expectation
