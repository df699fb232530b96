"""Buys one answer: waits for its turn, calls, judges, calls again."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.causes import Fault
from pytest_convex_evals.generation.events import CallStarted, Event, FirstToken, Spend, Waiting
from pytest_convex_evals.generation.lane import Lane, NotCalledError
from pytest_convex_evals.generation.pulse import Pulse
from pytest_convex_evals.generation.quotas import read_quotas
from pytest_convex_evals.generation.reply import generation_of, refusal_of, refused, used_nothing
from pytest_convex_evals.models.prices import most_tokens
from pytest_convex_evals.records import AttemptRecord

if TYPE_CHECKING:
    from pytest_convex_evals.generation.governor import Start
    from pytest_convex_evals.generation.patience import Patience
    from pytest_convex_evals.generation.purse import Purse
    from pytest_convex_evals.generation.store import Generation, GenerationStore
    from pytest_convex_evals.generation.tickets import Ticket
    from pytest_convex_evals.generation.wire import Exchange

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_SHORTEST_SECRET = 8


@dataclass(slots=True)
class ModelState:
    """What is known about a model in this session."""

    preflight: asyncio.Task[None] | None = None
    stopped: Fault | None = None
    """Why it is not called any longer."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Bought:
    """Either an answer or a fault."""

    generation: Generation | None = None
    refused: bool = False
    """Never to be used again."""
    fault: Fault | None = None
    attempts: tuple[AttemptRecord, ...] = ()


class Buyer:
    """Makes calls, as many as an answer needs."""

    def __init__(
        self,
        environment: Mapping[str, str],
        patience: Patience,
        store: GenerationStore,
        purse: Purse,
        say: Callable[[Event], None],
        settled: Callable[[], None],
    ) -> None:
        self._environment, self._patience, self._store = environment, patience, store
        self._purse, self._say, self._settled = purse, say, settled
        self._pulse = Pulse()
        self._random = random.Random()  # noqa: S311 - jitter
        self._loaded: asyncio.Future[None] | None = None
        self._secrets = sorted(
            {value for name, value in environment.items() if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET},
            key=len,
            reverse=True,
        )

    async def buy(
        self,
        ticket: Ticket,
        number: int,
        state: ModelState,
        lane: Lane,
        stop: Callable[[str | None, Fault], None] | None,
        keep: Callable[[Bought], Awaitable[None]],
    ) -> Bought:
        """Raises `NotCalledError` when a call will not be made, and `OSError` when its answer could not be kept.

        An answer is kept before its place is given to another call, so that little is bought that cannot be kept.
        """
        attempts: list[AttemptRecord] = []
        counted = refusals = 0
        clock = _Clock(self._patience, short=stop is None)
        fault = Fault("provider_timeout", "there was no time for a call")
        while True:
            if state.stopped is not None:
                raise NotCalledError(state.stopped)
            start = await lane.enter(number, ticket.model, ticket.prompt_tokens, ticket.most_usd)
            self._tell()
            clock.started(start.at)
            left = clock.left
            if left <= 0:
                self._purse.settle(ticket.most_usd, 0.0)
                lane.leave(answered=False)
                return Bought(fault=_summed_up(fault, attempts), attempts=tuple(attempts))
            outcome = await self._attempt(ticket, state, lane, start, left, tuple(attempts), stop, keep)
            if not isinstance(outcome, _Missed):
                return outcome
            fault = outcome.fault
            counted += fault.cause != "rate_limited"
            if fault.cause == "rate_limited":
                refusals += 1
                clock.refused()
            pause = self._patience.pause(counted + refusals, outcome.asked, self._random)
            again = self._patience.again(fault, counted, pause, clock.left)
            attempts.append(_record(fault, outcome.duration_s, pause if again else 0.0))
            if not again:
                return Bought(fault=_summed_up(fault, attempts), attempts=tuple(attempts))
            self._say(
                Waiting(
                    provider=ticket.provider,
                    model=ticket.model,
                    ticket=ticket.answer or None,
                    why="rate_limited" if outcome.asked else "retry",
                    seconds=round(pause, 3),
                )
            )
            try:
                await asyncio.wait_for(state.stop.wait(), pause)
            except TimeoutError:
                continue

    async def _attempt(
        self,
        ticket: Ticket,
        state: ModelState,
        lane: Lane,
        start: Start,
        left: float,
        before: tuple[AttemptRecord, ...],
        stop: Callable[[str | None, Fault], None] | None,
        keep: Callable[[Bought], Awaitable[None]],
    ) -> Bought | _Missed:
        from pytest_convex_evals.generation.wire import Exchange

        exchange, answered, output, sold = Exchange(), False, 0, False
        started = time.monotonic()
        known: float | None = None
        try:
            await asyncio.to_thread(self._store.prove_writable)
            await asyncio.shield(self.warm_up())
            if state.stopped is not None:  # meanwhile
                raise NotCalledError(state.stopped)
            started, sold = time.monotonic(), True
            result = await self._call(ticket, exchange, left, before)
            if isinstance(result, Bought) and result.generation is not None:
                record = result.generation.record
                known, answered, output = record.cost_usd, True, record.output_tokens or 0
                await keep(result)
            elif isinstance(result, _Missed):
                sold = exchange.status is None or exchange.status < 400
                if result.fault.cause == "rate_limited":
                    lane.governor.throttled(start)
                if result.fault.rule.stops_model and stop is not None:
                    stop(ticket.model, result.fault)  # before the next call takes the slot
        finally:
            quotas = read_quotas(exchange.headers)
            lane.governor.told(start, quotas)
            self._settle(ticket, exchange, known if sold else 0.0)
            lane.leave(answered=answered, output_tokens=output)
        if isinstance(result, _Missed):
            return _Missed(result.fault, time.monotonic() - started, quotas.retry_after)
        return result

    def _settle(self, ticket: Ticket, exchange: Exchange, cost: float | None) -> None:
        """A call of unknown cost counts as its prompt and what was received."""
        received = sum(map(len, exchange.facts.text))
        at_most = 0.0
        if ticket.price is not None:
            at_most = min(ticket.most_usd, ticket.price.of(ticket.prompt_tokens, most_tokens(received)))
        self._purse.settle(ticket.most_usd, cost, at_most=at_most)
        self._tell()
        self._settled()

    def _tell(self) -> None:
        """Before a call too: whoever starts the next child must know what this one may have spent."""
        purse = self._purse
        self._say(
            Spend(
                spent_usd=round(purse.spent, 9),
                reserved_usd=round(purse.reserved, 9),
                unknown_calls=purse.unknown_calls,
            )
        )

    async def _call(
        self, ticket: Ticket, exchange: Exchange, left: float, before: tuple[AttemptRecord, ...]
    ) -> Bought | _Missed:
        from pytest_convex_evals.generation.caller import Listener, call_model
        from pytest_convex_evals.generation.causes import judge

        if ticket.answer:
            self._say(
                CallStarted(ticket=ticket.answer, model=ticket.model, provider=ticket.provider, attempt=len(before) + 1)
            )

        def first(seconds: float) -> None:
            if ticket.answer:
                self._say(FirstToken(ticket=ticket.answer, seconds=round(seconds, 3)))

        key = self._environment.get(ticket.key_variable, "") if ticket.key_variable else ""
        began = time.monotonic()
        try:
            said = await call_model(ticket.call, key, Listener(self._pulse, self._patience, left, first), exchange)
        except Exception as error:  # noqa: BLE001 - every failure of a call becomes a typed cause
            fault = judge(error, exchange)
            fault = Fault(fault.cause, self._without_secrets(fault.reason), fault.status)
            if fault.cause == "refused":
                duration = time.monotonic() - began
                refusal = refusal_of(ticket.call, ticket.repeat, duration, fault.reason, before)
                return Bought(refusal, refused=True)
            return _Missed(fault)
        generation = generation_of(ticket.call, ticket.repeat, said, ticket.price, before)
        if used_nothing(generation):
            reason = f"{ticket.call.litellm_id} answered without using a token"
            return _Missed(Fault("zero_tokens", reason, exchange.status))
        return Bought(generation, refused=refused(generation))

    def warm_up(self) -> asyncio.Future[None]:
        """Load litellm; that takes seconds, so not in the loop."""
        if self._loaded is None:
            self._loaded = asyncio.ensure_future(asyncio.to_thread(_load))
        return self._loaded

    def _without_secrets(self, text: str) -> str:
        """Providers may repeat the key that they refuse; reports are shown to others."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _load() -> None:
    from pytest_convex_evals.generation.caller import load

    load()


@dataclass(slots=True)
class _Clock:
    """The deadline for all attempts of a call.

    The one cheap call before the others has a short one, in which waits after a refusal for too many calls do not
    count: the provider is there, and the other calls would wait as long.
    """

    patience: Patience
    short: bool
    _began: float | None = None
    _held: float = 0.0
    """Seconds from refusals to the attempts after them."""
    _refused_at: float | None = None

    def started(self, at: float) -> None:
        """An attempt begins; the first one starts the clock."""
        self._began = self._began if self._began is not None else at
        if self._refused_at is not None:
            self._held += at - self._refused_at
            self._refused_at = None

    def refused(self) -> None:
        """For too many calls."""
        self._refused_at = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds."""
        assert self._began is not None
        whole = self.patience.total_s
        if self.short and self._refused_at is None:
            whole = min(whole, self.patience.preflight_s + self._held)
        return whole - (time.monotonic() - self._began)


@dataclass(frozen=True, slots=True)
class _Missed:
    """An attempt without an answer."""

    fault: Fault
    duration_s: float = 0.0
    asked: float | None = None
    """Seconds that the provider asked to wait."""


def _record(fault: Fault, duration: float, waited: float) -> AttemptRecord:
    return AttemptRecord(
        cause=fault.cause,
        reason=fault.reason,
        status=fault.status,
        duration_s=round(duration, 3),
        waited_s=round(waited, 3),
    )


def _summed_up(fault: Fault, attempts: list[AttemptRecord]) -> Fault:
    """After several attempts, the last reason and how many there were."""
    if len(attempts) == 1:
        return fault
    return Fault(fault.cause, f"{fault.reason} (after {len(attempts)} attempts)", fault.status)
