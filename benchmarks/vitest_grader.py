"""Vitest graders: seconds per cell on one lane, once everything is warm."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.processes import adopt_orphans, measure

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "tests" / "vitest_suite" / "suite"
_REPEATS = 6
_SLOW_BY_NATURE = ("000-own_tests",)
"""Runs vitest a second time, and the command line, in processes of their own."""


def figures() -> Iterator[str]:
    """The median over all cells but the first of each eval."""
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(SUITE, folder / "suite")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        store = folder / "store"
        command = [sys.executable, "-m", "pytest", "suite/evals", "-q", "--models", "reference"]
        command += ["-k", f"not {_SLOW_BY_NATURE[0]}", "--evals-repeats", str(_REPEATS), "--evals-dir", str(store)]
        cost = measure(command, folder, os.environ | {"PYTHONPATH": str(ROOT)})
        (journal,) = store.glob("runs/*/journal.jsonl")
        events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    records = [event["record"] for event in events if event["event"] == "cell_finished"]
    if not records or any(record["verdict"]["outcome"] != "passed" for record in records):
        raise RuntimeError(f"not all cells passed:\n{cost.output[-4000:]}")
    warm = [record for record in records if record["repeat"] > 1]
    for name in sorted({record["name"] for record in warm}):
        own = [record for record in warm if record["name"] == name]
        steps: dict[str, list[float]] = {}
        for step in (step for record in own for step in record["steps"]):
            steps.setdefault(step["name"], []).append(step["duration_s"])
        shown = ", ".join(f"{step} {median(values):.2f}" for step, values in steps.items())
        line = f"  {name}: {median(record['grading_s'] for record in own):.2f} s ({shown})"
        print(line, file=sys.stderr, flush=True)
    print(f"  {cost.cpu_s / len(records):.2f} CPU s per cell", file=sys.stderr, flush=True)
    yield f"vitest grader: {median(record['grading_s'] for record in warm):.2f} s"
