"""Deadlines that count only time in which this process could listen.

A machine that is busy, or a large reply that is being translated, must not look like a provider that is silent.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

_BEAT_S = 0.25


class LateError(TimeoutError):
    """A deadline of ours has passed."""


class Pulse:
    """Measures how long the event loop was held up."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost = 0.0
        self._last = self._loop.time()
        self._task = self._loop.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            self._lost = self.lost()
            self._last = self._loop.time()

    def lost(self) -> float:
        """Seconds since the beginning in which nothing could be heard."""
        late = self._loop.time() - self._last - 2 * _BEAT_S
        return self._lost + max(0.0, late)

    def deadline(self, seconds: float, what: str) -> Deadline:
        """`async with` it: what takes longer raises `LateError`."""
        return Deadline(self, seconds, what)


class Deadline:
    """Cancels what it surrounds, unless the loop itself was late."""

    def __init__(self, pulse: Pulse, seconds: float, what: str) -> None:
        self._pulse, self._seconds, self._what = pulse, seconds, what
        self._expired = False

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._began, self._lost = self._loop.time(), self._pulse.lost()
        self._timer = self._loop.call_later(self._seconds, self._fire)

    def _fire(self) -> None:
        left = self._began + self._seconds + self._pulse.lost() - self._lost - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._fire)
        elif self._task is not None:
            self._expired = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task is not None and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise LateError(f"{self._what} within {self._seconds:.3g} s") from error
