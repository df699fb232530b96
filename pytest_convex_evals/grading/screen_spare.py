"""A child for the next screen, started while nobody waits for it.

A cell that showed a page is often followed by one that does. A spare has run nothing submitted, and it is taken once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.screen_child import ScreenChild

if TYPE_CHECKING:
    from pytest_convex_evals.cage.levels import Cage
    from pytest_convex_evals.engine.setup import Toolchain


class Spare:
    """At most one child in waiting."""

    def __init__(self, toolchain: Callable[[], Toolchain], cage: Callable[[], Cage]) -> None:
        self._toolchain, self._cage = toolchain, cage
        self._lock = Lock()
        self._waiting: tuple[ScreenChild, Path | None] | None = None

    def take(self, relay: Path | None) -> ScreenChild:
        """A child that reaches what `relay` leads to: the one in waiting, or a new one."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            child, way = waiting
            if way == relay and child.alive:
                return child
            child.close()
        return ScreenChild(self._toolchain(), self._cage(), relay)

    def prepare(self, relay: Path | None) -> None:
        """Start one for the next cell; what goes wrong is said to whoever needs a screen."""
        with suppress(Trouble), self._lock:
            if self._waiting is None:
                self._waiting = ScreenChild(self._toolchain(), self._cage(), relay), relay

    def close(self) -> None:
        """End it."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting[0].close()
