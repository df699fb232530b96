"""How long a call may take, and when it is made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_convex_evals.records import Frozen

if TYPE_CHECKING:
    from random import Random

    from pytest_convex_evals.generation.causes import Fault


class Patience(Frozen):
    """All in seconds, by a clock that nobody sets; tests make them short."""

    connect_s: float = 20.0
    """Until there is a connection."""
    first_token_s: float = 900.0
    """From the start of a call to the first sign of an answer; some models think for long and say nothing."""
    idle_s: float = 240.0
    """Between two pieces of an answer."""
    total_s: float = 3_600.0
    """For all attempts of a cell and the pauses between them, from the start of the first."""
    preflight_s: float = 300.0
    """The same for the one cheap call before the others, without waits for rate limits."""
    attempts: int = 6
    """Of a cell; refusals for too many calls are not counted, only timed."""
    pause_s: float = 1.0
    """The longest pause after the first attempt; it doubles with each."""
    longest_pause_s: float = 60.0
    """Unless the provider asks for more."""
    disk_s: float = 600.0
    """How long a paid answer that cannot be written is held in memory."""

    def pause(self, attempt: int, asked: float | None, random: Random) -> float:
        """Before the next attempt: any time up to a limit that doubles, after the time that the provider asked for."""
        limit = min(self.longest_pause_s, self.pause_s * 2 ** min(attempt - 1, 20))
        return (asked or 0.0) + random.uniform(0.0, limit)

    def again(self, fault: Fault, counted: int, pause: float, left: float) -> bool:
        """Whether the call is made again: the fault allows it, and there are attempts and time for it."""
        if not fault.rule.retried or pause >= left:
            return False
        return fault.cause == "rate_limited" or counted < self.attempts
