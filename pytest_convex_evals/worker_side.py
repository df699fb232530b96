"""The side of a session that grades cells: one per worker, or in the one process of a session without workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.session import Plan, generation_places, shown

if TYPE_CHECKING:
    from importlib.abc import Loader

    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.submission import Submission
    from pytest_convex_evals.suite.evals import Eval
    from pytest_convex_evals.worker import CellGrader


@dataclass(slots=True)
class WorkerSide:
    """Grades the cells of one process."""

    plan: Plan
    loader: Loader | None
    rootpath: Path
    _grader: CellGrader | None = None

    def grade(self, item: Eval, cell: Cell, node_id: str) -> CellRecord:
        """The record of a cell."""
        return self._cells().grade(item, cell, node_id)

    def shown_folder(self, record: CellRecord) -> str:
        """The attempt's folder as people can open it."""
        return shown(self.plan.folder().outputs / record.folder, self.rootpath) if record.folder else ""

    def _cells(self) -> CellGrader:
        if self._grader is None:
            from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
            from pytest_convex_evals.grading.tools import Tools
            from pytest_convex_evals.worker import CellGrader

            tools = Tools(ensure_toolchain, toolchain_root(), self.plan.sandbox)
            self._grader = CellGrader(self.plan.folder(), self.plan.guidelines, tools, self.loader, self._submission)
        return self._grader

    def _submission(self, item: Eval, cell: Cell) -> Submission:
        from pytest_convex_evals.generation.answers import wait_for_submission
        from pytest_convex_evals.generation.builtin import built_in_submission

        if cell.kind != "model":
            return built_in_submission(item, cell)
        run = self.plan.folder()
        return wait_for_submission(run.answer(cell), generation_places(run))

    def close(self) -> None:
        """End what this process started."""
        if self._grader is not None:
            self._grader.tools.close()
            self._grader = None
