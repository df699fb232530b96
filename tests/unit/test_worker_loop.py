"""The end of a worker that nobody listens to any longer."""

import os

import pytest

from pytest_convex_evals.loops import _END, WorkerLoop


class ExitedError(BaseException):
    """Takes the place of the end of the process."""


@pytest.fixture
def exits(monkeypatch):
    """The exit codes so far."""
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)
        raise ExitedError

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("threading.Timer.start", lambda _: None)
    return codes


def running(give_up) -> WorkerLoop:
    loop = WorkerLoop(give_up)
    loop._running = True
    return loop


def test_it_ends_even_when_something_cannot_be_closed(exits):
    def fails() -> None:
        raise OSError(9, "Bad file descriptor")

    with pytest.raises(ExitedError):
        running(fails)._told(_END)
    assert exits == [1]


def test_the_loop_does_not_hear_of_it_and_things_are_closed_once(exits):
    closed: list[str] = []

    def close() -> None:
        closed.append("once")
        loop._leave()  # Ctrl-C reaches the main thread while another one closes

    loop = running(close)
    with pytest.raises(ExitedError):
        loop._told(_END)
    assert (closed, exits, loop._commands.empty()) == (["once"], [1], True)


def test_before_and_after_the_loop_the_end_is_a_command_like_others(exits):
    loop = WorkerLoop(lambda: None)
    loop._told(_END)
    assert (exits, loop._commands.get()) == ([], _END)
