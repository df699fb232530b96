"""The work on one cell: attempt folder, submission, steps, expectation, record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.abc import Loader
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.errors import BrokenEval, Trouble, disk_trouble
from pytest_convex_evals.files import write_atomically
from pytest_convex_evals.grading.pipeline import defect, errored, run_steps, steps_of, verdict_of
from pytest_convex_evals.grading.steps.base import Bench
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.places import in_all, without_places
from pytest_convex_evals.records import CellRecord, Errored, Expectation, Failed, Passed, StepName, StepRecord
from pytest_convex_evals.store.runs import RunFolder
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import Eval
from pytest_convex_evals.suite.fingerprint import fingerprint_parts, joined_fingerprint
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
    entered: Callable[[str], None] = lambda _: None
    """Told the name of each step that begins."""

    def grade(self, item: Eval, cell: Cell, node_id: str) -> CellRecord:
        """The record of a cell; whatever happens, there is one."""
        try:
            attempt, folder = self.run.new_attempt(cell)
        except OSError as error:
            trouble = disk_trouble(error, "the run store")
            return record_without_grading(item, cell, node_id, self.run, self.guidelines, trouble)
        submission, started = Submission({}), time.monotonic()
        graded = Graded(attempt, folder)
        try:
            submission = self.submit(item, cell)
            started = time.monotonic()
            graded = self._graded(item, cell, submission, graded)
            verdict, expectation = verdict_of(graded.steps), None
            if cell.kind == "wrong":
                verdict, expectation = judge_wrong(load_wrong(item, cell.slug), graded.steps, verdict)
        except (Trouble, BrokenEval, OSError) as problem:
            verdict, expectation = errored(_as_trouble(problem)), None
        except Exception as error:  # noqa: BLE001 - a defect of ours must not take the session down
            verdict, expectation = defect("the work on a cell", error), None
        common = _common(item, cell, node_id, self.run, self.guidelines)
        made = CellRecord(
            **{**common, **graded.backend},
            attempt=graded.attempt,
            folder=graded.folder.relative_to(self.run.outputs).as_posix(),
            generation=submission.generation,
            verdict=verdict,
            steps=graded.steps,
            expectation=expectation,
            grading_s=round(time.monotonic() - started, 4),
        )
        places = {"project": graded.folder / "project", "attempt": graded.folder, "store": self.tools.cache}
        record = CellRecord.model_validate(in_all(without_places(places), made.model_dump()))
        self._keep(graded.folder, record)
        return record

    def _graded(self, item: Eval, cell: Cell, submission: Submission, first: Graded) -> Graded:
        """Grade once; once more on fresh processes when one of them died, and then decide whose fault that is."""
        once = self._run_pipeline(item, submission, first)
        step = died_at(once.steps)
        if step is None:
            return once
        again = self._run_pipeline(item, submission, Graded(*self.run.new_attempt(cell)))
        if died_at(again.steps) != step or not self._reference_passes(item):
            return again
        return replace(again, steps=tuple(_crashed(one) if one.name == step else one for one in again.steps))

    def _reference_passes(self, item: Eval) -> bool:
        with tempfile.TemporaryDirectory(prefix="convex-evals-reference-") as folder:
            graded = self._run_pipeline(item, Submission(item.answer_files()), Graded(1, Path(folder)))
        return isinstance(verdict_of(graded.steps), Passed)

    def _run_pipeline(self, item: Eval, submission: Submission, graded: Graded) -> Graded:
        if submission.answer_text is not None:
            write_atomically(graded.folder / "answer.md", submission.answer_text, durable=False)
        bench = Bench(item, submission, graded.folder, self.tools, entered=self.entered)
        try:
            steps = run_steps(steps_of(item, self.loader), bench)
        finally:
            bench.close()
        backend = {}
        if bench.backend is not None:
            backend = {"backend_version": bench.backend.version, "sandbox": self.tools.cage().level}
        return replace(graded, steps=steps, backend=backend)

    def _keep(self, folder: Path, record: CellRecord) -> None:
        """A copy beside the files; the journal is what counts."""
        try:
            write_atomically(folder / "record.json", record.model_dump_json(indent=1) + "\n", durable=False)
        except OSError:
            return


@dataclass(frozen=True, slots=True)
class Graded:
    """One attempt at a cell."""

    attempt: int
    folder: Path
    steps: tuple[StepRecord, ...] = ()
    backend: Mapping[str, str] = field(default_factory=dict)
    """What the record says about the backend that was used."""


_MORTAL = {"cage": "runs the submission", "toolchain": "reads its sources"}
"""Processes that work on a submission and may die of it, by the cause that is recorded then."""


def died_at(steps: tuple[StepRecord, ...]) -> StepName | None:
    """The step at which such a process died, if that is why there is no verdict."""
    verdict = verdict_of(steps)
    if not isinstance(verdict, Errored) or verdict.cause not in _MORTAL:
        return None
    step = next(step.name for step in steps if isinstance(step.verdict, Errored))
    return None if step == "install" else step


def _crashed(step: StepRecord) -> StepRecord:
    assert isinstance(step.verdict, Errored)
    what = _MORTAL[step.verdict.cause]
    reason = f"the process that {what} died twice, and the reference passes: the submission crashes it"
    return step.model_copy(update={"verdict": Failed(cause="crashed", reason=reason)})


def _common(item: Eval, cell: Cell, node_id: str, run: RunFolder, guidelines: str) -> dict[str, Any]:
    """What a record says whether or not the cell was graded."""
    parts = fingerprint_parts(item, guidelines)
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
        "fingerprint": joined_fingerprint(parts),
        "fingerprint_parts": parts,
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
