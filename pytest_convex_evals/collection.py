"""Collection: a TASK.txt becomes an EvalFile, each of its cells an EvalItem."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_convex_evals.activation import active_worker
from pytest_convex_evals.cells import (
    EMPTY,
    EMPTY_KINDS,
    REPLAY,
    SUBMISSION_FOLDERS,
    TASK_FILE,
    WRONG,
    Cell,
    PastedId,
    split_label,
)
from pytest_convex_evals.errors import BrokenEval

if TYPE_CHECKING:
    from pytest_convex_evals.records import CellRecord
    from pytest_convex_evals.session import Plan
    from pytest_convex_evals.suite.evals import Eval
    from pytest_convex_evals.worker_side import WorkerSide


def ignored(path: Path) -> bool:
    """It is, or is inside, a folder of an eval that holds submissions; naming it as an argument changes nothing."""
    return any(
        folder.name in SUBMISSION_FOLDERS and (folder.parent / TASK_FILE).exists() for folder in (path, *path.parents)
    )


def evals_below(config: pytest.Config) -> bool:
    """Some TASK.txt is below one of the collection arguments, where pytest would look for it."""
    for argument in config.args:
        path = Path(os.path.join(config.invocation_params.dir, argument.partition("::")[0]))
        if path.name == TASK_FILE:
            return True
        for root, folders, files in os.walk(path):
            if TASK_FILE in files:
                return True
            folders[:] = [name for name in folders if not _passed_over(config, Path(root, name))]
    return False


def _passed_over(config: pytest.Config, folder: Path) -> bool:
    """The collection does not enter this folder, by the rules of whoever has a say in it."""
    return bool(config.hook.pytest_ignore_collect(collection_path=folder, config=config))


class EvalFile(pytest.File):
    """Collects the cells of one eval; what is wrong with the eval is said only if one of them is selected."""

    plan: Plan

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, worker: WorkerSide) -> EvalFile:
        """The collector of a TASK.txt."""
        root = parent.config.rootpath
        # Beside the root pytest has ids that no longer lead to the file; ours always do.
        own: dict[str, Any] = {}
        if not path.is_relative_to(root):
            own["nodeid"] = Path(os.path.relpath(path, root)).as_posix()
        node = cls.from_parent(parent, path=path, **own)
        node.plan = worker.plan
        return node

    def collect(self) -> Iterator[EvalItem]:
        """One item per submitter and repeat, in the order of the settings."""
        category, name = self.path.parent.parent.name, self.path.parent.name
        pattern = self.plan.settings.filter
        if pattern and not re.search(pattern, f"{category}/{name}"):
            return
        pasted = [entry for entry in self.plan.pasted if Path(entry.path) == self.path]
        for cell in cells_of(self.plan, self.path.parent, category, name, pasted):
            yield EvalItem.of(self, cell, self.plan.aliases.get(cell.submitter, ""))


def cells_of(plan: Plan, root: Path, category: str, name: str, pasted: list[PastedId]) -> Iterator[Cell]:
    """The cells of an eval: those of the settings, then those that pasted ids imply."""
    wanted = {
        (submitter, repeat): None
        for model in plan.settings.models
        for submitter, repeat in _submitters(plan, model, root, f"{category}/{name}")
    }
    wanted |= {(entry.submitter, entry.repeat): None for entry in pasted if entry.name == name}
    for submitter, repeat in wanted:
        yield Cell(category, name, submitter, plan.settings.experiment, repeat)


def _submitters(plan: Plan, model: str, root: Path, eval_id: str) -> list[tuple[str, int]]:
    """Who hands something in for a name of the settings, and which repeat it is."""
    if model.partition(":")[0] == REPLAY:
        # As many as the run had, whatever the settings say about repeats.
        return [split_label(label) for label in plan.given.get(eval_id, ()) if label.startswith(f"{model}:")]
    submitters = [model]
    if model == WRONG:
        from pytest_convex_evals.suite.wrong import wrong_slugs

        submitters = [f"{WRONG}:{slug}" for slug in wrong_slugs(root)]
    elif model == EMPTY:
        submitters = [f"{EMPTY}:{kind}" for kind in EMPTY_KINDS]
    return [(submitter, repeat) for submitter in submitters for repeat in range(1, plan.settings.repeats + 1)]


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cells that an earlier run rules out; what is not ours stays."""
    worker = active_worker(config)
    if worker is None or worker.plan.only is None:
        return
    only, dropped, kept = worker.plan.only, list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (dropped if isinstance(item, EvalItem) and item.cell.key not in only else kept).append(item)
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)


class CellError(Exception):
    """Raised in the setup phase: the cell is an error."""


class CellFailed(Exception):  # noqa: N818 - the verdict, not an error of ours
    """Raised in the call phase: the cell failed."""


RECORD: pytest.StashKey[CellRecord] = pytest.StashKey()
EVAL: pytest.StashKey[Eval] = pytest.StashKey()


class EvalItem(pytest.Item):
    """One cell. The pipeline runs in the setup phase; `runtest` only asserts on the record."""

    cell: Cell

    @classmethod
    def of(cls, parent: EvalFile, cell: Cell, alias: str) -> EvalItem:
        """The item of a cell."""
        node: EvalItem = cls.from_parent(parent, name=cell.item_name, nodeid=_node_id(parent, cell))
        node.cell = cell
        names = {cell.name, cell.category, cell.eval_id, cell.submitter, cell.label, alias}
        node.extra_keyword_matches.update(names - {""})
        node.add_marker(pytest.mark.category(name=cell.category))
        node.add_marker(pytest.mark.model(name=cell.submitter))
        return node

    def setup(self) -> None:
        """Grade the cell."""
        from pytest_convex_evals.records import Errored
        from pytest_convex_evals.rendering import junit_properties

        worker = active_worker(self.config)
        assert worker is not None
        record = worker.grade(self.stash[EVAL], self.cell, self.nodeid)
        self.stash[RECORD] = record
        self.user_properties[:] = junit_properties(record)
        if isinstance(record.verdict, Errored):
            raise CellError

    def runtest(self) -> None:
        """Assert on the record."""
        if self.stash[RECORD].verdict.outcome != "passed":
            raise CellFailed

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """What headings call it."""
        return self.path, None, f"{self.cell.eval_id} [{self.cell.label}]"


def _node_id(parent: EvalFile, cell: Cell) -> Any:
    """Brackets are parameters where ids have structure, so that `--lf` finds its own ids again."""
    structured = getattr(parent, "id", None)
    if structured is not None and hasattr(structured, "child"):
        return structured.child(cell.name).with_params(cell.label)
    return f"{parent.nodeid}::{cell.item_name}"


def without_traceback(call: pytest.CallInfo[None]) -> None:
    """A verdict is told in words: reading the sources of a traceback that nobody sees takes longer than grading."""
    if call.excinfo is not None and isinstance(call.excinfo.value, CellError | CellFailed):
        call.excinfo.traceback = call.excinfo.traceback[:0]


def complete_report(item: pytest.Item, call: pytest.CallInfo[None], report: Any) -> None:
    """The record travels as one JSON string on the setup report; a verdict is told in words, without a traceback."""
    record = item.stash.get(RECORD, None)
    worker = active_worker(item.config)
    if record is None or worker is None:
        return
    if call.when == "setup":
        report.evals_record = record.model_dump_json()
    if call.excinfo is not None and isinstance(call.excinfo.value, CellError | CellFailed):
        from pytest_convex_evals.rendering import verdict_text

        report.longrepr = verdict_text(record, worker.shown_folder(record))


def drop_broken(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Load the evals of all selected items; everything that is broken about one becomes its collection error."""
    from pytest_convex_evals.suite.evals import load_eval
    from pytest_convex_evals.suite.wrong import load_wrong

    loaded: dict[Path, Eval | BrokenEval] = {}
    broken: dict[str, dict[str, None]] = {}
    kept: list[pytest.Item] = []
    for item in items:
        if isinstance(item, EvalItem):
            try:
                found = loaded.get(item.path) or load_eval(item.path)
                loaded[item.path] = found
                if isinstance(found, BrokenEval):
                    raise found
                if item.cell.kind == "wrong":
                    load_wrong(found, item.cell.slug)
                item.stash[EVAL] = found
            except BrokenEval as problem:
                loaded.setdefault(item.path, problem)
                broken.setdefault(item.nodeid.partition("::")[0], {})[str(problem)] = None
                continue
        kept.append(item)
    if not broken:
        return
    items[:] = kept
    clean = session.testsfailed == 0
    for node_id, problems in broken.items():
        report = pytest.CollectReport(node_id, "failed", longrepr="\n".join(problems), result=[])
        session.config.hook.pytest_collectreport(report=report)
    if clean:
        # Only evals are broken, and evals do not depend on each other: the rest runs.
        session.config.option.continue_on_collection_errors = True
