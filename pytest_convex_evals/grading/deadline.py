"""Running a function of a grader with a deadline."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass

_GRACE_S = 2.0


class DeadlineReached(BaseException):
    """Raised inside a check that did not end in time; not an `Exception`, so that graders do not catch it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the function ended."""

    error: BaseException | None
    in_time: bool


def run_with_deadline(function: Callable[[], object], seconds: float) -> Ended:
    """Run in a thread of its own; interrupt it at the deadline, and leave it behind when it does not listen."""
    caught: list[BaseException] = []

    def body() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - the caller decides what each kind means
            caught.append(error)

    thread = threading.Thread(target=body, name="convex-evals-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if not thread.is_alive():
        return Ended(caught[0] if caught else None, in_time=True)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(DeadlineReached))
    thread.join(_GRACE_S)
    return Ended(None, in_time=False)
