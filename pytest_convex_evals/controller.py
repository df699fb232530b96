"""The controller: plans, journals and reports. Nothing here is a pytest hook; `controller_hooks.py` hands over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_convex_evals.cells import Cell, parse_node_id
from pytest_convex_evals.errors import BrokenEval, SetupError, Trouble, disk_trouble
from pytest_convex_evals.options import settings_lines
from pytest_convex_evals.session import Plan, Prepared, shown

if TYPE_CHECKING:
    from pytest_convex_evals.asking import Asking
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.store.journal import Journal
    from pytest_convex_evals.store.runs import RunFolder


@dataclass(slots=True)
class Controller:
    """Plans, journals and reports; the only writer of the journal."""

    prepared: Prepared
    rootpath: Path
    command: Sequence[str]
    taken: dict[str, str] = field(default_factory=dict)
    """Keys that were in the environment of this process."""
    records: dict[str, CellRecord] = field(default_factory=dict)
    planned: dict[str, Cell] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    say: Callable[[str], None] = lambda _: None
    """Prints a line while the session runs."""
    _journal: Journal | None = None
    _asking: Asking | None = None
    _started: bool = False

    @property
    def plan(self) -> Plan:
        """What all workers know too."""
        return self.prepared.plan

    def header_lines(self) -> list[str]:
        """Printed once an eval was collected."""
        from pytest_convex_evals import __version__

        lines = [f"convex-evals {__version__}: run {self.plan.run_id}, sandbox {self.plan.sandbox}"]
        return lines + [f"  {line}" for line in settings_lines(self.plan.settings)]

    def order(self, node_ids: Sequence[str]) -> list[int] | None:
        """The order of hand-out, when there are cells among the items."""
        from pytest_convex_evals.handout import longest_first
        from pytest_convex_evals.store.durations import duration_key, read_durations

        if not self.planned:
            return None
        known = read_durations(Path(self.plan.settings.dir))
        keys = {node_id: duration_key(cell.eval_id, cell.submitter) for node_id, cell in self.planned.items()}
        return longest_first(node_ids, lambda node_id: known.get(keys.get(node_id, "")))

    def start(self, node_ids: Sequence[str]) -> None:
        """The selected cells are known: open the journal, ask for answers."""
        if self._started:
            return
        self._started = True
        for node_id in node_ids:
            parsed = parse_node_id(node_id)
            if parsed is not None:
                # Ids are relative to the root of the session, which may lie inside the suite or beside it.
                folder = Path(os.path.abspath(self.rootpath / parsed.path)).parent
                cell = Cell(
                    folder.parent.name, parsed.name, parsed.submitter, self.plan.settings.experiment, parsed.repeat
                )
                self.planned[node_id] = cell
        from pytest_convex_evals.asking import leave_trouble

        run = self.plan.folder()
        try:
            self._open_journal(run)
            self._ask_for_answers(run)
        except OSError as error:
            trouble = disk_trouble(error, "the run store")
            self.problems.append(f"{trouble.reason}; what to do: {trouble.remedy}")
            leave_trouble(run, self.planned.values(), trouble)
        self._set_up_tools()

    def _set_up_tools(self) -> None:
        """A first set-up takes a while, and only the controller can say so; what fails here fails in the cells."""
        from pytest_convex_evals.engine.setup import ensure_toolchain

        with suppress(SetupError, OSError):
            ensure_toolchain(lambda line: self.say(f"set-up: {line}"))

    def _open_journal(self, run: RunFolder) -> None:
        from pytest_convex_evals.runinfo import describe_run
        from pytest_convex_evals.store.journal import Journal
        from pytest_convex_evals.store.runs import create_run

        create_run(run, describe_run(self.plan.run_id, self.plan.settings, self.rootpath))
        self._journal = Journal(run.journal)
        self._journal.append("run_started", run_id=self.plan.run_id, cells=list(self.planned))

    def _ask_for_answers(self, run: RunFolder) -> None:
        from pytest_convex_evals.asking import Asking

        wanted = {node_id: cell for node_id, cell in self.planned.items() if cell.kind == "model"}
        if wanted:
            self._asking = Asking(self.prepared, run, wanted, self.rootpath, self.say)

    def add(self, node_id: str, record: CellRecord) -> None:
        """Journal a verdict; the first one on a cell counts."""
        if node_id in self.records:
            return
        self.records[node_id] = record
        if self._journal is None:
            return
        try:
            self._journal.append("cell_finished", record=record.model_dump(mode="json"))
        except OSError as error:
            self.problems.append(f"the verdict on {node_id} is not in the journal: {error.strerror or error}")

    def crashed(self, node_id: str, message: str) -> CellRecord | None:
        """The record of a cell whose worker died."""
        cell = self.planned.get(node_id)
        if cell is None:
            return None
        from pytest_convex_evals.suite.evals import load_eval
        from pytest_convex_evals.worker import record_without_grading

        try:
            item = load_eval(self.rootpath / node_id.partition("::")[0])
        except BrokenEval:
            return None
        trouble = Trouble("worker_crashed", message, remedy="run the same command again")
        return record_without_grading(item, cell, node_id, self.plan.folder(), self.plan.guidelines, trouble)

    @property
    def missing(self) -> int:
        """Cells that were planned and have no verdict."""
        return len([node_id for node_id in self.planned if node_id not in self.records])

    def summary(self) -> list[str]:
        """The lines of the terminal summary."""
        from pytest_convex_evals.rendering import summary_lines

        outputs = shown(self.plan.folder().outputs, self.rootpath)
        ordered = [self.records[node_id] for node_id in self.planned if node_id in self.records]
        lines = list(summary_lines(ordered, outputs, self.missing, self.command))
        return [*(f"warning: {problem}" for problem in self.problems), *lines]

    def finish(self, exit_status: int) -> None:
        """The session ends: say so in the journal, end the child, give the environment back."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None
        if self._journal is not None:
            try:
                self._journal.append("run_finished", exit_status=exit_status, missing=self.missing)
            except OSError as error:
                self.problems.append(f"the end of the run is not in the journal: {error.strerror or error}")
            self._journal.close()
            self._journal = None
            self._keep_durations()

    def _keep_durations(self) -> None:
        from pytest_convex_evals.store.durations import duration_key, keep_durations

        graded = [record for record in self.records.values() if record.steps]
        measured = {duration_key(record.eval, record.model): record.grading_s for record in graded}
        keep_durations(Path(self.plan.settings.dir), measured)

    def restore_environment(self) -> None:
        """Give back what `take_keys_away` took."""
        os.environ.update(self.taken)
        self.taken = {}
