"""The scores backend: how fast the results of a finished run arrive, archives included."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scores_reads import TOKEN, add_token, deployed, progress
from pytest_convex_evals.cells import Cell
from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.records import CellRecord, CheckRecord, Failed, GenerationRecord, Passed, StepRecord
from pytest_convex_evals.scores.facts import suite_event
from pytest_convex_evals.scores.reporter import Reporter
from pytest_convex_evals.scores.target import Target
from pytest_convex_evals.store.journal import Journal
from pytest_convex_evals.store.runs import RunFolder, create_run

_EVALS, _CHECKS = 200, 12
_MODEL = Model(name="m", display="M", provider="p", litellm="m", key="")
_FILE = "export const list = query({ args: {}, handler: async (ctx) => ctx.db.query('notes').collect() });\n" * 20


def figures() -> Iterator[str]:
    """Two hundred cells of a run, each with six steps, twelve checks, its sources and the files it was graded on."""
    toolchain = ensure_toolchain(progress)
    with tempfile.TemporaryDirectory() as name, deployed(toolchain, Path(name)) as (core, url):
        add_token(core)
        run = _run(Path(name))
        began = time.monotonic()
        reporter = Reporter(run, Target(url, "", TOKEN), progress, live=False, older=False)
        reporter.finish(stuck_s=120)
        took = time.monotonic() - began
        stored = core.request("list", {"table": "evals"}, deadline_s=60)["documents"]
        if not reporter.done or len(stored) != _EVALS:
            raise RuntimeError(f"{len(stored)} results arrived: {reporter.lines()}")
    yield f"scores upload: {_EVALS / took:.0f} results/s"


def _run(folder: Path) -> RunFolder:
    """A run that has ended, as a session leaves it."""
    run = RunFolder.of("benchmark-20260101T000000Z", str(folder / ".evals"), "")
    cells = [Cell(f"{number % 8:03}-c", f"{number:03}-e", "m", "default") for number in range(_EVALS)]
    tasks = {cell.eval_id: folder / "evals" / cell.eval_id / "TASK.txt" for cell in cells}
    for task in tasks.values():
        (task.parent / "answer" / "convex").mkdir(parents=True)
        task.write_text(f"Write the backend {task.parent}")
        (task.parent / "grader.py").write_text("def test(): ...\n")
        (task.parent / "answer" / "convex" / "a.ts").write_text(_FILE)
    facts = suite_event(
        cells,
        tasks,
        {"m": _MODEL},
        keep_sources=True,
        store=run.store,
        backend="embedded",
        custom_guidelines="",
        git_commit=None,
        ci_url=None,
    )
    create_run(run, {"settings": {"outputs": ""}})
    journal = Journal(run.journal)
    journal.append("run_started", run_id=run.id, cells=[])
    journal.append("suite", **facts)
    for number, cell in enumerate(cells):
        journal.append("cell_finished", record=_record(run, cell, number).model_dump(mode="json"))
    journal.append("run_finished", exit_status=0, missing=0)
    journal.close()
    return run


def _record(run: RunFolder, cell: Cell, number: int) -> CellRecord:
    attempt, folder = run.new_attempt(cell)
    (folder / "project" / "convex").mkdir(parents=True)
    (folder / "project" / "convex" / "a.ts").write_text(f"{_FILE}// {number}\n")
    verdict = Passed() if number % 3 else Failed(cause="checks", reason="1 of 12 checks failed")
    checks = tuple(CheckRecord(name=f"test_{n}", verdict=Passed(), duration_s=0.01) for n in range(_CHECKS))
    steps = (
        StepRecord(name="filesystem", verdict=Passed(), duration_s=0.01),
        StepRecord(name="install", verdict=Passed(), duration_s=0.1),
        StepRecord(name="deploy", verdict=Passed(), duration_s=0.4),
        StepRecord(name="tsc", verdict=Passed(), duration_s=0.2),
        StepRecord(name="eslint", verdict=Passed(), duration_s=0.2),
        StepRecord(name="tests", verdict=verdict, duration_s=0.3, checks=checks),
    )
    generation = GenerationRecord(
        key="k",
        litellm_id="m",
        answered_by="m",
        parameters={},
        finish_reason="stop",
        input_tokens=10,
        output_tokens=20,
        cost_usd=0.01,
        duration_s=20,
    )
    return CellRecord(
        run_id=run.id,
        eval=cell.eval_id,
        category=cell.category,
        name=cell.name,
        model="m",
        experiment="default",
        repeat=1,
        attempt=attempt,
        node_id="",
        verdict=verdict,
        steps=steps,
        generation=generation,
        pipeline="full",
        backend="embedded",
        backend_version="1",
        sandbox="bwrap",
        fingerprint="f",
        folder=folder.relative_to(run.outputs).as_posix(),
        started_at="2026-01-01T00:00:00.000+00:00",
        grading_s=1.0,
    )
