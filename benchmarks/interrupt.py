"""Ctrl-C with calls in flight and two workers: how long until every process of the session is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.runs import ASKED, COMMAND, provider, suite, surroundings
from tests.support.process_tree import descendants, hear_interrupts, lives, wait_until

_CELLS, _GRADED = 40, 8
_SOON_S, _LATE_S = 1.0, 600.0


def figures() -> Iterator[str]:
    """As a terminal does it, and as a supervisor that knows one process does."""
    for name, send in (("a session", os.killpg), ("its controller alone", os.kill)):
        with tempfile.TemporaryDirectory() as folder:
            yield f"interrupt of {name}: {_interrupted(Path(folder), send):.2f} s"


def _interrupted(folder: Path, send: Callable[[int, int], None]) -> float:
    """Seconds from the signal to the end; what was reached before must be there, and the way to go on."""
    suite(folder, _CELLS)
    with provider(folder, [_SOON_S] * _GRADED + [_LATE_S] * (_CELLS - _GRADED)) as url:
        session = subprocess.Popen(
            [*COMMAND, *ASKED],
            cwd=folder,
            env=surroundings(OPENAI_API_KEY="none", OPENAI_BASE_URL=url),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        wait_until(lambda: _verdicts(folder) >= _GRADED, "the first answers are graded")
        processes, began = descendants(session.pid), time.perf_counter()
        send(session.pid, signal.SIGINT)
        output, _ = session.communicate()
        wait_until(lambda: not any(lives(pid) for pid in processes), "all processes are gone")
        seconds = time.perf_counter() - began
    stored = len(list(folder.glob(".evals/generations/*.json")))
    if (_verdicts(folder), stored, "--evals-resume" in output) != (_GRADED, _GRADED, True):
        raise RuntimeError(f"{stored} stored answers, {_verdicts(folder)} verdicts:\n{output[-4000:]}")
    return seconds


def _verdicts(folder: Path) -> int:
    journals = folder.glob(".evals/runs/*/journal.jsonl")
    return sum(path.read_text(encoding="utf-8").count('"cell_finished"') for path in journals)
