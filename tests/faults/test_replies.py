"""Replies that are easily misread: real litellm, each protocol, against a provider on the loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pytest_convex_evals.models.prices import Price
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.records import GenerationRecord
from tests.faults.provider import Ask, Protocol, Provider, Reply
from tests.support.generation import Child, loopback
from tests.support.suites import RIGHT, answer_text

TEXT = answer_text()


class Desk:
    """One child and one provider; each question is a cell of its own."""

    def __init__(self, provider: Provider, child: Child) -> None:
        self.provider, self.child = provider, child
        self.replies: dict[str, Callable[[Ask], Reply]] = {}
        self.path = child.folder

    def model(self, protocol: Protocol, **more: object) -> Model:
        base = self.provider.root if protocol == "anthropic" else self.provider.url
        return loopback(f"claude-{protocol}" if protocol == "anthropic" else "gpt-5", base, protocol, **more)

    def ask(self, protocol: Protocol, *replies: Reply, model: Model | None = None) -> tuple[str, str]:
        """The outcome when these are the replies to the attempts, the last one again and again."""
        prompt = f"Question {len(self.replies)}."
        self.replies[prompt] = lambda ask: replies[min(ask.number, len(replies)) - 1]
        self.path = self.child.ask(model or self.model(protocol), prompt, label=prompt)
        return self.child.outcome(self.path)

    @property
    def record(self) -> GenerationRecord:
        """Of the last question."""
        found = self.child.submission(self.path).generation
        assert found is not None
        return found

    @property
    def attempts(self) -> list[str]:
        """Causes of the attempts of the last question that brought nothing, where another one did."""
        return [attempt.cause for attempt in self.record.attempts]

    @property
    def files(self) -> dict[str, str]:
        return dict(self.child.submission(self.path).files)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    def answer(ask: Ask) -> Reply:
        return made.replies[ask.prompt](ask)

    with Provider(answer) as provider, Child(tmp_path_factory.mktemp("replies")) as child:
        made = Desk(provider, child)
        yield made


@pytest.mark.parametrize("stream", [True, False])
def test_the_responses_api_is_spoken(desk, stream):
    assert desk.ask("responses", Reply(TEXT, stream=stream)) == ("answer", "")
    assert desk.files == RIGHT
    assert (desk.record.input_tokens, desk.record.output_tokens) == (1200, 340)
    assert desk.provider.asks[-1].protocol == "responses"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        ({"choice_error": {"code": 502, "message": "upstream is gone"}, "finish": "error"}, "provider_unavailable"),
        ({"choice_error": {"code": 429, "message": "slow"}, "finish": "stop"}, "rate_limited"),
        ({"choice_error": {"message": "who knows"}, "finish": "length"}, "provider_unavailable"),
        ({"finish": "error"}, "provider_unavailable"),
    ],
)
def test_an_error_in_a_choice_is_the_providers_and_the_answer_is_bought_again(desk, reply, cause, stream):
    half = Reply(TEXT[: len(TEXT) // 2], stream=stream, **reply)
    assert desk.ask("openai", half, Reply(TEXT)) == ("answer", "")
    assert (desk.attempts, desk.files) == ([cause], RIGHT)


def text_part(text: str) -> object:
    return [{"type": "text", "text": text}]


def thoughts_and_text(text: str) -> object:
    return [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": text}]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("parts", [text_part, thoughts_and_text])
@pytest.mark.parametrize("server", ["openai", "openrouter"])
def test_text_in_parts_is_text(desk, parts, stream, server):
    model = replace(desk.model("openai"), litellm=f"{server}/parts")
    assert desk.ask("openai", Reply(TEXT, parts=parts, stream=stream), model=model) == ("answer", "")
    assert desk.files == RIGHT
    assert desk.child.submission(desk.path).answer_text == TEXT
    assert desk.record.first_token_s is not None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("content", [[{"type": "blob", "data": "x"}], {"text": "x"}, ["x"]])
def test_content_that_cannot_be_read_is_not_the_models_failure(desk, content, stream):
    strange = Reply(TEXT, parts=lambda _: content, stream=stream)
    assert desk.ask("openai", strange) == ("error", "provider_reply")
    assert desk.ask("openai", strange, Reply(TEXT)) == ("answer", "")
    assert desk.attempts == ["provider_reply"]


@pytest.mark.parametrize("stream", [True, False])
def test_models_of_openai_search_within_responses_and_their_searches_are_counted(desk, stream):
    model = desk.model("responses", web_search=True, reasoning="low")
    for searches in (2, 0):
        reply = Reply(TEXT, searches=searches, stream=stream)
        assert desk.ask("responses", reply, model=model) == ("answer", "")
        assert (desk.record.searches, desk.files) == (searches, RIGHT)
        assert desk.record.sent["tools"] == [{"type": "web_search", "search_context_size": "medium"}]
        assert desk.record.sent["reasoning"]["effort"] == "low"
        assert "web_search_options" not in desk.record.sent


def test_a_model_that_searches_within_a_chat_gets_the_options_as_they_are(desk):
    model = replace(desk.model("openai", web_search=True), litellm="openai/gpt-4o-search-preview")
    assert desk.ask("openai", Reply(TEXT), model=model) == ("answer", "")
    assert desk.record.sent["web_search_options"] == {"search_context_size": "medium"}
    assert desk.record.searches is None


def test_anthropic_gets_a_tool_and_no_options_of_another_protocol(desk):
    model = desk.model("anthropic", web_search=True)
    assert desk.ask("anthropic", Reply(TEXT), model=model) == ("answer", "")
    assert "web_search_options" not in desk.record.sent


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_that_the_provider_paused_is_not_over(desk, stream):
    paused = Reply("Let me search.", finish="pause_turn", stream=stream)
    assert desk.ask("anthropic", paused) == ("error", "provider_unavailable")
    assert desk.ask("anthropic", paused, Reply(TEXT)) == ("answer", "")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("protocol", "finish", "cause"),
    [
        ("anthropic", "model_context_window_exceeded", "truncated"),
        ("anthropic", "length", "truncated"),
        ("responses", "length", "truncated"),
        ("responses", "content_filter", "refused"),
        ("openai", "length", "truncated"),
    ],
)
def test_an_answer_that_a_limit_or_a_filter_ended_is_not_whole(desk, protocol, finish, cause, stream):
    assert desk.ask(protocol, Reply(TEXT, finish=finish, stream=stream)) == ("failed", cause)


def test_an_error_in_a_stream_of_responses_is_the_providers(desk):
    assert desk.ask("responses", Reply(TEXT, shape="error_in_stream"), Reply(TEXT)) == ("answer", "")
    assert desk.attempts == ["provider_unavailable"]


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 900_000_000}, (10, None, None)),
        ({"prompt_tokens": 10, "completion_tokens": 10_001}, (10, 10_001, 10 * 1e-6 + 10_001 * 1e-5)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (None, None, None)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cost": 1e8}, (10, 5, None)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.05}, (10, 5, 0.05)),
    ],
)
def test_usage_that_cannot_be_is_unknown(desk, usage, known):
    limits = {"price": Price(1e-6, 1e-5, "registry"), "output_limit": 10_000, "max_output_tokens": 10_000}
    assert desk.ask("openai", Reply(TEXT, usage=usage), model=desk.model("openai", **limits)) == ("answer", "")
    assert (desk.record.input_tokens, desk.record.output_tokens, desk.record.cost_usd) == known
    assert bool(desk.child.store.get(desk.record.key).notes) == (None in known)


@pytest.mark.parametrize("kind", ["text/html", "text/plain", ""])
@pytest.mark.parametrize("protocol", ["openai", "responses", "anthropic"])
def test_html_is_no_reply_whatever_it_is_said_to_be(desk, protocol, kind):
    assert desk.ask(protocol, Reply(shape="html", kind=kind)) == ("error", "provider_reply")
