"""Models over a provider on the loopback: real litellm, real HTTP."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.openai_server import OpenAIServer, Reply
from tests.support.sessions import PROPERTIES, Project
from tests.support.suites import NO_ANSWER, RIGHT, answer_text

FILTERED = {"message": "blocked", "code": "content_policy_violation", "type": "invalid_request_error"}
REPLIES = {
    "right": Reply(answer_text()),
    "halved": Reply(f"Half of an emoji: \ud83d.\n\n{answer_text()}"),
    "mistaken": Reply(answer_text(RIGHT | NO_ANSWER)),
    "wordy": Reply("There is no code here, only words."),
    "outside": Reply(answer_text({"../escape.ts": "1"})),
    "cut": Reply(answer_text(), finish_reason="length", output_tokens=64000),
    "silent": Reply("", output_tokens=500),
    "idle": Reply("", output_tokens=0),
    "refusing": Reply(None, refusal="I would rather not."),
    "filtered": Reply("", finish_reason="content_filter", output_tokens=3),
    "blocked": Reply(status=400, error=FILTERED),
    "throttled": Reply(status=429, error={"message": "later"}, headers={"Retry-After": "1"}),
    "down": Reply(status=500, error={"message": "oh", "type": "server_error"}),
    "odd": Reply(status=400, error={"message": "what is this", "type": "invalid_request_error"}),
    "garbled": Reply(raw=b"this is not JSON"),
}
VERDICTS = {
    "right": ("passed", ""),
    "halved": ("passed", ""),
    "mistaken": ("failed", "checks"),
    "wordy": ("failed", "no_files"),
    "outside": ("failed", "path"),
    "cut": ("failed", "truncated"),
    "silent": ("failed", "empty_answer"),
    "idle": ("error", "zero_tokens"),
    "refusing": ("failed", "refused"),
    "filtered": ("failed", "refused"),
    "blocked": ("failed", "refused"),
    "throttled": ("error", "rate_limited"),
    "down": ("error", "provider_unavailable"),
    "odd": ("error", "bad_request"),
    "garbled": ("error", "provider_reply"),
}


def name_in(request: dict[str, Any]) -> str:
    """Which eval a request is about."""
    found = re.search(r"for 000-m/(\w+)\.", request["messages"][-1]["content"])
    assert found is not None
    return found[1]


@pytest.fixture
def provider(project: Project) -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda request: REPLIES[name_in(request)]) as server:
        project.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-test")
        yield server


ONE_ATTEMPT = '{"attempts": 1, "total_s": 12, "pause_s": 4, "longest_pause_s": 4}'
"""Only refusals for too many calls are tried again, for some seconds."""


def test_each_reply_gets_the_verdict_it_deserves_after_one_call(project: Project, provider: OpenAIServer) -> None:
    for name in REPLIES:
        project.suite.add(f"000-m/{name}")
    project.env(EVALS_INTERNAL_PATIENCE=ONE_ATTEMPT)
    done = project.apart("evals", "--models", "gpt-5", "-n", "2")
    assert done.code == 1, done.output
    found = {record.name: (record.verdict.outcome, done.causes[name]) for name, record in done.records.items()}
    assert found == VERDICTS
    calls = Counter(map(name_in, provider.requests))
    assert calls.pop("throttled") > 1
    assert calls == dict.fromkeys(REPLIES.keys() - {"throttled"}, 1)
    assert len(provider.preflights) == 1
    assert set(provider.keys) == {"Bearer sk-test"}
    for case in done.cases:
        assert list(case.properties) == PROPERTIES
        name = case.properties["eval"].removeprefix("000-m/")
        assert (case.properties["outcome"], case.properties["cause"]) == VERDICTS[name]
        assert case.kind == {"passed": "passed", "failed": "failure", "error": "error"}[VERDICTS[name][0]]
    mistaken = done.records["mistaken[gpt-5]"]
    assert [(step.name, step.verdict.outcome) for step in mistaken.steps] == [
        ("filesystem", "passed"),
        ("tests", "failed"),
    ]
    assert [(check.name, check.verdict.outcome) for check in mistaken.checks] == [
        ("test_answers_the_question", "failed"),
        ("test_exports_the_answer", "passed"),
    ]
    (run,) = done.runs
    kept = run / "cells/000-m/wordy/gpt-5/1/1/answer.md"
    assert kept.read_text(encoding="utf-8") == REPLIES["wordy"].text
    # Only answers that can be graded again are kept.
    stored = {path.stem for path in (done.store / "generations").glob("*.json")}
    gradable = ["right", "halved", "mistaken", "wordy", "outside", "cut", "silent"]
    assert stored == {done.records[f"{name}[gpt-5]"].generation.key for name in gradable}  # type: ignore[union-attr]
    assert re.search(
        r"calls of models: 15\n  gpt-5: 15 calls, about [\d,]+ tokens in and 120,000 out, about", done.output
    )
    assert f"answers of models: {len(REPLIES)} of {len(REPLIES)}" in done.output


STOPPED = {
    "locked": (Reply(status=401, error={"message": "who are you", "type": "x"}), "authentication"),
    "absent": (Reply(status=404, error={"message": "no such model", "code": "model_not_found"}), "unknown_model"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_model_that_cannot_be_called_ends_all_its_cells_after_one_call(project: Project, name: str) -> None:
    reply, cause = STOPPED[name]
    for number in range(3):
        project.suite.add(f"000-m/{name}{number}")
    with OpenAIServer(lambda _: reply) as server:
        server.preflight = reply
        project.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-test")
        done = project.here("evals", "--models", "gpt-5")
        assert (len(server.preflights), server.requests) == (1, [])
    assert set(done.causes.values()) == {cause}
    assert len(done.causes) == 3


def test_a_budget_ends_cells_that_no_longer_fit(project: Project, provider: OpenAIServer) -> None:
    project.suite.add("000-m/right")
    project.suite.add("000-m/mistaken")
    done = project.here("evals", "--models", "gpt-5", "--evals-budget", "0.01")
    assert done.causes == {"right[gpt-5]": "budget", "mistaken[gpt-5]": "budget"}
    assert "within a budget of 0.01 USD" in done.output
    assert provider.preflights == provider.requests == []
    refused = project.here("evals", "--models", "openai/nobody-knows", "--evals-budget", "1")
    assert refused.code == 4
    assert "a budget cannot be kept: the price of openai/nobody-knows is not known" in refused.output


MODELS = """\
[models."mine"]
display = "Mine"
provider = "me"
litellm = "openai/unpriced"
key = "MY_API_KEY"
max_output_tokens = 77
api_base = "{here}"

[models."gone"]
provider = "nobody"
litellm = "openai/unpriced"
api_base = "{nowhere}"
"""


def test_models_of_the_project_are_called_where_it_says(project: Project, provider: OpenAIServer) -> None:
    project.suite.add("000-m/right")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        registry = MODELS.format(here=provider.url, nowhere=nowhere)
        (project.root / "models.toml").write_text(registry, encoding="utf-8")
        project.env(MY_API_KEY="sk-mine", OPENAI_BASE_URL=nowhere)
        project.env(EVALS_INTERNAL_PATIENCE='{"attempts": 2, "pause_s": 0.01}')
        done = project.here("evals", "--models", "mine,gone")
    assert done.causes == {"right[mine]": "", "right[gone]": "provider_connection"}
    assert set(provider.keys) == {"Bearer sk-mine"}
    assert (provider.requests[0]["model"], provider.requests[0]["max_tokens"]) == ("unpriced", 77)
    gone, mine = done.cases
    assert (gone.kind, gone.properties["cause"]) == ("error", "provider_connection")
    assert mine.properties["cost_usd"] == "unknown"
    assert (mine.properties["input_tokens"], mine.properties["output_tokens"]) == ("1200", "340")
    assert re.fullmatch(r"\d+(\.\d+)?", mine.properties["generation_s"])
    assert re.fullmatch(r"\d+\.\d{3}", mine.properties["grading_s"])
    generation = done.records["right[mine]"].generation
    assert generation is not None
    assert (generation.cost_usd, generation.litellm_id, generation.reused) == (None, "openai/unpriced", False)


def test_repeats_are_separate_calls_that_are_not_bought_again(project: Project, provider: OpenAIServer) -> None:
    project.suite.add("000-m/right")
    project.suite.add("000-m/mistaken")
    flags = ("evals", "--models", "gpt-5,openai/gpt-4.1", "--evals-repeats", "2")
    first = project.here(*flags)
    assert len(provider.requests) == 8
    assert first.outcomes == {
        f"{name}[{model}{repeat}]": outcome
        for name, outcome in (("right", "passed"), ("mistaken", "failed"))
        for model in ("gpt-5", "openai/gpt-4.1")
        for repeat in ("", "+2")
    }
    # One prompt for all models and repeats.
    for name in ("right", "mistaken"):
        assert len({str(request["messages"]) for request in provider.requests if name_in(request) == name}) == 1
    assert "<guidelines>\n# Convex rules" in provider.requests[0]["messages"][1]["content"]
    costs = {case.name: case.properties["cost_usd"] for case in first.cases}
    assert costs["right[gpt-5]"] == "0.0049"
    again = project.here(*flags)
    assert len(provider.requests) == 8
    assert again.code == 1
    assert "8 answers came from the generation store and were not paid again" in again.output
    newest = max(again.runs, key=lambda run: run.stat().st_mtime_ns)
    assert newest != first.runs[0]
    # Wherever the root of the session lies, inside the suite or beside it, the cells are the same.
    (project.root / "beside").mkdir()
    project.monkeypatch.chdir(project.root / "evals/000-m/right")
    for root in (".", "../../../beside"):
        done = project.here("TASK.txt", "--models", "gpt-5", f"--rootdir={root}", f"--evals-dir={project.store}")
        assert done.code == 0, done.output
        assert "1 answers came from the generation store and were not paid again" in done.output
    assert len(provider.requests) == 8
    assert [record.generation.reused for record in first.records.values() if record.generation] == [False] * 8


def test_guidelines_are_in_the_prompt_as_the_experiment_says(project: Project, provider: OpenAIServer) -> None:
    project.suite.add("000-m/right")
    custom = project.root / "own rules.md"
    custom.write_text("Always answer 42.\n", encoding="utf-8")
    experiments = {
        "no_guidelines": ("--evals-experiment", "no_guidelines"),
        "custom-own-rules": ("--evals-guidelines", str(custom)),
        "strict": ("--evals-guidelines", str(custom), "--evals-experiment", "strict"),
    }
    prompts = {}
    for experiment, flags in experiments.items():
        before = len(provider.requests)
        done = project.here("evals", "--models", "gpt-5", *flags)
        assert [case.properties["experiment"] for case in done.cases] == [experiment]
        if len(provider.requests) > before:
            prompts[experiment] = provider.requests[-1]["messages"]
    # The same guidelines under another name are the same prompt: the answer is there already.
    assert list(prompts) == ["no_guidelines", "custom-own-rules"]
    users = {experiment: messages[1]["content"] for experiment, messages in prompts.items()}
    assert "uideline" not in users["no_guidelines"]
    assert "<guidelines>\nAlways answer 42.\n</guidelines>" in users["custom-own-rules"]
    assert all(text.count("Compute the answer, for 000-m/right.") == 1 for text in users.values())
    assert len({messages[0]["content"] for messages in prompts.values()}) == 1
