"""A whole database as something that can be compared: without times, and with what ids stand for in their place."""

import json
from collections.abc import Callable
from typing import Any

NAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "authTokens": lambda row: row["name"],
    "models": lambda row: row["slug"],
    "modelSlugs": lambda row: row["slug"],
    "experiments": lambda row: row["name"],
    "suites": lambda row: row["fingerprint"],
    "benchmarkVersions": lambda row: row["name"],
    "assets": lambda row: row["sha256"],
    "runs": lambda row: row["key"],
    "deletedRuns": lambda row: row["key"],
    "evals": lambda row: [row["runId"], row["evalPath"], row["repeat"]],
    "steps": lambda row: [row["evalId"], row["position"]],
    "checks": lambda row: [row["evalId"], row["step"], row["position"]],
    "modelScores": lambda row: [row["modelId"], row["experimentId"], row["suiteId"]],
}
"""What makes a row the same one in another database, after those that it refers to. `fileSweeps` is only a time."""
FILES = "_storage"


def contents(rows: Callable[[str], list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Every row of every table. A run's digest holds an id, so it goes too; every archive must have its file."""
    known: dict[str, Any] = {file["_id"]: file["sha256"] for file in rows(FILES)}
    found: dict[str, list[str]] = {}
    for table, name in NAMES.items():
        resolved = [_resolved(row, known) for row in rows(table)]
        known |= {row["_id"]: name(row) for row in resolved}
        if table == "runs":
            resolved = [{key: value for key, value in row.items() if key != "digest"} for row in resolved]
        found[table] = sorted(json.dumps(_timeless(row), sort_keys=True) for row in resolved)
    return found


def _resolved(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return {key: known[value] if key.endswith("Id") and value is not None else value for key, value in row.items()}


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.startswith("_") and not key.endswith("At")}
