# ruff: noqa: E501 - programs in tables stay on one line
"""@convex-dev/rate-limiter: buckets and windows on a clock that the test moves."""

from typing import Any

import pytest

from .support.core import Core

PROJECT = "rate_limiter"
START = 1_800_000_000_000
"""A full minute, so that windows begin where the clock does."""


@pytest.fixture
def timed(fresh: Core) -> Core:
    fresh.control("clock.start", time=START)
    return fresh


def limit(app: Core, name: str, options: str = "{}", method: str = "limit") -> Any:
    return app.run("p:m", {"code": f"return await t.limiter.{method}(ctx, '{name}', {options})"})


def test_a_bucket_fills_with_time(timed: Core) -> None:
    assert [limit(timed, "bucket")["ok"] for _ in range(4)] == [True, True, True, False]
    assert limit(timed, "bucket") == {"ok": False, "retryAfter": 6000}
    timed.control("clock.advance", ms=5999)
    assert limit(timed, "bucket")["ok"] is False
    timed.control("clock.advance", ms=1)
    assert limit(timed, "bucket")["ok"] is True
    timed.control("clock.advance", ms=3_600_000)
    assert [limit(timed, "bucket")["ok"] for _ in range(4)] == [True, True, True, False]


def test_a_window_fills_at_its_start(timed: Core) -> None:
    timed.control("clock.advance", ms=20_000)
    assert limit(timed, "window", "{ count: 5 }") == {"ok": True}
    assert limit(timed, "window") == {"ok": False, "retryAfter": 40_000}
    timed.control("clock.advance", ms=40_000)
    assert limit(timed, "window", "{ count: 4 }") == {"ok": True}


def test_keys_are_separate_and_can_be_reset(timed: Core) -> None:
    assert limit(timed, "bucket", "{ key: 'ann', count: 3 }")["ok"] is True
    assert limit(timed, "bucket", "{ key: 'ann' }")["ok"] is False
    assert limit(timed, "bucket", "{ key: 'bob' }")["ok"] is True
    limit(timed, "bucket", "{ key: 'ann' }", "reset")
    assert limit(timed, "bucket", "{ key: 'ann' }")["ok"] is True


def test_a_check_uses_nothing_up(timed: Core) -> None:
    assert [limit(timed, "bucket", "{ count: 3 }", "check")["ok"] for _ in range(3)] == [True, True, True]
    assert timed.run("p:q", {"code": "return await t.limiter.check(ctx, 'bucket', { count: 2 })"}) == {"ok": True}
    value = limit(timed, "bucket", "{}", "getValue")
    assert value["value"] == 3
    limit(timed, "bucket", "{ count: 2 }")
    value = limit(timed, "bucket", "{}", "getValue")
    assert (value["value"], value["ts"], value["config"]["kind"]) == (1, START, "token bucket")


def test_a_reservation_takes_what_is_to_come(timed: Core) -> None:
    answers = [limit(timed, "reserving", "{ reserve: true }") for _ in range(5)]
    assert [answer.get("retryAfter") for answer in answers] == [None, 1000, 2000, 3000, 4000]
    assert [answer["ok"] for answer in answers] == [True, True, True, True, False]
    timed.control("clock.advance", ms=3000)
    assert limit(timed, "reserving")["ok"] is False
    timed.control("clock.advance", ms=1000)
    assert limit(timed, "reserving") == {"ok": True}


def test_shards_share_the_rate(timed: Core) -> None:
    taken = sum(limit(timed, "sharded")["ok"] for _ in range(70))
    assert 20 <= taken <= 50
    rows = timed.control("list", table="rateLimits", component="rateLimiter")["documents"]
    assert {row["shard"] for row in rows} == set(range(5))
    assert sum(row["value"] for row in rows) == pytest.approx(50 - taken)


def test_an_error_says_when_to_come_back(timed: Core) -> None:
    error = timed.fails(
        "p:m",
        {
            "code": "await t.limiter.limit(ctx, 'bucket', { count: 2 }); await t.limiter.limit(ctx, 'bucket', { count: 2, throws: true })"
        },
    )
    assert error.data == {"kind": "RateLimited", "name": "bucket", "retryAfter": 6000}
    assert limit(timed, "bucket", "{ count: 3 }")["ok"] is True, "the first call was undone with its mutation"
    assert "exceeds 3" in timed.fails("p:m", {"code": "await t.limiter.limit(ctx, 'bucket', { count: 4 })"}).message


def test_limits_given_with_the_call(timed: Core) -> None:
    config = "{ config: { kind: 'fixed window', rate: 1, period: 1000 } }"
    assert limit(timed, "mine", config)["ok"] is True
    refused = limit(timed, "mine", config)
    assert refused["ok"] is False
    assert 0 < refused["retryAfter"] <= 1000


def test_queued_updates_are_applied_by_the_worker(timed: Core) -> None:
    for _ in range(4):
        assert limit(timed, "queued")["ok"] is True
    timed.control("clock.advance", ms=5000)
    assert limit(timed, "queued", "{}", "getValue")["value"] == pytest.approx(2)
    assert limit(timed, "queued", "{ count: 4 }") == {"ok": False, "retryAfter": pytest.approx(15_000)}
    limit(timed, "queued", "{}", "reset")
    timed.control("clock.advance", ms=5000)
    assert limit(timed, "queued", "{ count: 6 }", "check") == {"ok": True}


def test_functions_for_clients(timed: Core) -> None:
    limit(timed, "bucket", "{ key: 'ann' }")
    assert timed.run("project:getRateLimit", {"key": "ann"})["value"] == 2
    assert timed.run("project:getServerTime") == START


def test_actions_are_limited_too(timed: Core) -> None:
    code = "const all = []; for (let i = 0; i < 4; i++) all.push((await t.limiter.limit(ctx, 'bucket')).ok); return all"
    assert timed.run("p:a", {"code": code}) == [True, True, True, False]
