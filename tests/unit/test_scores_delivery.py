"""What becomes of a result when the backend answers and fails, and how answers are told from silence."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_convex_evals.scores.client import Backend, Broken, Refusal, Unreachable
from pytest_convex_evals.scores.delivery import Delivery
from tests.scores.support.journals import MadeRun


class Failing(Backend):
    """Takes everything but results, at which it fails in one way or in others."""

    def __init__(self, words: Callable[[int], str]) -> None:
        super().__init__("http://127.0.0.1:9")
        self.words, self.tries = words, 0

    def mutation(self, name: str, /, **args: Any) -> Any:
        if name == "admin:finishEval":
            self.tries += 1
            raise Broken(self.words(self.tries))
        return {"stored": True}


@pytest.mark.parametrize(("words", "tries"), [(lambda _: "it failed", 3), (lambda number: f"it failed {number}", 10)])
def test_a_result_at_which_the_backend_fails_is_given_up(tmp_path: Path, monkeypatch, words, tries) -> None:
    monkeypatch.setattr("pytest_convex_evals.scores.delivery._PAUSE_S", 0.0)
    made = MadeRun(tmp_path, "abcd1234-1", evals=1).whole()
    backend = Failing(words)
    delivery = Delivery(made.folder, backend, live=False)
    delivery.read()
    while delivery.step() or delivery.rest_s:
        assert backend.tries <= tries
    delivery.close()
    progress = delivery.progress
    assert (backend.tries, progress.refused, progress.broken, progress.waiting) == (tries, 1, True, 0)
    assert made.log()[-1]["did"] == "whole"


@pytest.fixture
def answering() -> Iterator[Callable[[int, bytes], str]]:
    """A server with one answer; its address."""
    told: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(told["code"])
            self.send_header("Content-Length", str(len(told["body"])))
            self.end_headers()
            self.wfile.write(told["body"])

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def answers(code: int, body: bytes) -> str:
        told.update(code=code, body=body)
        return f"http://127.0.0.1:{server.server_port}"

    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


FAILED = b'{"status": "error", "errorMessage": "[Request ID: ab12] Server Error"}'
REFUSED = b'{"status": "error", "errorMessage": "x", "errorData": {"code": "invalid", "message": "no"}}'


@pytest.mark.parametrize(
    ("code", "body", "kind", "words"),
    [
        (200, FAILED, Broken, "^Server Error$"),
        (560, FAILED, Broken, "^Server Error$"),
        (560, REFUSED, Refusal, "^no$"),
        (503, b"busy", Unreachable, "HTTP 503"),
        (200, b"a page of a proxy", Unreachable, "Expecting value"),
        (401, b"", Refusal, "the key is not one of this deployment"),
    ],
)
def test_an_answer_is_told_from_none_by_its_form(answering, code, body, kind, words) -> None:
    with pytest.raises(kind, match=words):
        Backend(answering(code, body), admin_key="k").internal("auth:listTokens")


@pytest.mark.parametrize(("code", "kind"), [(413, Broken), (400, Broken), (429, Unreachable), (503, Unreachable)])
def test_a_file_that_is_not_taken_is_told_from_a_server_that_is_busy(answering, code, kind) -> None:
    backend = Backend("http://127.0.0.1:9")
    with pytest.raises(kind, match=f"HTTP {code}"):
        backend.upload(answering(code, b""), b"{}")
    assert backend.upload(answering(200, b'{"storageId": "s"}'), b"{}") == "s"
