"""What a session is doing right now, counted from events; any thread may tell, any thread may look."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Wait:
    """Tickets that are not in flight, and why."""

    provider: str
    why: str
    tickets: int
    """0: every ticket of the provider that is not in flight."""
    seconds: float | None
    """How long still; None: until a call ends."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a session."""

    elapsed_s: float
    asked: int
    """Cells of models that are to be answered in this session."""
    answered: int
    in_flight: int
    waits: tuple[Wait, ...]
    spent_usd: float
    reserved_usd: float
    unknown_calls: int
    """Calls whose cost is not known."""
    total: int
    """Cells of this session."""
    passed: int
    failed: int
    errors: int
    left_s: float | None
    """A guess at the time left; None while nothing is known."""
    stopped: tuple[tuple[str, str], ...]
    """Models that are asked no more, and the cause."""

    @property
    def done(self) -> int:
        """Cells with a record."""
        return self.passed + self.failed + self.errors


@dataclass(slots=True)
class Monitor:
    """Counts; nothing here is kept per cell but what is in flight or waits."""

    total: int = 0
    asked: int = 0
    workers: int = 1
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _started: float = 0.0
    _answered: int = 0
    _in_flight: set[str] = field(default_factory=set)
    _waiting: dict[str, tuple[str, str, float | None]] = field(default_factory=dict)
    _spend: tuple[float, float, int] = (0.0, 0.0, 0)
    _outcomes: Counter[str] = field(default_factory=Counter)
    _grading_s: float = 0.0
    _stopped: dict[str, str] = field(default_factory=dict)

    def begin(self, total: int, asked: int, workers: int) -> None:
        """The cells are known."""
        self.total, self.asked, self.workers = total, asked, max(1, workers)
        self._started = self.clock()

    def told(self, event: Mapping[str, Any]) -> None:
        """An event of the generation child."""
        name, ticket = event.get("event"), str(event.get("ticket") or "")
        with self._lock:
            if name == "call_started":
                self._in_flight.add(ticket)
                self._waiting.pop(ticket, None)
            elif name == "waiting":
                seconds = event.get("seconds")
                until = None if seconds is None else self.clock() + float(seconds)
                self._in_flight.discard(ticket)
                self._waiting[ticket or f"all of {event.get('provider')}"] = (
                    str(event.get("provider")),
                    str(event.get("why")),
                    until,
                )
            elif name == "answered":
                self._answered += 1
                self._in_flight.discard(ticket)
                self._waiting.pop(ticket, None)
            elif name == "spend":
                self._spend = (
                    float(event.get("spent_usd") or 0.0),
                    float(event.get("reserved_usd") or 0.0),
                    int(event.get("unknown_calls") or 0),
                )
            elif name == "model_stopped":
                self._stopped[str(event.get("model"))] = str(event.get("cause"))

    def answered_before(self, count: int) -> None:
        """Answers that an earlier session of the run has left."""
        with self._lock:
            self._answered += count

    def verdict(self, outcome: str, grading_s: float) -> None:
        """A cell has a record."""
        with self._lock:
            self._outcomes[outcome] += 1
            self._grading_s += grading_s

    def look(self) -> Snapshot:
        """How things stand."""
        with self._lock:
            now = self.clock()
            counts = self._outcomes
            done = sum(counts.values())
            return Snapshot(
                elapsed_s=now - self._started,
                asked=self.asked,
                answered=self._answered,
                in_flight=len(self._in_flight),
                waits=self._waits(now),
                spent_usd=self._spend[0],
                reserved_usd=self._spend[1],
                unknown_calls=self._spend[2],
                total=self.total,
                passed=counts["passed"],
                failed=counts["failed"],
                errors=counts["error"],
                left_s=self._left(now, done),
                stopped=tuple(self._stopped.items()),
            )

    def _waits(self, now: float) -> tuple[Wait, ...]:
        over = [ticket for ticket, (_, _, until) in self._waiting.items() if until is not None and until <= now]
        for ticket in over:
            del self._waiting[ticket]
        groups: dict[tuple[str, str], list[float | None]] = {}
        for provider, why, until in self._waiting.values():
            groups.setdefault((provider, why), []).append(until)
        return tuple(
            Wait(provider, why, len(found), _longest(found, now)) for (provider, why), found in sorted(groups.items())
        )

    def _left(self, now: float, done: int) -> float | None:
        """The larger of what answers and what grading will take, at the speed so far."""
        elapsed = now - self._started
        left = 0.0
        if self._answered < self.asked:
            if not self._answered:
                return None
            left = (self.asked - self._answered) * elapsed / self._answered
        if done < self.total:
            if not done:
                return None
            left = max(left, (self.total - done) * self._grading_s / done / self.workers)
        return left


def _longest(found: list[float | None], now: float) -> float | None:
    known = [until - now for until in found if until is not None]
    return max(known) if known else None
