"""The controller: plans, journals and reports. Nothing here is a pytest hook; `controller_hooks.py` hands over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_convex_evals.cells import Cell, parse_node_id
from pytest_convex_evals.errors import BrokenEval, SettingsError, SetupError, Trouble, disk_trouble
from pytest_convex_evals.monitor import Monitor
from pytest_convex_evals.readiness import Readiness, longest_first
from pytest_convex_evals.session import Plan, Prepared, shown
from pytest_convex_evals.settings import settings_lines

if TYPE_CHECKING:
    from pytest_convex_evals.asking import Asking
    from pytest_convex_evals.comparing import Comparison
    from pytest_convex_evals.generation.client import GenerationClient
    from pytest_convex_evals.generation.estimate import Estimate
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.rehearsal import RehearsedCalls
    from pytest_convex_evals.store.journal import Journal
    from pytest_convex_evals.store.lock import RunLock
    from pytest_convex_evals.store.runs import RunFolder


_QUICK = (1.0, 1.0, -1.0)
"""Rank of a cell that took a second when it was last graded; plain tests are quick too."""


@dataclass(slots=True)
class Controller:
    """Plans, journals and reports; the only writer of the journal."""

    prepared: Prepared
    rootpath: Path
    command: Sequence[str]
    taken: dict[str, str] = field(default_factory=dict)
    """Keys that were in the environment of this process."""
    records: dict[str, CellRecord] = field(default_factory=dict)
    """By id: whole until the cell is torn down, without steps afterwards."""
    planned: dict[str, Cell] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    say: Callable[[str], None] = lambda _: None
    """Prints a line while the session runs."""
    consent: Callable[[str], bool] | None = None
    """Asks a person; None: nobody is asked."""
    monitor: Monitor = field(default_factory=Monitor)
    readiness: Readiness | None = None
    """Which items may run; None until the cells are known."""
    comparison: Comparison | None = None
    """With what the run said before this session."""
    _journal: Journal | None = None
    _child: GenerationClient | None = None
    """Calls models; started before anybody knows the cells."""
    _calls: list[Asking | RehearsedCalls] = field(default_factory=list)
    _lock: RunLock | None = None
    _started: bool = False

    @property
    def plan(self) -> Plan:
        """What all workers know too."""
        return self.prepared.plan

    def header_lines(self) -> list[str]:
        """Printed once an eval was collected."""
        from pytest_convex_evals import __version__

        run = {"new": "run", "resume": "going on with run", "regrade": "grading again run"}[self.plan.mode]
        lines = [f"convex-evals {__version__}: {run} {self.plan.run_id}, sandbox {self.plan.sandbox}"]
        told = [*settings_lines(self.plan.settings), *self.prepared.earlier.notes]
        return lines + [f"  {line}" for line in [*told, *self.prepared.uploads.header_lines()]]

    def warm_up(self) -> None:
        """Begin with what takes long while workers start and cells are collected; nothing is bought yet."""
        if self.prepared.models:
            from pytest_convex_evals.asking import start_child

            self._child = start_child(self.prepared)

    def start(self, node_ids: Sequence[str], workers: int) -> None:
        """What is selected is known: open the journal, ask for answers. Without workers the order is pytest's."""
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
        waits = {node_id: cell for node_id, cell in self.planned.items() if self._waits(cell)}
        ranks = self._ranks(node_ids, workers)
        self.readiness = Readiness(
            ranks,
            waiting=[index for index, node_id in enumerate(node_ids) if node_id in waits],
            quick=[index for index, rank in enumerate(ranks) if rank > _QUICK or not rank[0]],
        )
        self.monitor.begin(len(self.planned), len(waits), workers)
        run = self.plan.folder()
        try:
            self._open_journal(run)
            self._ask(run, waits, node_ids)
        except SettingsError as error:
            # Somebody took the run between two looks; nothing may be written to it.
            self.problems.append(str(error))
            self.readiness.over()
        except OSError as error:
            from pytest_convex_evals.asking import leave_trouble

            trouble = disk_trouble(error, "the run store")
            self.problems.append(f"{trouble.reason}; what to do: {trouble.remedy}")
            leave_trouble(run, waits.values(), trouble)
            self.readiness.over()
        self._compare()
        self._set_up_tools()

    def _waits(self, cell: Cell) -> bool:
        """An answer has to arrive before the cell can be graded."""
        if cell.kind == "replay":
            return bool(self.plan.settings.rehearsal)
        return cell.kind == "model" and self.plan.mode != "regrade"

    def _ranks(self, node_ids: Sequence[str], workers: int) -> list[tuple[float, ...]]:
        """Plain tests first, because they hold nobody up; then cells, for several workers the longest first."""
        from pytest_convex_evals.store.durations import duration_key, read_durations

        if not workers:
            return [(0.0,)] * len(node_ids)
        known = read_durations(Path(self.plan.settings.dir))
        keys = {node_id: duration_key(cell.eval_id, cell.submitter) for node_id, cell in self.planned.items()}
        ranks = longest_first(node_ids, lambda node_id: known.get(keys.get(node_id, "")))
        return [(float(node_id in keys), *rank) for node_id, rank in zip(node_ids, ranks, strict=True)]

    def _set_up_tools(self) -> None:
        """A first set-up takes a while, and only the controller can say so; what fails here fails in the cells."""
        from pytest_convex_evals.engine.setup import ensure_toolchain

        with suppress(SetupError, OSError):
            ensure_toolchain(lambda line: self.say(f"set-up: {line}"))

    def _open_journal(self, run: RunFolder) -> None:
        from pytest_convex_evals.runinfo import describe_run
        from pytest_convex_evals.store.history import STARTED
        from pytest_convex_evals.store.journal import Journal
        from pytest_convex_evals.store.lock import RunLock
        from pytest_convex_evals.store.runs import create_run

        earlier = self.prepared.earlier
        description = describe_run(self.plan.run_id, self.plan.settings, self.rootpath)
        tasks = {cell.eval_id: self.rootpath / id_.partition("::")[0] for id_, cell in self.planned.items()}
        uploads = self.prepared.uploads
        suite = uploads.suite(self.planned.values(), tasks, self.plan, description["git_commit"])
        if earlier.mode == "new":
            facts = {name: suite[name] for name in ("fingerprint", "parts") if name in suite}
            create_run(run, description | {"suite": facts})
        self._lock = earlier.lock or RunLock.take(run.path)
        self._journal = Journal(run.journal)
        event = STARTED if earlier.mode == "new" or not earlier.history.planned else f"{earlier.mode}_started"
        keys = [cell.key for cell in self.planned.values()]
        self._journal.append(event, run_id=self.plan.run_id, cells=list(self.planned), keys=keys)
        if suite:
            self._journal.append("suite", **suite)
        uploads.start(run, lambda line: self.say(line))

    def _ask(self, run: RunFolder, waits: dict[str, Cell], node_ids: Sequence[str]) -> None:
        """Whatever arrives makes its item ready."""
        assert self.readiness is not None
        positions = {node_id: index for index, node_id in enumerate(node_ids)}
        index_of = {str(run.answer(cell)): positions[node_id] for node_id, cell in waits.items()}
        readiness = self.readiness

        def told(event: dict[str, Any]) -> None:
            self.monitor.told(event)
            if event.get("event") == "answered" and event.get("ticket") in index_of:
                readiness.arrived(index_of[event["ticket"]])

        models = {node_id: cell for node_id, cell in waits.items() if cell.kind == "model"}
        replays = [cell for cell in waits.values() if cell.kind == "replay"]
        if models:
            from pytest_convex_evals.asking import Asking, start_child

            self._child = self._child or start_child(self.prepared)
            asking = Asking(self._child, self.prepared, run, models, self.rootpath, told, readiness.over, self._approve)
            self._calls.append(asking)
        else:
            self._end_calls()
        if replays:
            from pytest_convex_evals.rehearsal import RehearsedCalls

            self._calls.append(RehearsedCalls(self.plan, run, replays, told))

    def _approve(self, estimate: Estimate) -> None:
        """Say what will be bought, and ask when it is much."""
        for line in estimate.lines():
            self.say(line)
        if estimate.asks and self.consent is not None and not self.consent("Buy these answers?"):
            from pytest_convex_evals.confirmation import decline

            decline()

    def _compare(self) -> None:
        from pytest_convex_evals.comparing import Comparison

        if self.plan.mode == "new":
            return
        self.comparison = Comparison(self.prepared.earlier.history)
        if self.plan.mode == "resume":
            for line in self.comparison.stale_lines(self.rootpath, self.plan.guidelines, self.plan.run_id):
                self.say(line)

    def add(self, node_id: str, record: CellRecord) -> None:
        """Journal a verdict; the first one on a cell counts."""
        if node_id in self.records:
            return
        self.records[node_id] = record
        self.monitor.verdict(record.verdict.outcome, record.grading_s)
        if self._journal is None:
            return
        try:
            self._journal.append("cell_finished", record=record.model_dump(mode="json"))
            if self.comparison is not None and (flaky := self.comparison.add(record)) is not None:
                self._journal.append("flaky_grader", **flaky)
        except OSError as error:
            self.problems.append(f"the verdict on {node_id} is not in the journal: {error.strerror or error}")
        self.prepared.uploads.nudge()

    def torn_down(self, node_id: str) -> None:
        """Nobody needs the steps of a cell any more; the journal has them."""
        if node_id in self.records:
            self.records[node_id] = self.records[node_id].without_steps()

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

    def all_records(self) -> list[CellRecord]:
        """The last record of each cell of the run, those of earlier sessions included."""
        before = self.prepared.earlier.history.records
        mine = {cell.key: self.records[node_id] for node_id, cell in self.planned.items() if node_id in self.records}
        return list((before | mine).values()) if before else list(mine.values())

    @property
    def missing(self) -> int:
        """Cells of the run without a record."""
        history = self.prepared.earlier.history
        mine = {cell.key for node_id, cell in self.planned.items() if node_id in self.records}
        wanted = dict.fromkeys([*history.planned, *(cell.key for cell in self.planned.values())])
        return sum(key not in mine and key not in history.records for key in wanted)

    def summary(self) -> list[str]:
        """The lines of the terminal summary."""
        from pytest_convex_evals.rendering import summary_lines

        outputs = shown(self.plan.folder().outputs, self.rootpath)
        told = self.comparison.lines() if self.comparison is not None else []
        lines = summary_lines(self.all_records(), outputs, self.missing, self.command, self.plan.run_id)
        notes = [] if self.planned else [*self.prepared.earlier.notes, ""]
        uploaded = self.prepared.uploads.summary_lines()
        return [*(f"warning: {problem}" for problem in self.problems), *notes, *told, *lines, *uploaded]

    @property
    def unhappy(self) -> bool:
        """Something that pytest does not count: a verdict that is nowhere, a flaky grader, an earlier failure."""
        if self.problems or (self.comparison is not None and self.comparison.flaky):
            return True
        if self.plan.mode == "new":
            return False
        return bool(self.missing) or any(record.verdict.outcome != "passed" for record in self.all_records())

    def interrupted(self) -> None:
        """Whoever calls models may end while the others do."""
        if self._child is not None:
            self._child.tell_to_end()

    def finish(self, exit_status: int) -> None:
        """The session ends: say so in the journal, end the calls, let go of the run."""
        self._end_calls()
        if self._journal is not None:
            try:
                at = datetime.now(UTC).isoformat(timespec="milliseconds")
                self._journal.append("run_finished", at=at, exit_status=exit_status, missing=self.missing)
            except OSError as error:
                self.problems.append(f"the end of the run is not in the journal: {error.strerror or error}")
            self._journal.close()
            self._journal = None
            self._keep_durations()
        self.release()
        self.prepared.uploads.finish(interrupted=exit_status == pytest.ExitCode.INTERRUPTED)

    def _end_calls(self) -> None:
        while self._calls:
            self._calls.pop().close()
        if self._child is not None:
            self._child.close()
            self.problems.extend(self._child.defects)
            self._child = None

    def release(self) -> None:
        """Others may go on with the run."""
        self._end_calls()
        for lock in (self._lock, self.prepared.earlier.lock):
            if lock is not None:
                lock.release()

    def _keep_durations(self) -> None:
        from pytest_convex_evals.store.durations import duration_key, keep_durations

        graded = [record for record in self.records.values() if record.grading_s and record.verdict.outcome != "error"]
        measured = {duration_key(record.eval, record.model): record.grading_s for record in graded}
        keep_durations(Path(self.plan.settings.dir), measured)

    def restore_environment(self) -> None:
        """Give back what `take_keys_away` took."""
        os.environ.update(self.taken)
        self.taken = {}
