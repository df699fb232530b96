"""The live view: what others print stays as it is, and the view says what is going on."""

from __future__ import annotations

import io
import random
import re
from typing import get_args

import pytest

from pytest_convex_evals.generation.events import WaitingFor
from pytest_convex_evals.live import Area
from pytest_convex_evals.monitor import Monitor
from pytest_convex_evals.progress import _WHY, AtWork, duration, plain_line, view_lines
from pytest_convex_evals.readiness import Readiness
from pytest_convex_evals.rendering import repeatable
from pytest_convex_evals.worker_status import StatusFile, read_statuses

CODES = re.compile(r"\x1b\[(\d*)([ACJm])|(\n)|(\r)|([^\x1b\n\r]+)")


def screen(written: str) -> list[str]:
    """What a terminal that never scrolls shows in the end, without empty lines at its end."""
    lines, row, column = [""], 0, 0
    for number, code, newline, back, text in CODES.findall(written):
        if newline:
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif back:
            column = 0
        elif text:
            line = lines[row].ljust(column)
            lines[row], column = line[:column] + text + line[column + len(text) :], column + len(text)
        elif code == "A":
            row -= int(number)
        elif code == "C":
            column += int(number)
        elif code == "J":
            lines[row:] = [lines[row][:column]]
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("seed", range(20))
def test_what_others_print_is_the_same_with_and_without_the_view(seed):
    draw, shown = random.Random(seed), io.StringIO()
    area, plain = Area(shown), ""
    for number in range(60):
        text = draw.choice([".", "F", "\n", "a line\n", "two\nlines\n", "\x1b[32mgreen\x1b[0m", "half", "\rover", ""])
        plain += text
        area.write(text)
        if draw.random() < 0.4:
            area.show([f"view {number}"] * draw.randrange(5))
    area.show(["first", "second"])
    assert screen(shown.getvalue())[-2:] == ["first", "second"]
    area.show([])
    assert screen(shown.getvalue()) == screen(plain)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_look_counts_what_is_in_flight_what_waits_and_what_it_costs():
    clock = Clock()
    monitor = Monitor(clock=clock)
    monitor.begin(total=6, asked=5, workers=2)
    assert monitor.look().left_s is None
    for ticket in "abc":
        monitor.told({"event": "call_started", "ticket": ticket, "model": "m", "provider": "p", "attempt": 1})
    monitor.told({"event": "waiting", "provider": "p", "model": "m", "ticket": "d", "why": "concurrency"})
    monitor.told(
        {"event": "waiting", "provider": "p", "model": "m", "ticket": "c", "why": "rate_limited", "seconds": 8}
    )
    monitor.told({"event": "answered", "ticket": "a", "model": "m", "outcome": "stored"})
    monitor.told({"event": "spend", "spent_usd": 1.5, "reserved_usd": 0.25, "unknown_calls": 2})
    monitor.verdict("passed", 4.0)
    clock.now += 10
    look = monitor.look()
    assert (look.in_flight, look.answered, look.done) == (1, 1, 1)
    assert [(wait.why, wait.tickets, wait.seconds) for wait in look.waits] == [("concurrency", 1, None)]
    assert look.left_s == pytest.approx(40.0)
    assert plain_line(look) == (
        "answers of models: 1 of 5, 1 in flight, 1 wait for p (all slots taken), graded 1 of 6, 100 % passed, "
        "$1.50 spent, $0.25 reserved, 2 calls of unknown cost, about 40 s left"
    )
    monitor.told({"event": "waiting", "provider": "p", "model": "", "ticket": None, "why": "retry", "seconds": 61.0})
    monitor.told({"event": "model_stopped", "model": "m", "cause": "authentication", "reason": "no"})
    at_work = [AtWork("gw0", "000-some/000-a[m]", "deploy", 1000.0)]
    assert view_lines(monitor.look(), at_work, 78, now=1003.0) == [
        "── convex evals ── 10 s ── 1 of 6 cells ── about 40 s left ".ljust(78, "─"),
        "graded    passed 1  failed 0  errors 0  pass rate 100 %",
        "answers   1 of 5  in flight 1  $1.50 spent, $0.25 reserved, 2 calls of unknow…",
        "waiting   1 wait for p (all slots taken)",
        "waiting   1 wait for p (next attempt after a failed one, 1 min 01 s)",
        "stopped   m: authentication",
        "gw0       000-some/000-a[m]  deploy 3 s",
    ]


def test_durations_are_for_people():
    assert [duration(seconds) for seconds in (0.2, 59.4, 61, 3725)] == ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]


def test_workers_tell_their_step_and_damage_is_overlooked(tmp_path):
    status = StatusFile(tmp_path / "workers", "gw1")
    status.tell("000-some/000-a[m]", "deploy")
    status.tell("a[m]", "tests")
    (tmp_path / "workers" / "gw0").write_bytes(b'["half')
    assert [(one.worker, one.cell, one.step) for one in read_statuses(tmp_path / "workers")] == [
        ("gw1", "a[m]", "tests")
    ]
    status.close()
    assert read_statuses(tmp_path / "workers") == []
    assert read_statuses(tmp_path / "nowhere") == []


def test_items_are_ready_when_their_answer_is_there():
    told = []
    ready = Readiness([(0.0,), (2.0,), (1.0,), (0.0,)], waiting=[1, 3])
    ready.on_change = lambda: told.append(ready.ready)
    assert [ready.take(), ready.take(), ready.take()] == [0, 2, None]
    assert (ready.waiting, ready.exhausted) == (2, False)
    ready.arrived(1)
    ready.arrived(1)
    assert (told, ready.take(), ready.take()) == ([1], 1, None)
    ready.give_back(1)
    ready.over()
    assert [ready.take(), ready.take(), ready.take(), ready.exhausted] == [3, 1, None, True]


def test_a_command_is_repeated_without_what_it_said_about_earlier_runs():
    command = ["evals", "--lf", "--evals-resume", "abc", "-n", "2", "--evals-failed-in=x", "--evals-regrade", "latest"]
    assert repeatable(command) == ["evals", "-n", "2"]


def test_every_reason_to_wait_is_said_in_words():
    assert set(_WHY) == set(get_args(WaitingFor))
