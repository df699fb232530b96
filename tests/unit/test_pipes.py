"""Children that answer JSON lines: everybody gets their own answer, and nobody hangs."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_convex_evals.pipes import Death, LineChild, Silence

GREETS = """
import json, sys, threading, time
def say(message):
    sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
say({"ready": {}})
"""
ECHO = (
    GREETS
    + "for line in sys.stdin:\n    asked = json.loads(line)\n    say({'id': asked['id'], 'ok': asked['params']})\n"
)


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[[str], LineChild]]:
    started: list[LineChild] = []

    def start(script: str) -> LineChild:
        child = LineChild(
            [sys.executable, "-c", script], cwd=tmp_path, environment={}, name="the child", cause="backend"
        )
        started.append(child)
        child.greeting(30)
        return child

    yield start
    for child in started:
        child.close()
        child.close()
        assert not child.alive


def test_many_threads_ask_at_the_same_time_and_each_gets_its_own_answer(start):
    child = start(ECHO)

    def ask(number: int) -> bool:
        return all(
            child.request("echo", {"n": [number, turn]}, deadline_s=30) == {"n": [number, turn]} for turn in range(50)
        )

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))


def test_answers_that_come_in_another_order_find_their_askers(start):
    backwards = GREETS + (
        "asked = [json.loads(sys.stdin.readline()) for _ in range(8)]\n"
        "for one in reversed(asked): say({'id': one['id'], 'ok': one['params']}); time.sleep(0.02)\n"
        "sys.stdin.readline()\n"
    )
    child = start(backwards)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(child.request, "echo", {"n": number}, deadline_s=30) for number in range(8)]
        assert [one.result() for one in asked] == [{"n": number} for number in range(8)]


def test_long_lines_pass_in_both_directions(start):
    text = "ä\n" * 2_000_000
    assert start(ECHO).request("echo", {"text": text}, deadline_s=60) == {"text": text}


def test_a_child_that_wants_to_be_read_before_it_reads_is_read_by_the_writer(start):
    talks = GREETS + (
        "first = json.loads(sys.stdin.readline()); time.sleep(0.5)\n"
        "say({'id': first['id'], 'ok': 'x' * 1_000_000})\n"
        "second = json.loads(sys.stdin.readline())\n"
        "say({'id': second['id'], 'ok': len(second['params']['text'])})\n"
    )
    child = start(talks)
    with pytest.raises(Silence):
        child.request("late", {}, deadline_s=0.1)
    assert child.request("long", {"text": "y" * 1_000_000}, deadline_s=30) == 1_000_000


def test_a_child_that_does_not_read_is_given_up_at_the_deadline_and_wakes_everybody(start):
    child = start(GREETS + "time.sleep(60)\n")
    waiting = ThreadPoolExecutor(1).submit(child.request, "small", {}, deadline_s=30)
    started = time.monotonic()
    with pytest.raises(Death):
        child.request("large", {"text": "z" * 1_000_000}, deadline_s=0.5)
    with pytest.raises(Death):
        waiting.result()
    assert time.monotonic() - started < 10


def test_one_asker_who_gives_up_does_not_take_the_reading_with_it(start):
    slow = GREETS + (
        "def answer(asked):\n    time.sleep(asked['params']['s']); say({'id': asked['id'], 'ok': 1})\n"
        "for line in sys.stdin: threading.Thread(target=answer, args=(json.loads(line),)).start()\n"
    )
    child = start(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(child.request, "slow", {"s": 5}, deadline_s=0.3)
        time.sleep(0.1)
        second = pool.submit(child.request, "slow", {"s": 0.6}, deadline_s=30)
        with pytest.raises(Silence):
            first.result()
        started = time.monotonic()
        assert second.result() == 1
        assert time.monotonic() - started < 2


def test_closing_wakes_whoever_waits_and_later_questions_are_refused(start):
    child = start(GREETS + "sys.stdin.read()\n")
    threading.Timer(0.2, child.close).start()
    with pytest.raises(Death):
        child.request("never", {}, deadline_s=30)
    with pytest.raises(Death):
        child.request("again", {}, deadline_s=30)
