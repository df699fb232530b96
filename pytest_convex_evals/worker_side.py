"""The side of a session that grades cells: one per worker, or in the one process of a session without workers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.session import Plan, generation_places, shown, statuses

if TYPE_CHECKING:
    from importlib.abc import Loader

    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.earlier import Given
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.submission import Submission
    from pytest_convex_evals.suite.evals import Eval
    from pytest_convex_evals.worker import CellGrader
    from pytest_convex_evals.worker_status import StatusFile


@dataclass(slots=True)
class WorkerSide:
    """Grades the cells of one process."""

    plan: Plan
    loader: Loader | None
    rootpath: Path
    name: str = "main"
    """Which worker this is."""
    _grader: CellGrader | None = None
    _status: StatusFile | None = None
    _cell: str = ""

    def grade(self, item: Eval, cell: Cell, node_id: str) -> CellRecord:
        """The record of a cell."""
        grader = self._cells()
        self._cell = cell.key
        self._entered("submission")
        try:
            return grader.grade(item, cell, node_id)
        finally:
            self._cell = ""
            self._entered("")

    def _entered(self, step: str) -> None:
        if self._status is not None:
            self._status.tell(self._cell, step)

    def shown_folder(self, record: CellRecord) -> str:
        """The attempt's folder as people can open it."""
        return shown(self.plan.folder().outputs / record.folder, self.rootpath) if record.folder else ""

    def _cells(self) -> CellGrader:
        if self._grader is None:
            from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
            from pytest_convex_evals.grading.tools import Tools
            from pytest_convex_evals.worker import CellGrader
            from pytest_convex_evals.worker_status import StatusFile

            tools = Tools(ensure_toolchain, toolchain_root(), self.plan.sandbox)
            run = self.plan.folder()
            self._status = StatusFile(statuses(run), self.name)
            self._grader = CellGrader(run, self.plan.guidelines, tools, self.loader, self._submission, self._entered)
        return self._grader

    def _submission(self, item: Eval, cell: Cell) -> Submission:
        from pytest_convex_evals.generation.answers import wait_for_submission
        from pytest_convex_evals.generation.builtin import built_in_submission

        run = self.plan.folder()
        given = self.plan.given.get(cell.eval_id, {}).get(cell.label)
        if cell.kind == "replay":
            _raise_fault(run.answer(cell))
        if given is not None and given.generation:
            return _stored(given, run.generations)
        if cell.kind == "model":
            return wait_for_submission(run.answer(cell), generation_places(run))
        return _with_lock(built_in_submission(item, cell), item, given)

    def close(self) -> None:
        """End what this process started."""
        grader, self._grader = self._grader, None
        status, self._status = self._status, None
        if grader is not None:
            grader.tools.close()
        if status is not None:
            status.close()


def _raise_fault(path: Path) -> None:
    """A rehearsal leaves the faults that it makes, and nothing else."""
    from pytest_convex_evals.generation.answers import Answer

    try:
        answer = Answer.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return
    if answer.trouble is not None:
        raise Trouble(answer.trouble.cause, answer.trouble.reason, remedy=answer.trouble.remedy)


def _stored(given: Given, generations: Path) -> Submission:
    """What a model handed in before: from the generation store, or from the answer file when it may not be reused."""
    from pydantic import ValidationError

    from pytest_convex_evals.generation.answers import Answer, submission_from_generation
    from pytest_convex_evals.generation.store import GenerationStore

    generation = GenerationStore(generations).get(given.generation)
    if generation is None:
        with suppress(OSError, ValidationError):
            generation = Answer.model_validate_json(Path(given.answer).read_bytes()).unstored
    if generation is None or generation.record.key != given.generation:
        raise Trouble(
            "generation_child",
            f"the stored answer {given.generation} cannot be read back",
            remedy="--evals-resume asks the model again for cells without a verdict",
        )
    record = generation.record.model_copy(update={"reused": given.reused})
    submission = submission_from_generation(generation.model_copy(update={"record": record}))
    return replace(submission, lock=_read(given.lock))


def _with_lock(submission: Submission, item: Eval, given: Given | None) -> Submission:
    """The versions of the last attempt count again, unless the eval's own answer has changed since."""
    from pytest_convex_evals.suite.fingerprint import fingerprint_parts

    if given is None or not given.lock or fingerprint_parts(item, "")["answer"] != given.part:
        return submission
    return replace(submission, lock=_read(given.lock))


def _read(path: str) -> str | None:
    """A lock that is gone is as good as none."""
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return None
