"""The generation child against a loopback provider: real litellm, real HTTP, one child for all calls."""

import json
import threading

import pytest

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.generation.answers import Places, child_lives, wait_for_submission
from pytest_convex_evals.generation.client import GenerationClient
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.prompts import Prompt
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.suites import RIGHT, answer_text
from tests.support.tiny_engine import closed_port

KEY = "sk-loopback-secret"
PROMPT = Prompt("Be brief.", "Do it.")


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
    "429": (told(429), "rate_limited"),
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


class Desk:
    """The child, the provider and a way to ask."""

    def __init__(self, folder, url: str) -> None:
        self.folder, self.url = folder, url
        self.places = Places(folder / "generations", folder / "log", folder / "lock")
        self.progress: list[dict] = []
        environment = {"LOOPBACK_KEY": KEY, "NO_PROXY": "127.0.0.1"}
        self.client = GenerationClient(self.places, environment, 4, self.progress.append)

    def submission(self, name: str, *, repeat: int = 1, base: str = "", label: str = ""):
        model = Model(name, name, "Loopback", f"openai/{name}", "LOOPBACK_KEY", api_base=base or self.url)
        answer = self.folder / f"{label or name}-{repeat}.json"
        self.client.ask(answer, model, PROMPT, repeat)
        return wait_for_submission(answer, self.places)


@pytest.fixture(scope="module")
def server():
    with OpenAIServer(lambda request: REPLIES[request["model"]]) as server:
        yield server


@pytest.fixture(scope="module")
def desk(server, tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("child"), server.url)
    yield desk
    desk.client.close()
    assert not child_lives(desk.places.lock)


@pytest.mark.parametrize(("name", "cause"), [(name, cause) for name, (_, cause) in ERRORS.items()])
def test_trouble_of_the_provider_is_an_error_with_its_cause(name, cause, desk):
    with pytest.raises(Trouble) as caught:
        desk.submission(name)
    assert caught.value.cause == cause
    assert caught.value.remedy
    assert KEY not in caught.value.reason


def test_a_provider_that_is_not_there_is_a_connection_error(desk):
    with pytest.raises(Trouble) as caught:
        desk.submission("right", base=f"http://127.0.0.1:{closed_port()}/v1", label="down")
    assert caught.value.cause == "provider_connection"


@pytest.mark.parametrize(("name", "cause"), [(name, cause) for name, (_, cause) in FAILURES.items()])
def test_what_the_model_is_to_blame_for_is_its_failure(name, cause, desk):
    submission = desk.submission(name)
    assert submission.failure.cause == cause
    assert submission.files == {}
    assert submission.generation.litellm_id == f"openai/{name}"


def test_a_right_answer_is_parsed_stored_and_bought_once(desk, server):
    first = desk.submission("right")
    assert (first.files, first.failure) == (RIGHT, None)
    record = first.generation
    assert (record.input_tokens, record.output_tokens, record.finish_reason) == (1200, 340, "stop")
    assert (record.cost_usd, record.reused) == (None, False)
    again = desk.submission("right", label="again")
    assert (again.files, again.generation.reused) == (RIGHT, True)
    assert sum(request["model"] == "right" for request in server.requests) == 1
    desk.submission("right", repeat=2)
    assert sum(request["model"] == "right" for request in server.requests) == 2
    stored = json.loads((desk.places.generations / f"{record.key}.json").read_text(encoding="utf-8"))
    assert stored["text"] == answer_text()
    assert KEY not in json.dumps(stored)


def test_half_a_character_does_not_take_the_child_down(desk):
    assert desk.submission("half").files == {"a.ts": "x?\n"}
    assert child_lives(desk.places.lock)


@pytest.mark.parametrize("name", ["refusal", "filter", "policy"])
def test_refused_answers_are_not_reused(name, desk, server):
    before = sum(request["model"] == name for request in server.requests)
    desk.submission(name, label=f"{name}-again")
    assert sum(request["model"] == name for request in server.requests) == before + 1


def test_the_same_prompt_and_the_key_were_sent_without_retries(desk, server):
    desk.submission("prose", label="prose-sent")
    sent = next(request for request in server.requests if request["model"] == "prose")
    assert sent["messages"] == PROMPT.messages()
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert sum(request["model"] == "prose" for request in server.requests) == 1


def test_progress_is_told_for_every_answer(desk):
    desk.submission("told")
    desk.submission("told", label="told-again")
    desk.submission("prose", label="told-last")  # by now, the child has told about the ones before
    done = [entry for entry in desk.progress if "/told" in entry["done"]][:2]
    assert [(entry["reused"], entry["cause"]) for entry in done] == [(False, None), (True, None)]


def test_a_child_that_dies_while_somebody_waits_is_trouble(tmp_path):
    asked, release = threading.Event(), threading.Event()
    reply = Reply(text=answer_text(), before=lambda: (asked.set(), release.wait(60)))
    with OpenAIServer(lambda _: reply) as server:
        desk = Desk(tmp_path, server.url)
        killer = threading.Thread(target=lambda: (asked.wait(60), desk.client._process.kill()))
        killer.start()
        with pytest.raises(Trouble) as caught:
            desk.submission("slow")
        release.set()
        killer.join()
        desk.client.close()
    assert caught.value.cause == "generation_child"
    assert caught.value.remedy == "run the same command again: answers that were stored are not paid twice"


def test_a_store_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / "generations").write_text("a file where the folder should be")
    with OpenAIServer(lambda _: Reply(text=answer_text())) as server:
        desk = Desk(tmp_path, server.url)
        with pytest.raises(Trouble) as caught:
            desk.submission("right")
        desk.client.close()
        assert server.requests == []
    assert caught.value.cause == "store_unwritable"
