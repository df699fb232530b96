"""`convex-evals status`: what of a run is done, missing, stale or errored, evals by models."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pytest_convex_evals.cli.output import say
from pytest_convex_evals.comparing import stale_cells
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.prompts import guidelines_text
from pytest_convex_evals.records import Errored
from pytest_convex_evals.store import runs
from pytest_convex_evals.store.history import History, read_description
from pytest_convex_evals.store.lock import is_worked_on

State = Literal["passed", "failed", "error", "missing"]
_SIGNS: dict[str, str] = {"passed": ".", "failed": "F", "error": "E", "missing": "-"}
_STALE = "*"
_LISTED = 20


def show_status(store: Path, prefix: str, *, as_json: bool) -> int:
    """The matrix of a run, from its journal and from the suite as it is now."""
    runs.check_format(store)
    folder = store / "runs" / runs.find_run(store, prefix)
    description = read_description(folder)
    history = History.read(folder / "journal.jsonl")
    cells = {key: _state(history, key) for key in dict.fromkeys([*history.planned, *history.records])}
    stale = _stale(history, description)
    told: dict[str, Any] = {
        "run_id": folder.name,
        "running": is_worked_on(folder),
        "counts": dict(Counter(cells.values())) | {"stale": len(stale)},
        "cells": [
            {
                "cell": key,
                "state": state,
                "cause": _cause(history, key),
                "stale": list(stale.get(key, ())),
                "attempt": history.records[key].attempt if key in history.records else 0,
            }
            for key, state in cells.items()
        ],
    }
    if as_json:
        say(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        for line in status_lines(told):
            say(line)
    return 0


def _state(history: History, key: str) -> State:
    record = history.records.get(key)
    return "missing" if record is None else record.verdict.outcome


def _cause(history: History, key: str) -> str:
    record = history.records.get(key)
    return str(getattr(record.verdict, "cause", "")) if record is not None else ""


def _stale(history: History, description: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Errors are run again anyway; verdicts are compared with what the suite is now."""
    settings, root = description["settings"], description.get("root")
    if not root or not Path(root).is_dir():
        return {}
    try:
        guidelines = guidelines_text(settings["experiment"], settings.get("guidelines", ""))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"guidelines {settings['guidelines']} of the run cannot be read: {error}") from None
    verdicts = {key: one for key, one in history.records.items() if not isinstance(one.verdict, Errored)}
    return stale_cells(verdicts, Path(root), guidelines)


def status_lines(told: dict[str, Any]) -> list[str]:
    """For a terminal: one row per eval, one column per model, one sign per repeat."""
    counts = told["counts"]
    lines = [f"run {told['run_id']}{', a session works on it' if told['running'] else ''}", ""]
    rows: dict[str, dict[str, str]] = {}
    for cell in told["cells"]:
        eval_id, _, label = cell["cell"].partition("[")
        model = label[:-1].rpartition("+")[0] if label[:-1].rpartition("+")[2].isdigit() else label[:-1]
        sign = _SIGNS[cell["state"]] + (_STALE if cell["stale"] else "")
        row = rows.setdefault(eval_id, {})
        row[model] = row.get(model, "") + sign
    models = list(dict.fromkeys(model for row in rows.values() for model in row))
    width = max([len(name) for name in rows], default=0)
    columns = [max(1, *(len(row.get(model, "")) for row in rows.values())) if rows else 1 for model in models]
    for number, model in enumerate(models):
        bars = "".join("│".ljust(size + 1) for size in columns[:number])
        lines.append(f"{'':{width}}  {bars}{model}")
    for eval_id, row in rows.items():
        signs = " ".join(row.get(model, " ").ljust(size) for model, size in zip(models, columns, strict=True))
        lines.append(f"{eval_id:{width}}  {signs}".rstrip())
    shown = ", ".join(f"{counts.get(state, 0)} {state}" for state in (*_SIGNS, "stale"))
    lines += ["", f"{shown}   (. passed  F failed  E error  - missing  * stale)"]
    return lines + _details(told)


def _details(told: dict[str, Any]) -> list[str]:
    """Why, and what to do about it."""
    groups: dict[str, list[str]] = {}
    for cell in told["cells"]:
        if cell["stale"]:
            groups.setdefault(f"stale, changed since: {', '.join(cell['stale'])}", []).append(cell["cell"])
        if cell["state"] == "error":
            groups.setdefault(f"error: {cell['cause']}", []).append(cell["cell"])
    lines = []
    for title, keys in groups.items():
        more = [f"  and {len(keys) - _LISTED} more"] if len(keys) > _LISTED else []
        lines += ["", f"{title} ({len(keys)})", *(f"  {key}" for key in keys[:_LISTED]), *more]
    short, counts = told["run_id"][:8], told["counts"]
    if counts.get("missing") or counts.get("error"):
        lines += ["", f"run what has no verdict:  pytest evals --evals-resume {short}"]
    if counts["stale"]:
        lines += ["", f"grade again, free of cost: pytest evals --evals-regrade {short}"]
    return lines
