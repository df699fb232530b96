"""What the generation child tells while it works: one JSON object per line of its standard output.

A ticket is named by the text of the path of its answer file, a model by what people type. `answered` comes exactly
once per ticket, and only after the answer file is on disk. All seconds are measured by a clock that nobody sets.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from pytest_convex_evals.records import Frozen

WaitingFor = Literal[
    "concurrency",  # all slots of the provider are taken
    "rate_limited",  # the provider said when it takes calls again
    "retry",  # an attempt failed, and the next one is not yet due
    "requests_per_minute",  # a limit of the registry
    "tokens_per_minute",  # a limit of the registry
    "budget",  # until calls in flight have shown what they cost
    "disk",  # an answer is held in memory until it can be written
]
"""Why a ticket is not in flight, or not done."""

AnswerOutcome = Literal["stored", "reused", "refused", "trouble"]
"""Bought and kept; found in the store; filtered or refused, so never reused; there is none."""


class CallStarted(Frozen):
    """A call is in flight."""

    event: Literal["call_started"] = "call_started"
    ticket: str
    """Which cell."""
    model: str
    """Who is asked."""
    provider: str
    """Who serves it."""
    attempt: int
    """1 for the first call of this ticket."""


class Waiting(Frozen):
    """A ticket, or a provider as a whole, waits."""

    event: Literal["waiting"] = "waiting"
    provider: str
    """Whose limit it is."""
    model: str
    """Who would be asked; empty when all models of the provider wait."""
    ticket: str | None = None
    """Which cell; None: every cell of the provider that is not in flight."""
    why: WaitingFor
    """What it waits for."""
    seconds: float | None = None
    """How long from now; None: until a call ends."""


class FirstToken(Frozen):
    """The model has begun to answer."""

    event: Literal["first_token"] = "first_token"
    ticket: str
    """Which cell."""
    seconds: float
    """Since the call started."""


class Answered(Frozen):
    """A ticket is done; its answer file is on disk."""

    event: Literal["answered"] = "answered"
    ticket: str
    """Which cell."""
    model: str
    """Who was asked."""
    outcome: AnswerOutcome
    """How it ended."""
    cause: str | None = None
    """Of a refusal or of trouble, as records have it."""
    cost_usd: float | None = None
    """What the answer cost when it was bought; None: unknown, or no answer."""
    input_tokens: int | None = None
    """None: unknown, or no answer."""
    output_tokens: int | None = None
    """None: unknown, or no answer."""
    duration_s: float | None = None
    """Of the call that was answered, without waiting; None: no answer."""


class ModelStopped(Frozen):
    """No further call of this model: what is left of it ends with the same cause."""

    event: Literal["model_stopped"] = "model_stopped"
    model: str
    """Which one."""
    cause: str
    """As records have it."""
    reason: str
    """What the provider said."""


class Preflight(Frozen):
    """The one cheap call before the others has ended."""

    event: Literal["preflight"] = "preflight"
    model: str
    """Who was asked."""
    ok: bool
    """It answers."""
    seconds: float
    """How long it took."""
    cause: str | None = None
    """Why it does not answer, as records have it."""


class Spend(Frozen):
    """The money of this session, over all models."""

    event: Literal["spend"] = "spend"
    spent_usd: float
    """Known costs of calls that ended."""
    reserved_usd: float
    """Most that the calls in flight can cost, at known prices."""
    unknown_calls: int
    """Calls that ended with an unknown cost."""


Event = CallStarted | Waiting | FirstToken | Answered | ModelStopped | Preflight | Spend
_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


def parse_event(line: str | bytes) -> Event | None:
    """The event of a line; None for anything else."""
    try:
        return _EVENTS.validate_json(line)
    except ValidationError:
        return None
