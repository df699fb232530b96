"""Every fault of a provider at random, seeded: real child, real litellm, real HTTP; each outcome is the expected one.

`make faults` makes 1,000 calls; FAULT_CALLS and FAULT_SEED choose others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from tests.faults.provider import Ask, Provider, Reply
from tests.support.generation import KEY, Child, loopback
from tests.support.suites import RIGHT, answer_text

CALLS = int(os.environ.get("FAULT_CALLS", "60"))
SEED = int(os.environ.get("FAULT_SEED", "20261118"))
ATTEMPTS = 3
PATIENCE = {"first_token_s": 2.5, "idle_s": 1.5, "total_s": 900.0, "attempts": ATTEMPTS, "longest_pause_s": 0.1}
TEXT = answer_text()
Protocol = Literal["openai", "anthropic"]


def error(status: int, **more: object) -> Reply:
    return Reply(status=status, error={"message": "said", "type": "t", **more})


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
}
"""Faults that are worth another attempt."""
FINAL: dict[str, tuple[Reply, tuple[str, str]]] = {
    "right": (Reply(TEXT), ("answer", "")),
    "right and slow": (Reply(TEXT, delay_s=0.3, spread_s=0.4), ("answer", "")),
    "right without a stream": (Reply(TEXT, stream=False), ("answer", "")),
    "right with reasoning": (Reply(TEXT, reasoning="Let me think. " * 20), ("answer", "")),
    "right with wrong usage": (Reply(TEXT, shape="wrong_usage"), ("answer", "")),
    "right without usage": (Reply(TEXT, shape="no_usage"), ("answer", "")),
    "right by another model": (Reply(TEXT, model="somebody-else"), ("answer", "")),
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
STORED = {("answer", ""), ("failed", "no_files"), ("failed", "truncated"), ("failed", "empty_answer")}


@dataclass(frozen=True)
class Case:
    """One cell: what the provider does to each of its calls."""

    number: int
    protocol: Protocol
    faults: tuple[str, ...]
    final: str

    @property
    def prompt(self) -> str:
        return f"Cell {self.number}."

    @property
    def model(self) -> str:
        """A model that is stopped has no other cells."""
        own = f"stopped-{self.number}" if self.final in STOPS else f"shared-{self.number % 3}"
        return f"claude-{own}" if self.protocol == "anthropic" else own

    def reply(self, number: int) -> Reply:
        return PASSING[self.faults[number - 1]][0] if number <= len(self.faults) else FINAL[self.final][0]

    def expected(self) -> tuple[tuple[str, str], int]:
        """The outcome, and after how many calls."""
        counted = 0
        for number, fault in enumerate(self.faults, start=1):
            cause = PASSING[fault][1]
            counted += cause != "rate_limited"
            if counted == ATTEMPTS:
                return ("error", cause), number
        return FINAL[self.final][1], len(self.faults) + 1


def draw(seed: int, calls: int) -> list[Case]:
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
    return cases


def test_every_outcome_is_the_expected_one_and_nothing_is_bought_twice(tmp_path, capsys):
    cases = {case.prompt: case for case in draw(SEED, CALLS)}

    def answer(ask: Ask) -> Reply:
        return cases[ask.prompt].reply(ask.number)

    with Provider(answer) as provider:
        bases = {"openai": provider.url, "anthropic": provider.root}
        models = {case.prompt: loopback(case.model, bases[case.protocol], case.protocol) for case in cases.values()}
        with Child(tmp_path, concurrency=32, patience=PATIENCE) as child:
            paths = {prompt: child.ask(models[prompt], prompt, label=prompt) for prompt in cases}
            found = {prompt: child.outcome(path) for prompt, path in paths.items()}
            told = Counter(event.ticket for event in child.wait("answered", len(cases)))
        assert found == {prompt: case.expected()[0] for prompt, case in cases.items()}
        calls = Counter(ask.prompt for ask in provider.asks)
        assert calls == {prompt: case.expected()[1] for prompt, case in cases.items()}
        assert told == {str(path): 1 for path in paths.values()}
        assert {ask.key for ask in [*provider.asks, *provider.preflights]} == {KEY}
        stored = {prompt for prompt, outcome in found.items() if outcome in STORED}
        assert len(list(child.places.generations.glob("*.json"))) == len(stored)
        _check_records(child, cases, paths, stored)
        # What was stored is not bought again.
        bought = len(provider.asks)
        with Child(tmp_path, concurrency=32, patience=PATIENCE) as again:
            more = {prompt: again.ask(models[prompt], prompt, label=f"{prompt} again") for prompt in stored}
            assert {prompt: again.outcome(path) for prompt, path in more.items()} == {
                prompt: found[prompt] for prompt in stored
            }
        assert len(provider.asks) == bought
        assert not again.told("preflight")
    outcomes = Counter(" ".join(filter(None, outcome)) for outcome in found.values())
    with capsys.disabled():
        shown = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        print(f"\n{CALLS} cells, {bought} calls (seed {SEED}): {shown}")


def _check_records(child: Child, cases: dict[str, Case], paths: dict[str, object], stored: set[str]) -> None:
    for prompt in stored:
        case, submission = cases[prompt], child.submission(paths[prompt])  # type: ignore[arg-type]
        record, reply = submission.generation, FINAL[case.final][0]
        assert record is not None
        unknown = reply.shape in {"wrong_usage", "no_usage"}
        assert record.output_tokens == (None if unknown else reply.output_tokens)
        assert record.input_tokens == (None if unknown else 1200)
        assert [attempt.cause for attempt in record.attempts] == [PASSING[fault][1] for fault in case.faults]
        assert record.answered_by == (reply.model or case.model)
        assert record.cost_usd is None
        assert (record.first_token_s is not None) == bool(reply.text or (reply.reasoning and case.protocol == "openai"))
        assert submission.answer_text == reply.text
        if FINAL[case.final][1] == ("answer", ""):
            assert submission.files == RIGHT
