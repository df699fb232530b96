"""What the random mix of provider faults is made of, and how it is drawn: the same for the same seed.

A cell meets some passing faults and then its ending. Around it keys are revoked, the disk fills and the clock is set.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Literal

from pytest_convex_evals.models.registry import Model
from tests.faults.provider import Provider, Reply
from tests.support.generation import KEY, loopback
from tests.support.suites import answer_text

ATTEMPTS = 3
PATIENCE = {"first_token_s": 2.5, "idle_s": 1.5, "total_s": 900.0, "attempts": ATTEMPTS, "longest_pause_s": 0.1}
TEXT = answer_text()
HOUR_S = 3600.0
Protocol = Literal["openai", "anthropic"]
Outcome = tuple[str, str]


def error(status: int, **more: object) -> Reply:
    return Reply(status=status, error={"message": "said", "type": "t", **more})


DATED = {"429 until a date", "503 until a date"}
"""The date is now: nobody waits, whatever our own clock says."""
PASSING: dict[str, tuple[Reply, str]] = {
    "hangs": (Reply(shape="hang"), "provider_timeout"),
    "hangs in mid-stream": (Reply(TEXT, shape="hang_in_stream"), "provider_timeout"),
    "drips one byte now and then": (Reply(TEXT, shape="drip", drip_s=0.3), "provider_timeout"),
    "drips a plain reply": (Reply(TEXT, stream=False, shape="drip", drip_s=0.3), "provider_timeout"),
    "closes in mid-stream": (Reply(TEXT, shape="cut"), "provider_connection"),
    "ends the stream before the answer": (Reply(TEXT, shape="cut_cleanly"), "provider_connection"),
    "closes in a plain reply": (Reply(TEXT, stream=False, shape="cut"), "provider_connection"),
    "sends HTML": (Reply(shape="html"), "provider_reply"),
    "sends invalid JSON": (Reply(shape="invalid_json"), "provider_reply"),
    "sends invalid JSON in the stream": (Reply(TEXT, shape="invalid_stream"), "provider_reply"),
    "sends an error with a status of 200": (Reply(shape="error_in_200"), "provider_unavailable"),
    "sends an error in the stream": (Reply(TEXT, shape="error_in_stream"), "provider_unavailable"),
    "408": (error(408), "provider_timeout"),
    "500": (error(500), "provider_unavailable"),
    "502": (error(502), "provider_unavailable"),
    "503": (error(503), "provider_unavailable"),
    "504": (error(504), "provider_timeout"),
    "529": (error(529), "provider_unavailable"),
    "uses no token": (Reply("", output_tokens=0), "zero_tokens"),
    "429": (replace(error(429), headers={"Retry-After": "0.05"}), "rate_limited"),
    "429 in milliseconds": (replace(error(429), headers={"retry-after-ms": "20"}), "rate_limited"),
    "429 without a word": (error(429), "rate_limited"),
    "429 until a date": (error(429), "rate_limited"),
    "503 until a date": (error(503), "provider_unavailable"),
}
"""Faults that are worth another attempt."""
RIGHT: Outcome = ("answer", "")
FINAL: dict[str, tuple[Reply, Outcome]] = {
    "right": (Reply(TEXT), RIGHT),
    "right and slow": (Reply(TEXT, delay_s=0.3, spread_s=0.4), RIGHT),
    "right without a stream": (Reply(TEXT, stream=False), RIGHT),
    "right with reasoning": (Reply(TEXT, reasoning="Let me think. " * 20), RIGHT),
    "right with wrong usage": (Reply(TEXT, shape="wrong_usage"), RIGHT),
    "right without usage": (Reply(TEXT, shape="no_usage"), RIGHT),
    "right by another model": (Reply(TEXT, model="somebody-else"), RIGHT),
    "prose": (Reply("I would rather not."), ("failed", "no_files")),
    "10 MB": (Reply("word and " * 1_200_000, pieces=30), ("failed", "no_files")),
    "truncated": (Reply(TEXT, finish="length"), ("failed", "truncated")),
    "filtered": (Reply("", finish="content_filter", output_tokens=3), ("failed", "refused")),
    "refused": (Reply("", refusal="I cannot."), ("failed", "refused")),
    "blocked": (error(400, code="content_filter"), ("failed", "refused")),
    "empty with tokens": (Reply("", output_tokens=800), ("failed", "empty_answer")),
    "400": (error(400), ("error", "bad_request")),
    "422": (error(422), ("error", "bad_request")),
    "too long": (error(400, code="context_length_exceeded"), ("error", "context_window")),
    "401": (error(401), ("error", "authentication")),
    "403": (error(403), ("error", "authentication")),
    "404": (error(404), ("error", "unknown_model")),
}
STOPS = {"401", "403", "404"}
STORED = {RIGHT, ("failed", "no_files"), ("failed", "truncated"), ("failed", "empty_answer")}
REVOKED = "the key is revoked"
AUTHENTICATION, DISK_FULL = ("error", "authentication"), ("error", "disk_full")


def reply_of(name: str) -> Reply:
    """One whose dates are those of now."""
    reply = PASSING[name][0] if name in PASSING else FINAL[name][0]
    if name not in DATED:
        return reply
    reset = datetime.now(UTC).isoformat()
    quota = {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": reset}
    return replace(reply, headers={"Retry-After": formatdate(time.time(), usegmt=True), **quota})


@dataclass(frozen=True)
class Key:
    """Of an account at the provider."""

    variable: str
    text: str
    answers: int | None
    """It is revoked after so many right answers; None: never."""


COMMON = Key("LOOPBACK_KEY", KEY, None)


@dataclass(frozen=True)
class Case:
    """One cell: what the provider does to each of its calls."""

    number: int
    protocol: Protocol
    faults: tuple[str, ...]
    final: str
    key: Key = COMMON

    @property
    def prompt(self) -> str:
        return f"Cell {self.number}."

    @property
    def model(self) -> str:
        """A model that is stopped has no other cells; two of each protocol share a key that is revoked."""
        own = f"stopped-{self.number}" if self.final in STOPS else f"shared-{self.number % 3}"
        own = own if self.key is COMMON else f"{self.key.variable.lower()}-{self.number % 2}"
        return f"claude-{own}" if self.protocol == "anthropic" else own

    def served_by(self, provider: Provider) -> Model:
        base = provider.root if self.protocol == "anthropic" else provider.url
        return replace(loopback(self.model, base, self.protocol), key=self.key.variable)

    @property
    def plan(self) -> tuple[str, ...]:
        """What would come of one session in which nothing else happens."""
        whole = (*self.faults, self.final)
        return next(part for end in range(len(whole)) if self.ending(part := whole[: end + 1]) is not None)

    def ending(self, served: Sequence[str]) -> Outcome | None:
        """After these replies, in one session; None: another call would be made."""
        counted = 0
        for number, name in enumerate(served, start=1):
            ending = None
            if name in PASSING:
                cause = PASSING[name][1]
                counted += cause != "rate_limited"
                ending = ("error", cause) if counted == ATTEMPTS else None
            else:
                ending = AUTHENTICATION if name == REVOKED else FINAL[name][1]
            if ending is not None:
                assert number == len(served), f"{self.prompt} was asked again after {ending}: {served}"
                return ending
        return None


Kind = Literal["no byte", "only tiny files", "no room"]


@dataclass(frozen=True)
class Full:
    """The disk, in the middle of a session."""

    after: float
    """As many calls as this share of the cells come before; the next answer that is to be kept finds it full."""
    kind: Kind
    """The child may write nothing, or only files too small for an answer, or its disk has no room."""
    back_s: float
    """From the moment at which that answer meets it; then there is room again."""


@dataclass(frozen=True)
class Mix:
    """All that is drawn."""

    cases: dict[str, Case]
    keys: dict[str, Key]
    """By their texts."""
    full: list[Full]
    """One for each session; after them another session does what is left."""
    jumps: dict[int, float]
    """Where the clock is set at which call, in seconds from the true time."""
    concurrency: int


def draw(seed: int, calls: int) -> Mix:
    """Every fault and every ending at least once, as far as there are calls; the rest at random."""
    dice = random.Random(seed)
    finals = [*FINAL, *(dice.choice([name for name in FINAL if name != "10 MB"]) for _ in range(calls))]
    faults = [*PASSING, *(dice.choice(list(PASSING)) for _ in range(calls * ATTEMPTS * 2))]
    dice.shuffle(first := finals[:calls])
    cases = []
    for number in range(calls):
        protocol: Protocol = dice.choice(["openai", "anthropic"])
        count = dice.choice([0, 0, 1, 1, 2, 3, 4])
        mine, faults = tuple(faults[:count]), faults[count:]
        cases.append(Case(number, protocol, mine, first[number]))
    keys = _revoke(dice, cases)
    kinds: list[Kind] = ["no byte", "only tiny files", "no room"] * max(1, calls // 500)
    dice.shuffle(kinds)
    full = [Full(dice.uniform(0.05, 0.5), kind, dice.uniform(0.0, 2.0)) for kind in kinds[: max(1, calls // 200)]]
    return Mix(
        {case.prompt: case for case in cases},
        {key.text: key for key in (COMMON, *keys)},
        full,
        _jump(dice, calls * (ATTEMPTS + 2)),
        dice.choice([16, 32]) if calls < 500 else 32,
    )


def _revoke(dice: random.Random, cases: list[Case]) -> list[Key]:
    """Give a quarter of the cells to keys that are revoked while some of their cells could still be answered."""
    keys: list[Key] = []
    share = len(cases) // 4
    while share > 0:
        free = [case for case in cases if case.key is COMMON and case.final not in STOPS]
        right = [case for case in free if case.ending(case.plan) == RIGHT]
        right = dice.sample(right, min(len(right), dice.randint(3, max(3, share // 2))))
        others = [case for case in free if case not in right]
        others = dice.sample(others, min(len(others), dice.randint(1, max(1, share // 2))))
        if len(right) < 3:
            break
        name = f"REVOKED_{len(keys)}_KEY"
        key = Key(name, f"sk-{name.lower()}-secret", dice.randint(1, len(right) - 1))
        for case in (*right, *others):
            cases[case.number] = replace(case, key=key)
        keys.append(key)
        share -= len(right) + len(others)
    return keys


def _jump(dice: random.Random, calls: int) -> dict[int, float]:
    """By an hour at least, to and fro."""
    jumps, at, where = {}, 0, 0
    while at < calls:
        at += dice.randint(1, 12)
        where = dice.choice([hours for hours in (-72, -26, -5, -1, 0, 1, 2, 9, 72) if hours != where])
        jumps[at] = where * HOUR_S
    return jumps
