"""The rate governor on a clock of its own: concurrency, quotas, limits per minute, and what headers say."""

from datetime import UTC, datetime

import pytest

from pytest_convex_evals.generation.governor import Governor, Limits, Start, Wait
from pytest_convex_evals.generation.quotas import Quota, Quotas, read_quotas


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def started(governor: Governor, tokens: int = 100) -> Start:
    answer = governor.ask(tokens)
    assert isinstance(answer, Start), answer
    return answer


def test_as_many_calls_as_the_settings_allow_and_no_more(clock):
    governor = Governor(3, clock)
    for _ in range(3):
        started(governor)
    assert governor.ask(1) == Wait("concurrency", None)
    governor.ended(answered=True)
    started(governor)


def test_a_refusal_halves_the_window_once_for_all_calls_of_the_same_wave(clock):
    governor = Governor(8, clock)
    wave = [started(governor) for _ in range(8)]
    clock.now += 1
    for start in wave:
        governor.throttled(start)
        governor.ended(answered=False)
    assert governor.window == 4
    clock.now += 1
    governor.throttled(started(governor))
    assert governor.window == 2
    for _ in range(9):
        clock.now += 1
        governor.ended(answered=False)
        governor.throttled(started(governor))
    assert governor.window == 1
    assert governor.ask(1) == Wait("concurrency", None)


def test_answers_let_the_window_grow_by_one_per_window_up_to_the_settings(clock):
    governor = Governor(8, clock)
    governor.throttled(started(governor))
    governor.ended(answered=False)
    grown = []
    for _ in range(60):
        started(governor)
        governor.ended(answered=True)
        grown.append(governor.window)
    assert grown == sorted(grown)
    assert 4.9 < grown[3] <= 5.0
    assert grown[-1] == 8


def test_a_call_that_failed_does_not_let_the_window_grow(clock):
    governor = Governor(8, clock)
    governor.throttled(started(governor))
    governor.ended(answered=False)
    started(governor)
    governor.ended(answered=False)
    assert governor.window == 4


def test_retry_after_holds_back_every_call_of_the_provider(clock):
    governor = Governor(8, clock)
    governor.told(started(governor), Quotas(retry_after=7.5))
    assert governor.ask(1) == Wait("rate_limited", 7.5)
    clock.now += 7.4
    wait = governor.ask(1)
    assert isinstance(wait, Wait)
    assert wait.seconds == pytest.approx(0.1)
    clock.now += 0.2
    started(governor)


def test_a_shorter_pause_does_not_shorten_a_longer_one(clock):
    governor = Governor(8, clock)
    first, second = started(governor), started(governor)
    governor.told(first, Quotas(retry_after=30))
    governor.told(second, Quotas(retry_after=1))
    assert governor.ask(1) == Wait("rate_limited", 30)


def test_a_quota_of_requests_counts_those_that_started_since(clock):
    governor = Governor(8, clock)
    first = started(governor)
    started(governor)
    governor.told(first, Quotas(requests=Quota(3, 20)))  # one of the three is in flight already
    started(governor)
    started(governor)
    assert governor.ask(1) == Wait("rate_limited", 20)
    clock.now += 20
    started(governor)


def test_a_quota_of_tokens_counts_prompts(clock):
    governor = Governor(8, clock)
    governor.told(started(governor, 500), Quotas(tokens=Quota(1000, 6)))
    started(governor, 900)
    assert governor.ask(200) == Wait("rate_limited", 6)
    started(governor, 100)


def test_a_prompt_larger_than_the_whole_quota_goes_alone(clock):
    governor = Governor(8, clock)
    first = started(governor, 10)
    governor.told(first, Quotas(tokens=Quota(1000, 6)))
    assert governor.ask(5000) == Wait("rate_limited", 6)
    governor.ended(answered=True)
    started(governor, 5000)


def test_what_an_older_call_says_does_not_replace_what_a_newer_one_said(clock):
    governor = Governor(8, clock)
    older, newer = started(governor), started(governor)
    governor.told(newer, Quotas(requests=Quota(0, 20)))
    governor.told(older, Quotas(requests=Quota(50, 20)))
    assert governor.ask(1) == Wait("rate_limited", 20)


def test_requests_per_minute(clock):
    governor = Governor(8, clock, Limits(requests_per_minute=2))
    for _ in range(2):
        started(governor)
        governor.ended(answered=True, output_tokens=50)
        clock.now += 10
    assert governor.ask(1) == Wait("requests_per_minute", 40)
    clock.now += 40
    started(governor)
    assert governor.ask(1) == Wait("requests_per_minute", 10)


def test_tokens_per_minute_count_prompts_and_answers(clock):
    governor = Governor(8, clock, Limits(tokens_per_minute=1000))
    started(governor, 300)
    clock.now += 5
    governor.ended(answered=True, output_tokens=600)
    assert governor.ask(200) == Wait("tokens_per_minute", 55)
    started(governor, 100)
    clock.now += 55
    started(governor, 300)
    assert governor.ask(100) == Wait("tokens_per_minute", 5)


def test_a_prompt_larger_than_the_limit_waits_for_an_empty_minute(clock):
    governor = Governor(8, clock, Limits(tokens_per_minute=1000))
    started(governor, 5000)
    clock.now += 1
    assert governor.ask(4000) == Wait("tokens_per_minute", 59)
    clock.now += 59
    started(governor, 4000)


DATE = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 12 "}, 12),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({**DATE, "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30),
        ({**DATE, "retry-after": "2026-10-21T07:29:00Z"}, 60),
        ({**DATE, "retry-after": "Wed, 21 Oct 2026 07:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers, seconds):
    assert read_quotas(headers).retry_after == seconds


def test_dates_are_compared_with_the_date_of_the_reply_and_not_with_our_clock():
    wrong = datetime(1999, 1, 1, tzinfo=UTC)
    assert read_quotas({**DATE, "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, wrong).retry_after == 30
    without = {"retry-after": "Fri, 01 Jan 1999 00:00:09 GMT"}
    assert read_quotas(without, wrong).retry_after == 9


@pytest.mark.parametrize(
    ("headers", "requests", "tokens"),
    [
        (
            {
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            Quota(59, 1),
            Quota(149984, 360),
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, Quota(0, 0.02), None),
        (
            {
                **DATE,
                "anthropic-ratelimit-requests-remaining": "4",
                "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:20Z",
                "anthropic-ratelimit-input-tokens-remaining": "9000",
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:28:05Z",
                "anthropic-ratelimit-output-tokens-remaining": "800",
                "anthropic-ratelimit-output-tokens-reset": "2026-10-21T07:28:45Z",
            },
            Quota(4, 20),
            Quota(800, 45),
        ),
        ({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, None, None),
        ({"x-ratelimit-remaining-requests": "3"}, None, None),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1 fortnight"}, None, None),
    ],
)
def test_quotas_of_openai_and_anthropic(headers, requests, tokens):
    found = read_quotas(headers)
    assert (found.requests, found.tokens) == (requests, tokens)
