"""Workers get cells one at a time: those that are ready, the longest first."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from pytest_convex_evals.handout import HandOut
from pytest_convex_evals.readiness import Readiness, longest_first
from pytest_convex_evals.store.durations import read_durations
from tests.faults.provider import Ask, Provider, Reply
from tests.support.sessions import Project
from tests.support.suites import NO_ANSWER, RIGHT, answer_text

NAMES = [f"00{number}-cell" for number in range(6)]


@pytest.fixture
def suite(project: Project) -> Project:
    for name in NAMES:
        project.suite.add(f"000-some/{name}")
    return project


def remember(project: Project, **seconds: float) -> None:
    folder = project.root / ".evals"
    folder.mkdir(exist_ok=True)
    found = {f"000-some/{name.replace('_', '-')} reference": value for name, value in seconds.items()}
    (folder / "durations.json").write_text(json.dumps(found), encoding="utf-8")


def order_of(project: Project, *arguments: str, workers: str = "1") -> list[str]:
    done = project.run("evals", *arguments, workers=workers)
    assert done.code == 0, done.output
    return [event["record"]["name"] for event in done.events if event["event"] == "cell_finished"]


def test_cells_are_handed_out_longest_first_and_unknown_ones_before_all(suite):
    numbered = {f"00{number}_cell": float(number) for number in range(1, 6)}
    remember(suite, **numbered)
    assert order_of(suite) == [NAMES[0], *reversed(NAMES[1:])]


def test_another_distribution_keeps_its_own_order(suite):
    remember(suite, **{f"00{number}_cell": float(number) for number in range(6)})
    assert order_of(suite, "--dist", "loadfile") == NAMES


@pytest.mark.parametrize("damage", ["", "nonsense", "[]", '{"a": "b"}'])
def test_a_session_measures_for_the_next_and_mends_what_it_cannot_read(suite, damage):
    remember(suite)
    (suite.root / ".evals" / "durations.json").write_text(damage, encoding="utf-8")
    assert sorted(order_of(suite, workers="2")) == NAMES
    known = read_durations(suite.root / ".evals")
    assert {key.partition(" ")[0].partition("/")[2] for key in known} == set(NAMES)
    assert all(seconds > 0 for seconds in known.values())


@pytest.mark.parametrize("workers", ["2", "4", "8"])
def test_every_cell_is_graded_once_with_any_number_of_workers(suite, workers):
    assert sorted(order_of(suite, workers=workers)) == NAMES


def test_plain_tests_beside_evals_run_too(suite):
    (suite.root / "test_plain.py").write_text("def test_plain():\n    pass\n", encoding="utf-8")
    done = suite.run("evals", "test_plain.py", workers="2")
    assert f"{len(NAMES) + 1} passed" in done.output


def test_a_worker_that_dies_hands_its_other_cell_back(suite):
    suite.suite.add("000-some/009-deadly", grader="import os\n\n\ndef test_it():\n    os._exit(3)\n")
    done = suite.run("evals", workers="2")
    names = [event["record"]["name"] for event in done.events if event["event"] == "cell_finished"]
    assert sorted(names) == [*NAMES, "009-deadly"]
    assert done.outcomes["009-deadly[reference]"] == "error"


def test_equal_cells_keep_their_order():
    assert order([1.0, 1.0, 1.0]) == [0, 1, 2]
    assert order([1.0, 3.0, None]) == [2, 1, 0]


def order(seconds: list[float | None]) -> list[int]:
    ranks = longest_first([str(index) for index in range(len(seconds))], lambda node_id: seconds[int(node_id)])
    ready = Readiness(ranks, [])
    return [index for _ in seconds if (index := ready.take()) is not None]


@pytest.mark.parametrize("workers", ["", "1"])
def test_the_first_answer_is_graded_while_the_others_are_awaited_and_a_failure_may_end_it(
    project: Project, workers: str
) -> None:
    hold = threading.Event()
    for number in range(3):
        project.suite.add(f"000-some/{number:03}-asked", task=f"For number {number}.\n")

    def reply(ask: Ask) -> Reply:
        first = "For number 2." in ask.prompt
        return Reply(answer_text(RIGHT | NO_ANSWER), before=None if first else lambda: hold.wait(300))

    with Provider(reply) as provider:
        project.env(OPENAI_BASE_URL=provider.url, OPENAI_API_KEY="k")
        done = project.run("evals", "--models", "openai/m", "--evals-yes", "-x", workers=workers)
        hold.set()
    assert done.outcomes == {"002-asked[openai/m]": "failed"}
    assert (done.events[-1]["event"], done.events[-1]["missing"]) == ("run_finished", 2)
    assert "stopping after 1 failures" in done.output
    assert "answers of models: 1 of 3" in done.output


class FakeNode:
    """A worker as xdist shows it; a dead one is still listed until the main thread has heard of its death."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self, *, dead: bool = False) -> None:
        self.dead, self.got = dead, list[int]()

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.got += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_cell_that_cannot_be_sent_to_a_dead_worker_goes_to_another() -> None:
    ready = Readiness([(0.0,)] * 2, waiting=[0, 1])
    config = SimpleNamespace(getvalue=lambda _: ["2*popen"], getoption=lambda _: None)
    scheduler = HandOut(config, SimpleNamespace(loadsched=None), lambda: ready)
    dead, alive = FakeNode(dead=True), FakeNode()
    for node in (dead, alive):
        scheduler.add_node(node)
        scheduler.add_node_collection(node, ["a", "b"])
    scheduler.schedule()
    ready.arrived(0)
    assert (alive.got, scheduler.node2pending[dead]) == ([0], [])
    ready.arrived(1)
    assert (ready.ready, scheduler.tests_finished) == (1, False)
    scheduler.mark_test_complete(alive, 0)
    assert (alive.got, scheduler.remove_node(dead)) == ([0, 1], None)
