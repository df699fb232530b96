"""Money and patience: what is reserved and settled, when a call is made again, what people are told before."""

import random

import pytest

from pytest_convex_evals.generation.calls import Order, call_for
from pytest_convex_evals.generation.causes import RULES, Fault
from pytest_convex_evals.generation.estimate import estimate
from pytest_convex_evals.generation.patience import Patience
from pytest_convex_evals.generation.purse import Purse
from pytest_convex_evals.models.prices import Price, most_tokens
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.prompts import Prompt


def test_what_fits_is_decided_by_what_is_spent_and_what_is_in_flight():
    purse = Purse(1.0)
    assert purse.fits(0.6) == "now"
    purse.reserve(0.6)
    assert (purse.fits(0.4), purse.fits(0.5)) == ("now", "later")
    purse.settle(0.6, 0.1)
    assert (purse.reserved, purse.spent, purse.fits(0.9), purse.fits(0.91)) == (0.0, 0.1, "now", "never")


def test_a_call_of_unknown_cost_counts_as_what_it_can_have_cost():
    purse = Purse(1.0)
    purse.reserve(0.6)
    purse.settle(0.6, None, at_most=0.2)
    assert (purse.spent, purse.unknown_calls) == (0.2, 1)


def test_without_a_budget_everything_fits():
    assert Purse(None, spent=1e9).fits(1e9) == "now"


def test_pauses_are_random_up_to_a_limit_that_doubles_and_come_after_what_the_provider_asks():
    patience, dice = Patience(pause_s=1.0, longest_pause_s=8.0), random.Random(7)
    for attempt, limit in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (9, 8.0), (2000, 8.0)):
        pauses = [patience.pause(attempt, None, dice) for _ in range(300)]
        assert 0 <= min(pauses) < limit / 8
        assert limit * 7 / 8 < max(pauses) <= limit
        assert all(30 <= patience.pause(attempt, 30.0, dice) <= 30 + limit for _ in range(50))


def test_a_call_is_made_again_while_there_are_attempts_and_time():
    patience = Patience(attempts=3)
    down, many, wrong = Fault("provider_unavailable", ""), Fault("rate_limited", ""), Fault("bad_request", "")
    assert patience.again(down, counted=2, pause=1, left=10)
    assert not patience.again(down, counted=3, pause=1, left=10)
    assert not patience.again(down, counted=1, pause=10, left=10)
    assert not patience.again(wrong, counted=1, pause=1, left=10)
    assert patience.again(many, counted=0, pause=1, left=10)
    assert not patience.again(many, counted=0, pause=11, left=10)


def test_only_errors_that_pass_by_themselves_are_retried_and_none_of_them_stops_a_model():
    retried = {cause for cause, rule in RULES.items() if rule.retried}
    assert retried == {
        *("rate_limited", "provider_unavailable", "provider_timeout", "provider_connection", "provider_reply"),
        "zero_tokens",
    }
    assert not [cause for cause, rule in RULES.items() if rule.retried and rule.stops_model]


PROMPT = Prompt("s" * 100, "u" * 3900)
PRICED = Model("priced", "Priced", "P", "openai/x", "K", max_output_tokens=10_000, price=Price(1e-6, 1e-5, "litellm"))
PRICED = Model(**{name: getattr(PRICED, name) for name in PRICED.__slots__} | {"output_limit": 10_000})
UNKNOWN = Model("unknown", "Unknown", "P", "openai/y", "K")


def orders(model: Model, count: int) -> list[Order]:
    return [Order(None, model, PROMPT, number) for number in range(count)]  # type: ignore[arg-type]


def test_the_estimate_says_calls_tokens_and_cost_and_what_is_unknown(tmp_path):
    found = estimate([*orders(PRICED, 2), *orders(UNKNOWN, 3)], stored=4, budget=2.5)
    assert found.lines() == [
        "calls of models: 5, 4 answers are in the store, within a budget of 2.50 USD",
        "  priced: 2 calls, about 2,000 tokens in and 16,000 out, about 0.16 USD, at most 0.20 USD",
        "  unknown: 3 calls, about 3,000 tokens in and 24,000 out, price unknown",
    ]
    assert (found.calls, found.calls_of_unknown_price, found.asks) == (5, 3, False)


def test_people_are_asked_above_an_amount_and_before_many_calls_of_unknown_price():
    assert estimate(orders(PRICED, 70), 0).asks
    assert not estimate(orders(PRICED, 50), 0).asks
    assert estimate(orders(UNKNOWN, 26), 0).asks
    assert not estimate(orders(UNKNOWN, 25), 0).asks


def test_nothing_to_buy_is_nothing_to_say():
    assert estimate([], 12).lines() == []


def test_a_reservation_is_the_most_that_a_call_can_cost():
    (order,) = orders(PRICED, 1)
    assert order.most_usd == pytest.approx(most_tokens(4000) * 1e-6 + 10_000 * 1e-5)
    assert most_tokens(4000) >= 1600
    assert orders(UNKNOWN, 1)[0].most_usd == 0


def test_what_is_sent_is_what_the_registry_says():
    model = Model("m", "M", "P", "openai/x", "K", reasoning="high", max_output_tokens=100_000, web_search=True)
    call = call_for(model, PROMPT)
    assert call.parameters == {
        "max_tokens": 64_000,
        "reasoning_effort": "high",
        "web_search_options": {"search_context_size": "medium"},
    }
    assert call.key(1) != call.key(2)
    assert call.key(1) != call_for(UNKNOWN, PROMPT).key(1)
