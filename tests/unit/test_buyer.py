"""How often, how long and after which pauses a call is made again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random

import pytest
from pydantic import PrivateAttr

from pytest_convex_evals.generation.buyer import Bought, Buyer, ModelState, _Missed
from pytest_convex_evals.generation.calls import Order
from pytest_convex_evals.generation.causes import Fault
from pytest_convex_evals.generation.governor import Governor
from pytest_convex_evals.generation.lane import Lane, NotCalledError
from pytest_convex_evals.generation.patience import Patience
from pytest_convex_evals.generation.purse import Purse
from pytest_convex_evals.generation.store import GenerationStore
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.prompts import Prompt

MANY, DOWN = Fault("rate_limited", "too many"), Fault("provider_unavailable", "away")
REVOKED = Fault("authentication", "revoked")
PAUSE_S = 0.2


class Noted(Patience):
    """Notes what a pause is for, and makes all of them equal."""

    _attempts: list[int] = PrivateAttr(default_factory=list)

    def pause(self, attempt: int, asked: float | None, random: Random) -> float:
        self._attempts.append(attempt)
        return PAUSE_S if asked else 0.0


def buy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[tuple[Fault, float | None]],
    patience: Patience,
    *,
    preflight: bool = False,
) -> Fault | None:
    """The fault that was left when calls end in these ways, one after the other; None: there is an answer."""
    outcomes = iter([*(_Missed(fault, asked=asked) for fault, asked in faults), Bought()])

    async def attempt(self, ticket, state, lane, *_):
        lane.leave(answered=False)
        return next(outcomes)

    monkeypatch.setattr(Buyer, "_attempt", attempt)
    order = Order(tmp_path / "answer", Model("m", "M", "P", "openai/m", "K"), Prompt("s", "u"), 1)
    purse = Purse(None)
    lane = Lane("P", Governor(1, time.monotonic), purse, patience.total_s, lambda _: None)
    stop = None if preflight else lambda *_: None

    async def keep(_: Bought) -> None:
        """Nothing is kept here."""

    async def bought() -> Bought:
        buyer = Buyer({}, patience, GenerationStore(tmp_path), purse, lambda _: None, lambda: None)
        return await buyer.buy(order.ticket(), 1, ModelState(), lane, stop, keep)

    return asyncio.run(bought()).fault


def test_pauses_grow_with_refusals_for_too_many_calls_too_and_only_other_faults_use_up_attempts(tmp_path, monkeypatch):
    patience = Noted(attempts=2)
    assert buy(tmp_path, monkeypatch, [(MANY, None)] * 5 + [(DOWN, None)], patience) is None
    assert patience._attempts == [1, 2, 3, 4, 5, 6]


def test_the_first_cheap_call_waits_for_a_rate_limit_as_long_as_the_others(tmp_path, monkeypatch):
    patience = Noted(preflight_s=PAUSE_S / 2)
    assert buy(tmp_path, monkeypatch, [(MANY, PAUSE_S)] * 2 + [(DOWN, None)], patience, preflight=True) is None


def test_the_first_cheap_call_does_not_wait_long_for_a_provider_that_is_away(tmp_path, monkeypatch):
    patience = Noted(preflight_s=PAUSE_S / 2)
    left = buy(tmp_path, monkeypatch, [(DOWN, PAUSE_S)], patience, preflight=True)
    assert left is not None
    assert left.cause == "provider_unavailable"


def test_nobody_waits_longer_for_a_rate_limit_than_for_a_cell(tmp_path, monkeypatch):
    patience = Noted(total_s=PAUSE_S / 2)
    left = buy(tmp_path, monkeypatch, [(MANY, PAUSE_S)], patience, preflight=True)
    assert left is not None
    assert left.cause == "rate_limited"


def test_a_call_whose_model_was_stopped_while_the_disk_was_tried_is_not_made(tmp_path, monkeypatch):
    """Meanwhile another call of the model was refused, or has met a full disk."""
    state, purse, calls = ModelState(), Purse(None), []

    class Slow(GenerationStore):
        def prove_writable(self) -> None:
            super().prove_writable()
            state.stopped = REVOKED

    async def call(self, ticket, *_):
        calls.append(ticket)
        return Bought()

    async def nothing(*_: object) -> None:
        """Nothing is loaded and nothing kept here."""

    monkeypatch.setattr(Buyer, "_call", call)
    monkeypatch.setattr(Buyer, "warm_up", nothing)
    order = Order(tmp_path / "answer", Model("m", "M", "P", "openai/m", "K"), Prompt("s", "u"), 1)
    lane = Lane("P", Governor(1, time.monotonic), purse, 60.0, lambda _: None)

    async def bought() -> Bought:
        buyer = Buyer({}, Patience(), Slow(tmp_path), purse, lambda _: None, lambda: None)
        return await buyer.buy(order.ticket(), 1, state, lane, lambda *_: None, nothing)

    with pytest.raises(NotCalledError) as stopped:
        asyncio.run(bought())
    assert (stopped.value.fault, calls) == (REVOKED, [])
    assert (lane.governor.in_flight, purse.reserved, purse.spent, purse.unknown_calls) == (0, 0.0, 0.0, 0)
