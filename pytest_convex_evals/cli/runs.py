"""`convex-evals runs` and `convex-evals show`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pytest_convex_evals.cli.output import say, table
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.records import CellRecord, Errored, Failed
from pytest_convex_evals.rendering import summary_lines, verdict_text
from pytest_convex_evals.store import runs
from pytest_convex_evals.store.history import read_description
from pytest_convex_evals.store.journal import read_events, read_records


def list_runs(store: Path) -> int:
    """One line per run."""
    runs.check_format(store)
    ids = runs.list_runs(store)
    if not ids:
        say(f"no runs in {store}/ yet; `pytest evals` makes one, free of cost")
        return 0
    rows: list[tuple[str, ...]] = [("run", "models", "experiment", "cells", "passed", "failed", "errors", "missing")]
    problems = []
    for run_id in reversed(ids):
        try:
            rows.append(_row(store / "runs" / run_id))
        except SettingsError as problem:
            rows.append((run_id, "damaged", *["-"] * 6))
            problems.append(str(problem))
    for line in table(rows):
        say(line)
    for text in problems:
        say(f"\n{text}")
    return 1 if problems else 0


def _row(folder: Path) -> tuple[str, ...]:
    settings = read_description(folder)["settings"]
    records = read_records(folder / "journal.jsonl")
    counts = Counter(record.verdict.outcome for record in records)
    planned = _planned(folder)
    return (
        folder.name,
        ",".join(settings["models"]),
        settings["experiment"],
        str(planned),
        *(str(counts[outcome]) for outcome in ("passed", "failed", "error")),
        str(max(0, planned - len(records))),
    )


def show_run(store: Path, prefix: str, pattern: str) -> int:
    """The summary of a run, from its journal alone; with a pattern, every detail of the cells that match."""
    runs.check_format(store)
    folder = store / "runs" / runs.find_run(store, prefix)
    description = read_description(folder)
    settings = description["settings"]
    outputs = Path(settings["outputs"]) / folder.name if settings["outputs"] else folder
    records = [record for record in read_records(folder / "journal.jsonl") if _matches(record, pattern)]
    say(f"run {folder.name}, experiment {settings['experiment']}, commit {description.get('git_commit') or 'unknown'}")
    say()
    if pattern:
        for record in records:
            say(_whole(record, str(outputs)))
            say()
        return 0
    missing = max(0, _planned(folder) - len(records))
    command = ["evals", "--models", ",".join(settings["models"])]
    for line in summary_lines(records, str(outputs), missing, command, folder.name):
        say(line)
    return 0


def _whole(record: CellRecord, outputs: str) -> str:
    if isinstance(record.verdict, Failed | Errored):
        text = verdict_text(record, f"{outputs}/{record.folder}" if record.folder else "")
        return f"{record.eval} [{record.label}] {text}"
    checks = "".join(f"\n  {check.name} ({check.duration_s:.2f} s)" for check in record.checks)
    return f"{record.eval} [{record.label}] passed in {record.grading_s:.2f} s{checks}"


def _matches(record: CellRecord, pattern: str) -> bool:
    return pattern.lower() in f"{record.eval} [{record.label}]".lower()


def _planned(folder: Path) -> int:
    started = (event for event in read_events(folder / "journal.jsonl") if event["event"] == "run_started")
    return len(next(started, {"cells": []})["cells"])
