"""Running functions of a grader with deadlines."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

_GRACE_S = 2.0


class DeadlineReached(BaseException):
    """Raised inside a check that did not end in time; not an `Exception`, so that graders do not catch it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a function ended."""

    error: BaseException | None
    in_time: bool
    duration_s: float
    """Wall time."""


def run_with_deadline(function: Callable[[], object], seconds: float) -> Ended:
    """Run in a thread of its own; interrupt it at the deadline, and leave it behind when it does not listen."""
    (ended,) = run_all_with_deadline([function], seconds)
    return ended


def run_all_with_deadline(functions: Sequence[Callable[[], object]], seconds: float) -> list[Ended]:
    """One after the other in one thread, each with that much time; after one that took longer, in a new thread."""
    ended: list[Ended] = []
    while len(ended) < len(functions):
        ended += _Series(functions[len(ended) :], seconds).run()
    return ended


class _Series:
    """Functions that share a thread until one of them does not end in time."""

    def __init__(self, functions: Sequence[Callable[[], object]], seconds: float) -> None:
        self._functions, self._seconds = functions, seconds
        self._ended: list[Ended] = []
        self._began = time.monotonic()
        self._given_up = False
        self._turn = threading.Lock()
        """Held while one function gives way to the next."""
        self._thread = threading.Thread(target=self._run, name="convex-evals-check", daemon=True)

    def run(self) -> list[Ended]:
        """How they ended, up to the first that did not end in time."""
        self._thread.start()
        try:
            while self._thread.is_alive():
                self._thread.join(max(0.0, self._began + self._seconds - time.monotonic()))
                late = self._late()
                if late is not None:
                    self._interrupt()
                    return [*self._ended, late]
        finally:
            self._given_up = True
        return self._ended

    def _late(self) -> Ended | None:
        with self._turn:
            took = time.monotonic() - self._began
            if len(self._ended) == len(self._functions) or took < self._seconds:
                return None
            self._given_up = True
            return Ended(None, in_time=False, duration_s=took)

    def _interrupt(self) -> None:
        thread = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(DeadlineReached))
        self._thread.join(_GRACE_S)

    def _run(self) -> None:
        with suppress(DeadlineReached):  # it may come when the function has just ended
            for function in self._functions:
                if self._given_up:
                    return
                self._end(_error_of(function))

    def _end(self, error: BaseException | None) -> None:
        with self._turn:
            if not self._given_up:
                now = time.monotonic()
                self._ended.append(Ended(error, in_time=True, duration_s=now - self._began))
                self._began = now


def _error_of(function: Callable[[], object]) -> BaseException | None:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - the caller decides what each kind means
        return error
    return None
