"""The waiting room of a provider: tickets start in the order of need, as governor and purse allow."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.causes import Fault
from pytest_convex_evals.generation.events import Event, Waiting, WaitingFor
from pytest_convex_evals.generation.governor import Governor, Start, Wait

if TYPE_CHECKING:
    from pytest_convex_evals.generation.purse import Purse


class NotCalledError(Exception):
    """A call that will not be made."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.reason)


@dataclass(order=True, slots=True)
class _Guest:
    number: int
    """Of the ticket: the lowest is served first."""
    model: str = field(compare=False)
    tokens: int = field(compare=False)
    amount: float = field(compare=False)
    admitted: asyncio.Future[Start] = field(compare=False)


@dataclass(slots=True)
class Lane:
    """All calls of one provider with one key."""

    provider: str
    governor: Governor
    purse: Purse
    longest_wait_s: float
    """What nobody waits for."""
    say: Callable[[Event], None]
    _guests: list[_Guest] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None
    _told: tuple[WaitingFor, float] | None = None
    """The last wait, and when it ends."""

    async def enter(self, number: int, model: str, tokens: int, amount: float) -> Start:
        """Wait for a slot; raises `NotCalledError` when there will be none."""
        guest = _Guest(number, model, tokens, amount, asyncio.get_running_loop().create_future())
        heapq.heappush(self._guests, guest)
        self.pump()
        return await guest.admitted

    def leave(self, *, answered: bool, output_tokens: int = 0) -> None:
        """A call has ended."""
        self.governor.ended(answered=answered, output_tokens=output_tokens)
        self.pump()

    def stop(self, model: str | None, fault: Fault) -> None:
        """Nobody waits for this model any longer; None: for any."""
        gone = [guest for guest in self._guests if model in {None, guest.model}]
        self._guests = [guest for guest in self._guests if model not in {None, guest.model}]
        heapq.heapify(self._guests)
        for guest in gone:
            self._refuse(guest, fault)
        self.pump()

    def pump(self) -> None:
        """Admit whoever may start."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._guests:
            guest = self._guests[0]
            if guest.admitted.done():  # whoever waited was cancelled
                heapq.heappop(self._guests)
                continue
            wait = self._admit(guest)
            if wait is None:
                heapq.heappop(self._guests)
                continue
            self._tell(wait)
            if wait.seconds is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(wait.seconds, 0.001), self.pump)
            return
        if self._told is not None:
            self.say(Waiting(provider=self.provider, model="", why=self._told[0], seconds=0.0))
            self._told = None

    def _admit(self, guest: _Guest) -> Wait | None:
        """None: it was admitted, or refused for good."""
        fits = self.purse.fits(guest.amount)
        if fits == "never":
            assert self.purse.budget is not None
            left = max(0.0, self.purse.budget - self.purse.spent)
            reason = (
                f"a call of {guest.model} can cost {guest.amount:.4f} USD, and {left:.4f} USD of the budget are left"
            )
            self._refuse(guest, Fault("budget", reason))
            return None
        if fits == "later":
            return Wait("budget", None)
        answer = self.governor.ask(guest.tokens)
        if isinstance(answer, Start):
            self.purse.reserve(guest.amount)
            guest.admitted.set_result(answer)
            return None
        if answer.why == "rate_limited" and (answer.seconds or 0.0) > self.longest_wait_s:
            reason = f"{self.provider} takes no call for {answer.seconds:.0f} s, longer than anybody waits"
            self._refuse(guest, Fault("rate_limited", reason))
            return None
        return answer

    @staticmethod
    def _refuse(guest: _Guest, fault: Fault) -> None:
        if not guest.admitted.done():
            guest.admitted.set_exception(NotCalledError(fault))

    def _tell(self, wait: Wait) -> None:
        """Once for each reason, and again when the end of the wait moves."""
        until = self.governor.clock() + wait.seconds if wait.seconds is not None else 0.0
        if self._told is not None and self._told[0] == wait.why and abs(self._told[1] - until) < 1.0:
            return
        self._told = (wait.why, until)
        self.say(Waiting(provider=self.provider, model="", why=wait.why, seconds=wait.seconds))
