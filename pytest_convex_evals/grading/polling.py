"""Waiting for something to become true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Found = TypeVar("_Found")


def poll_until(look: Callable[[], _Found], *, seconds: float = 10.0, every: float = 0.02) -> _Found:
    """Call `look` until it returns something true and return that; fail with the last value at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"still {found!r} after {seconds:g} s")
        time.sleep(every)
