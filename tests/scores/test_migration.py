"""Loosen, migrate, tighten: rows of an older schema become rows of this one. `make soak` migrates 10,000."""

import os
import time
from typing import Any

from .support.deployment import TOKEN, Deployment

ROWS = int(os.environ.get("SOAK_ROWS", "2000"))
BATCH = 1_000
MIGRATIONS = 2
TIGHT = "    category: v.string(),\n    name: v.string(),\n    repeat: v.number(),"
LOOSE = TIGHT.replace("category: v.string()", "category: v.optional(v.string())").replace(
    "name: v.string()", "name: v.optional(v.string())"
)


def tighten(scores: Deployment, *, tight: bool) -> None:
    schema = scores.folder / "convex" / "schema.ts"
    old, new = (LOOSE, TIGHT) if tight else (TIGHT, LOOSE)
    text = schema.read_text()
    assert text.count(old) == 1
    schema.write_text(text.replace(old, new))


def old_row(run_id: str, number: int) -> dict[str, Any]:
    row = {"runId": run_id, "evalPath": f"{number % 7:03}-group/{number}", "repeat": 1, "attempt": 1}
    return {**row, "status": {"kind": "passed"}}


def test_rows_of_an_older_schema(deployed: Deployment) -> None:
    scores = deployed
    scores.reset()
    run_id = scores.start("r")
    tighten(scores, tight=False)
    scores.push()
    for first in range(0, ROWS, BATCH):
        rows = [old_row(run_id, number) for number in range(first, first + BATCH)]
        scores.core.control("insert", table="evals", documents=rows)

    tighten(scores, tight=True)
    too_early = scores.cli("dev", "--once", "--typecheck", "disable")
    assert "Schema validation failed" in too_early.output
    tighten(scores, tight=False)
    scores.push()

    started = scores.cli("run", "migrations:runAll")
    assert started.code == 0, started.output
    wait_for_success(scores)
    shown = scores.cli("run", "--component", "migrations", "lib:getStatus")
    assert '"state": "success"' in shown.output
    assert f'"processed": {ROWS}' in shown.output

    migrated = scores.rows("evals")
    assert len(migrated) == ROWS
    for number, row in enumerate(migrated):
        assert (row["category"], row["name"]) == (f"{number % 7:03}-group", str(number))
    tighten(scores, tight=True)
    scores.push()
    assert scores.client.query("admin:checkToken", {"token": TOKEN})["name"] == TOKEN


def wait_for_success(scores: Deployment) -> None:
    end = time.monotonic() + 300
    while True:
        found = scores.core.run("lib:getStatus", {}, identity="admin", component="migrations")
        states = [status["state"] for status in found]
        if states == ["success"] * MIGRATIONS:
            return
        assert {*states} <= {"inProgress", "success"}, found
        assert time.monotonic() < end, found
        time.sleep(0.2)
