"""The generation child against a provider that answers without streams: real litellm, real HTTP, one child for all."""

import json

import pytest

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.generation.answers import child_lives
from pytest_convex_evals.prompts import Prompt
from tests.support.generation import KEY, Child, loopback
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.suites import RIGHT, answer_text
from tests.support.tiny_engine import closed_port


def told(status: int, message: str = "said", code: str | None = None) -> Reply:
    return Reply(status=status, error={"message": message, "type": "t", "code": code})


def raw(value: object) -> Reply:
    return Reply(raw=json.dumps(value).encode())


def chat(**message: object) -> dict[str, object]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


ERRORS = {
    "400": (told(400), "bad_request"),
    "401": (told(401, f"wrong key {KEY}"), "authentication"),
    "401-typed": (Reply(status=401, error={"message": "x", "type": "invalid_request_error"}), "authentication"),
    "402": (told(402), "authentication"),
    "403": (told(403), "authentication"),
    "404": (told(404), "unknown_model"),
    "408": (told(408), "provider_timeout"),
    "422": (told(422), "bad_request"),
    "500": (told(500), "provider_unavailable"),
    "502": (told(502), "provider_unavailable"),
    "503": (told(503), "provider_unavailable"),
    "504": (told(504), "provider_timeout"),
    "529": (told(529), "provider_unavailable"),
    "words": (told(400, "rate limit exceeded, error 429"), "bad_request"),
    "too-long": (
        told(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        "context_window",
    ),
    "cut-off": (Reply(text="x" * 5_000, cut_off=True), "provider_connection"),
    "html": (Reply(raw=b"<html>Bad gateway</html>", headers={"Content-Type": "text/html"}), "provider_reply"),
    "html-502": (
        Reply(status=502, raw=b"<html></html>", headers={"Content-Type": "text/html"}),
        "provider_unavailable",
    ),
    "nothing": (Reply(raw=b""), "provider_reply"),
    "null": (raw(None), "provider_reply"),
    "empty-choices": (raw(chat() | {"choices": []}), "provider_reply"),
    "no-choices": (raw({}), "provider_reply"),
    "error-in-200": (raw({"error": {"message": "overloaded", "code": 529}}), "provider_unavailable"),
    "zero": (Reply(text="", output_tokens=0), "zero_tokens"),
    "zero-null": (Reply(text=None, output_tokens=0), "zero_tokens"),
}
RETRIED = {"provider_timeout", "provider_unavailable", "provider_connection", "provider_reply", "zero_tokens"}
FAILURES = {
    "refusal": (Reply(text=None, refusal="I cannot."), "refused"),
    "filter": (Reply(text="", finish_reason="content_filter"), "refused"),
    "policy": (told(400, "rejected", "content_policy_violation"), "refused"),
    "length": (Reply(text=answer_text(), finish_reason="length"), "truncated"),
    "silence": (Reply(text=None, output_tokens=500), "empty_answer"),
    "prose": (Reply(text="I would rather not."), "no_files"),
}
REPLIES = {name: reply for name, (reply, _) in (ERRORS | FAILURES).items()} | {
    "right": Reply(text=answer_text()),
    "told": Reply(text=answer_text()),
    "half": raw(chat(content=answer_text({"a.ts": "x\ud83d"}))),
}


class Desk(Child):
    """Every model is named after the reply it gets."""

    url = ""

    def get(self, name: str, *, repeat: int = 1, base: str = "", label: str = ""):
        return self.submission(self.ask(loopback(name, base or self.url), "Do it.", repeat=repeat, label=label))


@pytest.fixture(scope="module")
def server():
    with OpenAIServer(lambda request: REPLIES[request["model"]]) as server:
        yield server


@pytest.fixture(scope="module")
def desk(server, tmp_path_factory):
    with Desk(tmp_path_factory.mktemp("child")) as desk:
        desk.url = server.url
        yield desk
    assert not child_lives(desk.places.lock)


def asked(server: OpenAIServer, name: str) -> int:
    return sum(request["model"] == name for request in server.requests)


@pytest.mark.parametrize(("name", "cause"), [(name, cause) for name, (_, cause) in ERRORS.items()])
def test_trouble_of_the_provider_is_an_error_with_its_cause_after_the_attempts_that_help(name, cause, desk, server):
    with pytest.raises(Trouble) as caught:
        desk.get(name)
    assert caught.value.cause == cause
    assert caught.value.remedy
    assert KEY not in caught.value.reason
    assert asked(server, name) == (2 if cause in RETRIED else 1)


def test_a_provider_that_is_not_there_is_a_connection_error(desk):
    with pytest.raises(Trouble) as caught:
        desk.get("nobody", base=f"http://127.0.0.1:{closed_port()}/v1")
    assert caught.value.cause == "provider_connection"


@pytest.mark.parametrize(("name", "cause"), [(name, cause) for name, (_, cause) in FAILURES.items()])
def test_what_the_model_is_to_blame_for_is_its_failure(name, cause, desk):
    submission = desk.get(name)
    assert submission.failure.cause == cause
    assert submission.files == {}
    assert submission.generation.litellm_id == f"openai/{name}"


def test_a_right_answer_is_parsed_stored_and_bought_once(desk, server):
    first = desk.get("right")
    assert (first.files, first.failure) == (RIGHT, None)
    record = first.generation
    assert (record.input_tokens, record.output_tokens, record.finish_reason) == (1200, 340, "stop")
    assert (record.cost_usd, record.reused, record.attempts) == (None, False, ())
    again = desk.get("right", label="again")
    assert (again.files, again.generation.reused) == (RIGHT, True)
    assert asked(server, "right") == 1
    desk.get("right", repeat=2)
    assert asked(server, "right") == 2
    stored = json.loads((desk.places.generations / f"{record.key}.json").read_text(encoding="utf-8"))
    assert (stored["text"], stored["files"], stored["format"]) == (answer_text(), RIGHT, 2)
    assert KEY not in json.dumps(stored)


def test_half_a_character_does_not_take_the_child_down(desk):
    assert desk.get("half").files == {"a.ts": "x?\n"}
    assert child_lives(desk.places.lock)


@pytest.mark.parametrize("name", ["refusal", "filter", "policy"])
def test_refused_answers_are_not_reused(name, desk, server):
    before = asked(server, name)
    desk.get(name, label=f"{name}-again")
    assert asked(server, name) == before + 1


def test_the_same_prompt_and_the_key_were_sent(desk, server):
    desk.get("prose", label="prose-sent")
    sent = next(request for request in server.requests if request["model"] == "prose")
    assert sent["messages"] == Prompt("Be brief.", "Do it.").messages()
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert asked(server, "prose") == 1


def test_every_answer_is_told_once_with_what_it_took(desk):
    paths = [desk.ask(loopback("told", desk.url), "Do it.", label=label) for label in ("told", "told-again")]
    first, second = (desk.wait("answered", ticket=str(path))[0] for path in paths)
    assert {first.outcome, second.outcome} <= {"stored", "reused"}
    assert (first.model, first.cause, first.input_tokens, first.output_tokens) == ("told", None, 1200, 340)
    assert desk.told("preflight", model="told", ok=True)
    assert desk.told("call_started", ticket=str(paths[0]))[0].provider == "Loopback"
    tickets = [event.ticket for event in desk.told("answered")]
    assert len(tickets) == len(set(tickets))
