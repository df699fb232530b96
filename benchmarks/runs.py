"""Runs: what a session costs beyond the calls and the grading that it waits for, and the memory of its controller."""

from __future__ import annotations

import heapq
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.processes import Cost, adopt_orphans, measure
from pytest_convex_evals.generation.parser import render_files

ROOT = Path(__file__).parent.parent
_CELLS, _IN_FLIGHT, _WORKERS = 111, 32, 2
_MEDIAN_S, _LONGEST_S, _SPREAD, _SEED = 20.0, 200.0, 0.8, 8
_SCALE = float(os.environ.get("RUN_OVERHEAD_SCALE", "0.5"))
"""How much shorter the calls are than real ones; what a session costs itself does not shrink with them."""
_MANY = int(os.environ.get("CONTROLLER_CELLS", "10000"))
_EVALS = 100
_NOT_OURS = ("-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider")
"""Plugins that are there for this repository's own tests; the first takes seconds at the end of every process."""
COMMAND = (sys.executable, "-m", "pytest", "evals", "-n", str(_WORKERS), *_NOT_OURS)
ASKED = ("--models", "openai/synthetic", "--evals-concurrency", str(_IN_FLIGHT), "--evals-yes")
_ANSWER = {"package.json": "{}\n", "convex/main.ts": "export const answer = 42;\n"}
_GRADER = 'def test_it(files):\n    assert "42" in files["convex/main.ts"]\n'


def figures() -> Iterator[str]:
    """The overhead of a run that waits for models, then the memory of a long one."""
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        yield f"run overhead: {_overhead(Path(name) / 'run'):.2f}"
        yield f"controller memory at {_MANY} cells: {_memory(Path(name) / 'many') / 1e6:.0f} MB"


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def suite(folder: Path, evals: int) -> None:
    files = {"TASK.txt": "", "eval.toml": 'pipeline = "static"\n', "grader.py": _GRADER}
    files |= {f"answer/{path}": text for path, text in _ANSWER.items()}
    for number in range(evals):
        for path, text in files.items():
            target = folder / "evals" / "000-some" / f"{number:03}-cell" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text or f"Compute the answer, for cell {number:03}.\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def surroundings(**more: str) -> dict[str, str]:
    """The environment of a session: this package, and no key of anybody."""
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return plain | {"PYTHONPATH": str(ROOT), "EVALS_SANDBOX": "node"} | more


def _session(folder: Path, arguments: Sequence[str], **environment: str) -> tuple[Cost, list[dict[str, Any]]]:
    """A session whose cells all pass, and its records."""
    cost = measure([*COMMAND, "-q", *arguments], folder, surroundings(**environment), ("-m pytest",))
    (journal,) = folder.glob(".evals/runs/*/journal.jsonl")
    with journal.open(encoding="utf-8") as stream:
        events = [json.loads(line) for line in stream]
    records = [event["record"] for event in events if event["event"] == "cell_finished"]
    if any(record["verdict"]["outcome"] != "passed" for record in records):
        raise RuntimeError(f"not all cells passed:\n{cost.output[-4000:]}")
    return cost, records


def latencies() -> list[float]:
    """A seeded long tail in the order of the cells; the longest is as long as it may be."""
    draw = random.Random(_SEED)
    drawn = [min(_LONGEST_S, _MEDIAN_S * draw.lognormvariate(0.0, _SPREAD)) for _ in range(_CELLS)]
    drawn[drawn.index(max(drawn))] = _LONGEST_S
    return [seconds * _SCALE for seconds in drawn]


def bound(seconds: Sequence[float], lanes: int) -> float:
    """When the last call ends if the next one begins whenever one ends.

    Nobody who starts calls in this order is done earlier; nobody knows before a call how long it will take.
    """
    free = [0.0] * lanes
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


@contextmanager
def provider(folder: Path, waits: Sequence[float]) -> Iterator[str]:
    """The address of a server that answers the cells of a suite rightly, each after its own time."""
    text = render_files(_ANSWER)
    rules = [{"match": f"for cell {n:03}.", "text": text, "delay_s": wait} for n, wait in enumerate(waits)]
    (folder / "answers.json").write_text(json.dumps(rules), encoding="utf-8")
    command = [sys.executable, "-m", "tests.faults.provider", "--answers", str(folder / "answers.json")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.stdin.close()


def _overhead(folder: Path) -> float:
    suite(folder, _CELLS)
    waits = latencies()
    with provider(folder, waits) as url:
        cost, records = _session(folder, ASKED, OPENAI_API_KEY="none", OPENAI_BASE_URL=url)
    if len(records) != _CELLS:
        raise RuntimeError(f"{len(records)} cells instead of {_CELLS}:\n{cost.output[-4000:]}")
    calls, grading = bound(waits, _IN_FLIGHT), sum(float(record["grading_s"]) for record in records) / _WORKERS
    any_order = max(max(waits), sum(waits) / _IN_FLIGHT)
    _progress(
        f"  {_CELLS} cells: {cost.wall_s:.1f} s; calls need {calls:.1f} s ({any_order:.1f} s for somebody who knows "
        f"which are long), grading needs {grading:.1f} s"
    )
    return cost.wall_s / max(calls, grading)


def _memory(folder: Path) -> float:
    suite(folder, _EVALS)
    repeats = _MANY // _EVALS
    cost, records = _session(folder, ["--models", "reference", "--evals-repeats", str(repeats)])
    if len(records) != repeats * _EVALS:
        raise RuntimeError(f"{len(records)} cells instead of {repeats * _EVALS}:\n{cost.output[-4000:]}")
    _progress(f"  {len(records)} cells: {cost.wall_s:.0f} s, {1000 * cost.wall_s / len(records):.0f} ms per cell")
    return cost.peaks["-m pytest"]
