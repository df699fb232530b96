"""How many calls a provider gets at once, and when the next one may start. Pure: the clock comes in.

Additive increase, multiplicative decrease: a session begins with as many calls in flight as the settings allow; a
refusal for too many halves that, and every answer lets it grow again by a part. What the provider says about its
quotas, and the limits per minute of the registry, hold back calls as well. One governor serves all models of a
provider and key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_convex_evals.generation.events import WaitingFor
    from pytest_convex_evals.generation.quotas import Quota, Quotas

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the registry."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet."""

    why: WaitingFor
    seconds: float | None
    """None: until a call ends."""


@dataclass(slots=True)
class Start:
    """A call in flight."""

    number: int
    """Calls are counted from 1."""
    at: float
    tokens: int
    """Of the prompt, estimated."""
    tokens_before: int
    """Of all calls up to and with this one."""


@dataclass(slots=True)
class _Allowance:
    """What a provider said is left, minus what was started since."""

    said_by: int
    """The number of the call that brought it."""
    remaining: int
    counted: int
    """Calls or tokens that were started when it was said."""
    until: float


@dataclass(slots=True)
class Governor:
    """Decides; whoever asks does the waiting."""

    most: int
    """Calls in flight, by the settings."""
    clock: Callable[[], float]
    limits: Limits = Limits()
    minute_s: float = _MINUTE_S
    in_flight: int = 0
    window: float = 0.0
    """Calls in flight that are allowed now."""
    _paused_until: float = 0.0
    _shrunk_at: float = float("-inf")
    _started: int = 0
    _tokens: int = 0
    _requests_left: _Allowance | None = None
    _tokens_left: _Allowance | None = None
    _calls: deque[float] = field(default_factory=deque)
    """When the calls of the last minute were started."""
    _used: deque[tuple[float, int]] = field(default_factory=deque)
    """When so many tokens were used, in the last minute."""

    def __post_init__(self) -> None:
        self.window = float(self.most)

    def ask(self, tokens: int) -> Wait | Start:
        """Whether a call with a prompt of so many tokens may start now; if so, it has."""
        now = self.clock()
        wait = self._paused(now) or self._quota(now, tokens) or self._per_minute(now, tokens)
        if wait is not None:
            return wait
        if self.in_flight >= max(1, int(self.window)):
            return Wait("concurrency", None)
        self.in_flight += 1
        self._started += 1
        self._tokens += tokens
        self._calls.append(now)
        self._used.append((now, tokens))
        return Start(self._started, now, tokens, self._tokens)

    def _paused(self, now: float) -> Wait | None:
        return Wait("rate_limited", self._paused_until - now) if self._paused_until > now else None

    def _quota(self, now: float, tokens: int) -> Wait | None:
        for allowance, started, wanted in (
            (self._requests_left, self._started, 1),
            (self._tokens_left, self._tokens, tokens),
        ):
            if allowance is None or allowance.until <= now:
                continue
            left = allowance.remaining - (started - allowance.counted)
            # A prompt that is larger than the whole quota must not wait for ever: it goes when nothing else does.
            if left < wanted and (self.in_flight or left <= 0):
                return Wait("rate_limited", allowance.until - now)
        return None

    def _per_minute(self, now: float, tokens: int) -> Wait | None:
        while self._calls and self._calls[0] <= now - self.minute_s:
            self._calls.popleft()
        while self._used and self._used[0][0] <= now - self.minute_s:
            self._used.popleft()
        most = self.limits.requests_per_minute
        if most is not None and len(self._calls) >= most:
            return Wait("requests_per_minute", self._calls[-most] + self.minute_s - now)
        limit = self.limits.tokens_per_minute
        used = sum(amount for _, amount in self._used)
        if limit is not None and used and used + tokens > limit:
            for at, amount in self._used:
                used -= amount
                if used + tokens <= limit or used <= 0:
                    return Wait("tokens_per_minute", at + self.minute_s - now)
        return None

    def ended(self, *, answered: bool, output_tokens: int = 0) -> None:
        """A call is over."""
        self.in_flight -= 1
        if output_tokens:
            self._used.append((self.clock(), output_tokens))
        if answered:
            self.window = min(float(self.most), self.window + 1.0 / max(1.0, self.window))

    def throttled(self, start: Start) -> None:
        """The provider refused the call because there are too many; once for all calls of the same wave."""
        if start.at < self._shrunk_at:
            return
        self._shrunk_at = self.clock()
        self.window = max(1.0, self.window / 2)

    def told(self, start: Start, quotas: Quotas) -> None:
        """What the headers of a reply said."""
        now = self.clock()
        if quotas.retry_after:
            self._paused_until = max(self._paused_until, now + quotas.retry_after)
        self._requests_left = _newer(self._requests_left, quotas.requests, start.number, start.number, now)
        self._tokens_left = _newer(self._tokens_left, quotas.tokens, start.number, start.tokens_before, now)


def _newer(known: _Allowance | None, quota: Quota | None, said_by: int, counted: int, now: float) -> _Allowance | None:
    if quota is None or (known is not None and known.said_by > said_by):
        return known
    return _Allowance(said_by, quota.remaining, counted, now + quota.seconds)
