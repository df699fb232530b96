"""Serves tickets: an answer that is there already, one from the store, or one that is bought."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_convex_evals.errors import disk_trouble
from pytest_convex_evals.generation.answers import Answer, find_answer, leave_answer
from pytest_convex_evals.generation.buyer import Bought, Buyer, ModelState
from pytest_convex_evals.generation.causes import Fault
from pytest_convex_evals.generation.childlog import log, log_defect
from pytest_convex_evals.generation.events import Answered, AnswerOutcome, Event, ModelStopped, Preflight, Waiting
from pytest_convex_evals.generation.governor import Governor, Limits
from pytest_convex_evals.generation.lane import Lane, NotCalledError
from pytest_convex_evals.generation.purse import Purse
from pytest_convex_evals.generation.store import Generation, GenerationStore
from pytest_convex_evals.prompts import PREFLIGHT

if TYPE_CHECKING:
    from pytest_convex_evals.generation.tickets import Greeting, Ticket

_LOOK_AGAIN_S = 0.5
"""How often a disk that was full is tried."""


_Arg = TypeVar("_Arg")
_Found = TypeVar("_Found")


class GaveUpError(Exception):
    """An answer could not be written for so long that it is lost."""


class Desk:
    """All tickets of a session."""

    def __init__(self, greeting: Greeting, say: Callable[[Event], None]) -> None:
        self.greeting, self.say = greeting, say
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._models: dict[str, ModelState] = {}
        self._writing: set[str] = set()
        """Tickets with an answer that is not yet on disk."""
        self._one_by_one: dict[str, asyncio.Lock] = {}
        """Two tickets for the same answer pay once."""
        self._tickets = 0
        self._store = GenerationStore(Path(greeting.generations))
        self._reader = ThreadPoolExecutor(1, "reader")
        """One thread: tickets reach their lane in the order in which they came."""
        self._purse = Purse(greeting.budget_usd, greeting.spent_usd, 0.0, greeting.unknown_calls)
        self._buyer = Buyer(greeting.environment, greeting.patience, self._store, self._purse, self.say, self._settled)

    def warm_up(self) -> None:
        """Begin with what takes long, before anybody asks."""
        self._buyer.warm_up()

    @property
    def writing(self) -> bool:
        """An answer that was paid is on its way to the disk."""
        return bool(self._writing)

    async def serve(self, ticket: Ticket) -> None:
        """Leave the answer, then say so."""
        self._tickets += 1
        number = self._tickets
        there = await self._read(find_answer, Path(ticket.answer))
        if there is not None:
            self._tell(ticket, there, await self._read(self._generation, there))
            return
        key = ticket.call.key(ticket.repeat)
        async with self._one_by_one.setdefault(key, asyncio.Lock()):
            generation = await self._read(self._store.get, key)
            answer = Answer(generation=key, reused=True)
            if generation is None:
                bought = await self._buy(ticket, number)
                answer, generation = _answer_of(bought), bought.generation
        await self._write(ticket, lambda: leave_answer(Path(ticket.answer), answer))
        self._tell(ticket, answer, generation)

    async def _read(self, find: Callable[[_Arg], _Found], where: _Arg) -> _Found:
        return await asyncio.get_running_loop().run_in_executor(self._reader, find, where)

    def _generation(self, answer: Answer) -> Generation | None:
        return answer.unstored or (self._store.get(answer.generation) if answer.generation else None)

    def _tell(self, ticket: Ticket, answer: Answer, generation: Generation | None) -> None:
        outcome: AnswerOutcome = "reused" if answer.reused else "stored"
        cause: str | None = None
        if answer.trouble is not None:
            outcome, cause = "trouble", answer.trouble.cause
        elif answer.unstored is not None:
            outcome, cause = "refused", "refused"
        record = generation.record if generation is not None else None
        self.say(
            Answered(
                ticket=ticket.answer,
                model=ticket.model,
                outcome=outcome,
                cause=cause,
                cost_usd=record.cost_usd if record else None,
                input_tokens=record.input_tokens if record else None,
                output_tokens=record.output_tokens if record else None,
                duration_s=record.duration_s if record else None,
            )
        )

    async def _buy(self, ticket: Ticket, number: int) -> Bought:
        state = self._models.setdefault(ticket.model, ModelState())
        lane = self._lane(ticket)
        try:
            if state.preflight is None:
                state.preflight = asyncio.get_running_loop().create_task(self._preflight(ticket, state, lane))
            await asyncio.shield(state.preflight)
            return await self._buyer.buy(
                ticket, number, state, lane, self._stop, lambda bought: self._keep(ticket, bought)
            )
        except NotCalledError as error:
            return Bought(fault=error.fault)
        except OSError as error:
            return Bought(fault=self._disk(error))
        except GaveUpError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect in one answer must not take the others with it
            log_defect()
            return Bought(fault=Fault("generation_child", f"defect while a model was called: {type(error).__name__}"))

    async def _preflight(self, ticket: Ticket, state: ModelState, lane: Lane) -> None:
        """One cheap call with exactly the parameters of the others proves that the model answers."""
        call = ticket.call.model_copy(update={"messages": [{"role": "user", "content": PREFLIGHT}]})
        asked = ticket.model_copy(update={"call": call, "answer": "", "prompt_tokens": 100})
        started = time.monotonic()
        try:
            bought = await self._buyer.buy(asked, 0, state, lane, None, _forget)
            fault = bought.fault if bought.fault is None or bought.fault.cause != "refused" else None
        except NotCalledError as error:
            fault = error.fault
        except OSError as error:
            fault = self._disk(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours stops this model, not the others
            log_defect()
            fault = Fault("generation_child", f"defect in the first call of a model: {type(error).__name__}")
        seconds = round(time.monotonic() - started, 3)
        cause = fault.cause if fault is not None else None
        self.say(Preflight(model=ticket.model, ok=fault is None, seconds=seconds, cause=cause))
        if fault is not None:
            self._stop(ticket.model, fault)

    def _lane(self, ticket: Ticket) -> Lane:
        if ticket.lane not in self._lanes:
            limits = Limits(ticket.requests_per_minute, ticket.tokens_per_minute)
            governor = Governor(self.greeting.concurrency, time.monotonic, limits)
            wait = self.greeting.patience.total_s
            self._lanes[ticket.lane] = Lane(ticket.provider, governor, self._purse, wait, self.say)
        return self._lanes[ticket.lane]

    def _settled(self) -> None:
        """A call has shown what it cost: others may fit now."""
        for lane in self._lanes.values():
            lane.pump()

    def _stop(self, model: str | None, fault: Fault) -> None:
        """No further call of this model, or of any."""
        for name in [model] if model is not None else list(self._models):
            state = self._models.setdefault(name, ModelState())
            if state.stopped is None:
                state.stopped = fault
                state.stop.set()
                self.say(ModelStopped(model=name, cause=fault.cause, reason=fault.reason))
        for lane in self._lanes.values():
            lane.stop(model, fault)

    def _disk(self, error: OSError) -> Fault:
        """Nothing more is bought while nothing can be kept."""
        trouble = disk_trouble(error, "the answer")
        fault = Fault(trouble.cause, trouble.reason)
        self._stop(None, fault)
        return fault

    async def _keep(self, ticket: Ticket, bought: Bought) -> None:
        """A refusal is kept with its cell only: it must not be used for another."""
        generation = bought.generation
        if generation is not None and not bought.refused:
            await self._write(ticket, lambda: self._store.put(generation))

    async def _write(self, ticket: Ticket, write: Callable[[], None]) -> None:
        """A paid answer is held in memory until it is on disk; meanwhile nothing more is bought."""
        self._writing.add(ticket.answer)
        ends, said = time.monotonic() + self.greeting.patience.disk_s, False
        try:
            while True:
                try:
                    await asyncio.to_thread(write)
                    return
                except OSError as error:
                    fault = self._disk(error)
                    if time.monotonic() > ends:
                        raise GaveUpError(fault.reason) from error
                    if not said:
                        said = True
                        log(f"{fault.reason}; the answer is held in memory, nothing more is bought")
                        wait = Waiting(provider=ticket.provider, model=ticket.model, ticket=ticket.answer, why="disk")
                        self.say(wait)
                await asyncio.sleep(_LOOK_AGAIN_S)
        finally:
            self._writing.discard(ticket.answer)


async def _forget(_: Bought) -> None:
    """What the first cheap call brings is of no use to anybody."""


def _answer_of(bought: Bought) -> Answer:
    if bought.fault is not None:
        return Answer(trouble=bought.fault.errored(), attempts=bought.attempts)
    assert bought.generation is not None
    return Answer(unstored=bought.generation) if bought.refused else Answer(generation=bought.generation.record.key)
