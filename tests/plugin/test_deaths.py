"""Processes die, and people press Ctrl-C: what was done stays, nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.openai_server import OpenAIServer, Reply
from tests.support.process_tree import command_of, descendants, end, lives, wait_until
from tests.support.sessions import PROPERTIES, Project
from tests.support.suites import answer_text
from tests.support.tiny_engine import closed_port

DEADLY = """\
import os
import signal


def test_the_end(files):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_dies_makes_its_cell_an_error_and_the_others_are_graded(project: Project) -> None:
    project.suite.add("000-good/000-fine")
    project.suite.add("000-good/001-deadly", grader=DEADLY)
    for number in range(2, 5):
        project.suite.add(f"000-good/{number:03}-fine")
    done = project.apart("evals", "-n", "2")
    assert done.code == 1, done.output
    expected = {f"{number:03}-fine[reference]": "" for number in (0, 2, 3, 4)}
    assert done.causes == expected | {"001-deadly[reference]": "worker_crashed"}
    assert {case.name: case.properties["cause"] for case in done.cases} == done.causes
    assert [list(case.properties) for case in done.cases] == [PROPERTIES] * 5
    (dead,) = [case for case in done.cases if "deadly" in case.name]
    assert dead.kind == "error"
    assert dead.message.startswith("error (worker_crashed): worker 'gw")
    assert "what to do: run the same command again" in dead.message
    assert "4 passed, 1 error" in done.output
    assert done.events[-1]["missing"] == 0
    assert project.collected("evals", "--lf") == ["evals/000-good/001-deadly/TASK.txt::001-deadly[reference]"]


LATE = """\
import os
import signal

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if "late" in item.name:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_verdict_stands_when_its_worker_dies_afterwards(project: Project) -> None:
    project.suite.add("000-good/000-late")
    project.suite.add("000-good/001-late", grader="def test_no(files):\n    assert not files\n")
    project.suite.add("000-good/002-fine")
    (project.root / "conftest.py").write_text(LATE, encoding="utf-8")
    done = project.apart("evals", "-n", "2")
    assert done.code == 1, done.output
    assert done.causes == {"000-late[reference]": "", "001-late[reference]": "checks", "002-fine[reference]": ""}
    kinds = [("000-late[reference]", "passed"), ("001-late[reference]", "failure"), ("002-fine[reference]", "passed")]
    assert [(case.name, case.kind) for case in done.cases] == kinds
    assert [list(case.properties) for case in done.cases] == [PROPERTIES] * 3
    assert "1 failed, 2 passed" in done.output


SLOW = """\
import time
from pathlib import Path


def test_for_ever(sources):
    Path("reached").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_an_interrupt_in_the_middle_of_a_check_leaves_nothing_running(project: Project, workers: list[str]) -> None:
    project.suite.add("000-good/000-slow", grader=SLOW)
    session = project.start("evals", *workers)
    wait_until((project.root / "reached").exists, "the check runs")
    output = interrupt(session)
    done = project.ended(session, output)
    assert [event["event"] for event in done.events] == ["run_started", "suite", "run_finished"]
    assert "not run: 1 cells have no verdict" in output


def interrupt(session: subprocess.Popen[str], send: Callable[[int, int], None] = os.killpg) -> str:
    """What Ctrl-C does; all processes of the session must end. Returns the output."""
    started = descendants(session.pid)
    assert started
    send(session.pid, signal.SIGINT)
    output, _ = session.communicate(timeout=120)
    must_be_gone(started)
    assert session.returncode == 2, output
    assert "INTERNALERROR" not in output
    return output


def must_be_gone(pids: list[int]) -> None:
    try:
        wait_until(lambda: not any(lives(pid) for pid in pids), "all children are gone")
    finally:
        for pid in pids:
            end(pid, signal.SIGKILL)


class Held:
    """A provider that answers the first question and keeps the others waiting."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()
        self._first = True
        self.server = OpenAIServer(self._reply)

    def _reply(self, _: object) -> Reply:
        first, self._first = self._first, False
        return Reply(answer_text(), before=None if first else self._hold)

    def _hold(self) -> None:
        self.asked.set()
        self.free.wait(300)


@pytest.fixture
def held(project: Project) -> Iterator[Held]:
    held = Held()
    project.env(OPENAI_BASE_URL=held.server.url, OPENAI_API_KEY="k")
    for number in range(3):
        project.suite.add(f"000-good/{number:03}-asked")
    yield held
    held.free.set()
    held.server.close()


def verdicts(project: Project) -> int:
    journals = list(project.store.glob("runs/*/journal.jsonl"))
    return journals[0].read_text(encoding="utf-8").count('"cell_finished"') if journals else 0


def test_a_generation_child_that_dies_is_replaced_and_the_session_goes_on(project: Project, held: Held) -> None:
    session = project.start("evals", "--models", "gpt-5,reference", "--evals-concurrency", "1", "-n", "2")
    assert held.asked.wait(120)
    wait_until(lambda: verdicts(project) > 0, "the first answer is graded")
    (child,) = [pid for pid in descendants(session.pid) if "generation.child" in command_of(pid)]
    os.kill(child, signal.SIGKILL)
    held.free.set()
    output, _ = session.communicate(timeout=240)
    assert session.returncode == 0, output
    done = project.ended(session, output)
    assert set(done.outcomes.values()) == {"passed"}
    assert len(done.outcomes) == 6
    assert len(held.server.requests) == 4  # the one that was in flight was bought again
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("workers", "send"),
    [([], os.killpg), (["-n", "2"], os.killpg), (["-n", "2"], os.kill)],
    ids=["alone", "workers", "only the controller of workers"],
)
def test_an_interrupt_keeps_what_was_done_and_leaves_nothing_running(
    project: Project, held: Held, workers: list[str], send: Callable[[int, int], None]
) -> None:
    session = project.start("evals", "--models", "gpt-5", "--evals-concurrency", "1", *workers)
    assert held.asked.wait(120)
    wait_until(lambda: verdicts(project) > 0, "the first answer is graded")
    output = interrupt(session, send)
    done = project.ended(session, output)
    assert list(done.outcomes.values()) == ["passed"]
    assert (done.events[-1]["event"], done.events[-1]["missing"]) == ("run_finished", 2)
    assert "not run: 2 cells have no verdict" in output
    assert f"--evals-resume {done.runs[0].name[:8]}" in output
    assert len(list(project.store.glob("generations/*.json"))) == 1
    assert [case.name for case in done.cases if case.properties] == list(done.outcomes)
    assert [case.name for case in done.cases if case.kind == "passed"] == list(done.outcomes)


DEAF = """\
import os
import signal
from pathlib import Path


def test_stops(files):
    Path("reached").touch()
    os.kill(os.getpid(), signal.SIGSTOP)
"""
PATIENT = """\
from xdist.workermanage import NodeManager

NodeManager.EXIT_TIMEOUT = 600
"""


def test_a_worker_that_hears_nothing_does_not_hold_up_the_end(project: Project) -> None:
    """Xdist alone would wait longer for it than `interrupt` does."""
    project.suite.add("000-good/000-deaf", grader=DEAF)
    (project.root / "conftest.py").write_text(PATIENT, encoding="utf-8")
    session = project.start("evals", "-n", "1")
    wait_until((project.root / "reached").exists, "the check runs")
    assert "not run: 1 cells have no verdict" in interrupt(session, os.kill)


def test_an_interrupt_keeps_results_for_a_backend_that_does_not_answer(project: Project, held: Held) -> None:
    project.env(CONVEX_EVAL_URL=f"http://127.0.0.1:{closed_port()}", CONVEX_AUTH_TOKEN="t")
    session = project.start("evals", "--models", "gpt-5", "--evals-concurrency", "1", "-n", "2")
    assert held.asked.wait(120)
    wait_until(lambda: verdicts(project) > 0, "the first answer is graded")
    output = interrupt(session, os.kill)
    assert "Nothing is lost." in output
    assert "`convex-evals upload" in output
    assert "--evals-resume" in output


def test_a_session_that_is_killed_takes_its_children_with_it(project: Project, held: Held) -> None:
    session = project.start("evals", "--models", "gpt-5", "--evals-concurrency", "1")
    assert held.asked.wait(120)
    started = descendants(session.pid)
    assert any("generation.child" in command_of(pid) for pid in started)
    os.kill(session.pid, signal.SIGKILL)
    session.communicate(timeout=120)
    must_be_gone(started)
