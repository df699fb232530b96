"""What streams say about themselves, in the four protocols, and plain replies as streams."""

import json

import pytest

from pytest_convex_evals.generation.protocols import Facts, as_stream
from tests.faults.provider import AnthropicWords, Ask, OpenAIWords, Reply


def stream(*values: object) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


RESPONSE = {
    "object": "response",
    "id": "r",
    "model": "gpt-9",
    "tools": [{"type": "web_search"}],
    "output": [
        {"type": "web_search_call", "id": "w1"},
        {"type": "web_search_call", "id": "w2"},
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "hello"}]},
    ],
    "usage": {"input_tokens": 5, "output_tokens": 7},
}
GOOGLE = {
    "candidates": [
        {
            "content": {"parts": [{"text": "thinking", "thought": True}, {"text": "hello"}]},
            "finishReason": "STOP",
            "groundingMetadata": {"webSearchQueries": ["a", "b", "c"]},
        }
    ],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7},
    "modelVersion": "gemini-9",
}
CHAT = {
    "id": "c",
    "model": "gpt-9",
    "provider": "Somewhere",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "cost": 0.25},
}
MESSAGE = {
    "type": "message",
    "model": "claude-9",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 7, "server_tool_use": {"web_search_requests": 4}},
}


@pytest.mark.parametrize(
    ("body", "model", "searches"),
    [(CHAT, "gpt-9", None), (MESSAGE, "claude-9", 4), (GOOGLE, "gemini-9", 3), (RESPONSE, "gpt-9", 2)],
    ids=["chat", "messages", "google", "responses"],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_plain_reply_becomes_a_stream_that_says_the_same(body, model, searches, size):
    data = as_stream(body)
    assert data is not None
    facts = Facts()
    for start in range(0, len(data), size):
        facts.feed(data[start : start + size])
    assert (facts.recognised, facts.finished, facts.garbled, facts.error) == (True, True, False, None)
    assert ("".join(facts.text), facts.model, facts.searches) == ("hello", model, searches)
    assert facts.usage is not None


def test_an_aggregator_says_who_served_and_what_it_cost():
    facts = Facts()
    facts.feed(as_stream(CHAT) or b"")
    assert (facts.provider, (facts.usage or {})["cost"]) == ("Somewhere", 0.25)


@pytest.mark.parametrize("words", [OpenAIWords, AnthropicWords])
def test_a_stream_without_its_end_is_not_finished(words):
    ask = Ask("openai", {"model": "m", "messages": []}, "", 1)
    speaker = words(ask, Reply("hello world"))
    facts = Facts()
    for event in [*speaker.begin(), *speaker.deltas()]:
        facts.feed(event)
    assert (facts.recognised, facts.finished, "".join(facts.text)) == (True, False, "hello world")
    for event in speaker.end():
        facts.feed(event)
    assert facts.finished


@pytest.mark.parametrize(
    "body",
    [{}, {"choices": []}, {"object": "response"}, {"type": "message"}, {"candidates": []}, {"detail": "no"}],
)
def test_a_reply_without_an_answer_is_none(body):
    assert as_stream(body) is None


def test_an_event_that_is_not_json_is_noticed():
    facts = Facts()
    facts.feed(stream({"choices": [{"delta": {"content": "a"}}]}) + b'data: {"choi\n\n')
    assert (facts.garbled, facts.finished) == (True, False)


def test_comments_and_other_lines_say_nothing():
    facts = Facts()
    facts.feed(b": OPENROUTER PROCESSING\n\nevent: ping\r\nid: 3\r\n\r\n" + b"data: [DONE]\n\n")
    assert (facts.recognised, facts.finished, facts.garbled) == (False, False, False)


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "no", "code": 529}},
        {"type": "error", "error": {"message": "no", "type": "overloaded_error"}},
        {"type": "response.failed", "response": {"error": {"message": "no", "code": "server_error"}}},
        {"error": "no"},
    ],
)
def test_an_error_inside_is_found(value):
    facts = Facts()
    facts.feed(stream(value))
    assert facts.error is not None
    assert facts.error["message"] == "no"


def test_nonsense_of_every_kind_is_survived():
    for value in (None, 3, [], {"choices": 3}, {"choices": [None, 3, {"delta": 3}]}, {"candidates": [3]}, {"usage": 3}):
        Facts().feed(stream(value))
