"""The clock of a deployment, in the hands of a grader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_convex_evals.backends.base import Backend


@dataclass(frozen=True, slots=True)
class Clock:
    """Starts at a time, and only ever moves forward."""

    _backend: Backend

    def start(self, time: str | datetime) -> None:
        """Begin a fresh deployment at this time, for example "2026-01-05T12:59:00Z"."""
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        self._backend.reset(moment.timestamp() * 1000)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Move forward; everything that falls due on the way runs, in order, before this returns."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        if step <= timedelta(0):
            raise ValueError("a clock moves forward only")
        self._backend.advance(step / timedelta(milliseconds=1))
