"""Kill any child at any moment: the cell ends with the right outcome, and nothing is left running."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from pytest_convex_evals.backends import embedded
from pytest_convex_evals.grading.steps import deploy
from pytest_convex_evals.records import CellRecord
from tests.faults.conftest import Bench
from tests.faults.test_who_is_at_fault import outcome
from tests.support.npm_registry import NpmRegistry
from tests.support.process_tree import command_of, descendants, end, wait_until

WAITING = """\
import time


def test_waits(app):
    for _ in range(40):
        app.query("notes:all")
        time.sleep(0.05)
"""


def node_processes() -> dict[int, str]:
    """Also npm, which gives itself a title of its own."""
    found = {pid: command_of(pid) for pid in descendants(os.getpid())}
    return {pid: command for pid, command in found.items() if "node" in command or "npm" in command}


@pytest.fixture(autouse=True)
def before(bench: Bench) -> Iterator[set[int]]:
    """What runs before the test; nothing else runs after it."""
    bench.tools.close()
    others = set(node_processes())
    BEFORE.clear()
    BEFORE.update(others)
    yield others
    bench.tools.close()
    wait_until(lambda: set(node_processes()) <= others, "nothing is left running")


BEFORE: set[int] = set()


def running(part: str) -> int | None:
    """The newest process that the test has started and whose command line has the text."""
    found = [pid for pid, command in node_processes().items() if part in command and pid not in BEFORE]
    return found[-1] if found else None


class InBackground:
    """A cell that is graded while the test does something to its processes."""

    def __init__(self, bench: Bench, **how: object) -> None:
        self._record: list[CellRecord] = []
        self._thread = threading.Thread(target=lambda: self._record.append(bench.grade(**how)), daemon=True)
        self._thread.start()

    def record(self) -> CellRecord:
        self._thread.join(120)
        assert self._record, "the cell did not end"
        return self._record[0]


def kill_when_running(part: str) -> int:
    pid = wait_until(lambda: running(part), f"{part} runs")
    assert isinstance(pid, int)
    end(pid, signal.SIGKILL)
    return pid


def wait_until_pushing(bench: Bench) -> None:
    """Generated files are written before the backend is asked for anything."""
    wait_until(lambda: list(bench.root.rglob("_generated/server.js")), "the push has begun")


def wait_until_deployed(bench: Bench) -> None:
    """The log of a push is written at its end."""
    wait_until(lambda: list(bench.root.rglob("deploy.log")), "the push has ended")


def test_npm_is_ours(bench, monkeypatch, tmp_path):
    hold = threading.Event()
    with NpmRegistry(before=hold.wait) as registry:
        monkeypatch.setattr(bench.tools, "cache", tmp_path / "cache")
        monkeypatch.setenv("npm_config_registry", registry.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        cell = InBackground(bench)
        wait_until(lambda: registry.asked, "npm asks the registry")
        kill_when_running("npm install")
        record = cell.record()
        hold.set()
    assert outcome(record) == ("error", "registry")


PUSHED_BY_CLI = {"convex.json": '{"authKit": {}}'}
"""Something that the toolchain worker leaves to the CLI."""
LONG_PUSH = {"convex/slow.ts": "const end = Date.now() + 1e9;\nfor (;;) if (Date.now() > end) break;\nexport {};\n"}
"""Keeps the backend busy for some seconds."""


def test_the_convex_cli_is_ours(bench):
    cell = InBackground(bench, changes=PUSHED_BY_CLI)
    kill_when_running("convex/bin/main.js")
    assert outcome(cell.record()) == ("error", "tool")


def test_the_backend_during_the_push_is_ours(bench):
    cell = InBackground(bench, changes=LONG_PUSH)
    wait_until_pushing(bench)
    kill_when_running("core.mjs")
    assert outcome(cell.record()) == ("error", "backend")


def test_the_toolchain_worker_during_the_push_costs_nothing_but_time(bench):
    cell = InBackground(bench, changes=LONG_PUSH)
    wait_until_pushing(bench)
    kill_when_running("toolchain.mjs")
    assert outcome(cell.record()) == ("failed", "push")


@pytest.mark.parametrize(
    ("way", "cause"), [({}, "backend"), (PUSHED_BY_CLI, "tool")], ids=["in the worker", "by the CLI"]
)
def test_a_push_that_hangs_is_ours(way, cause, bench, monkeypatch):
    monkeypatch.setattr(deploy, "PUSH_S", 8.0)
    monkeypatch.setattr(deploy, "_WARM_S", 8.0)
    cell = InBackground(bench, changes=LONG_PUSH | way)
    wait_until_pushing(bench)
    pid = wait_until(lambda: running("core.mjs"), "core.mjs runs")
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(embedded, "CONTROL_S", 2.0)  # from now on nobody answers
    assert outcome(cell.record()) == ("error", cause)


def test_the_backend_during_tests_is_ours(bench):
    cell = InBackground(bench, grader=WAITING)
    wait_until_deployed(bench)
    kill_when_running("core.mjs")
    record = cell.record()
    assert outcome(record) == ("error", "backend")


def test_a_toolchain_worker_that_dies_is_replaced_within_the_cell(bench):
    cell = InBackground(bench, grader=WAITING)
    first = kill_when_running("toolchain.mjs")
    assert outcome(cell.record()) == ("passed", "")
    assert running("toolchain.mjs") not in {None, first}


def test_a_runner_that_is_killed_once_costs_another_attempt_and_no_verdict(bench):
    cell = InBackground(bench, grader=WAITING)
    wait_until_deployed(bench)
    kill_when_running("runner.cjs")
    record = cell.record()
    assert outcome(record) == ("passed", "")
    assert record.attempt in {1, 2}
