"""A loopback HTTP server that graders program: it answers rightly, wrongly, slowly or not at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_MAX_BODY = 16 * 2**20
_MAX_KEPT = 64 * 2**20
_MAX_REQUESTS = 10_000
_MAX_CONNECTIONS = 256
_IDLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a submission asked for."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]
    delay: float
    hang_up: bool
    meeting: threading.Barrier | None = None
    """Ends the delay as soon as enough requests wait at the same time; None: nothing but time ends it."""


class _Server(ThreadingHTTPServer):
    """Whoever connects was submitted: connections are counted, and what one does wrong is nobody's trouble."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - theirs
        return


@dataclass(slots=True)
class HttpFixture:
    """Programmed by `answer`; everything that arrives is in `requests`, up to a number and a size."""

    requests: list[Request] = field(default_factory=list)
    _answers: dict[tuple[str, str], list[_Answer]] = field(default_factory=dict)
    _server: _Server | None = None
    _thread: threading.Thread | None = None
    _kept: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> HttpFixture:
        """Listen on a free loopback port."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _IDLE_S

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002
                return

        for method in _METHODS:
            setattr(Handler, f"do_{method}", lambda handler: self._serve(handler))
        self._server = _Server(Handler)
        self._thread = threading.Thread(target=self._listen, args=(self._server,), name="http-fixture", daemon=True)
        self._thread.start()
        return self

    def _listen(self, server: _Server) -> None:
        while not self._ended.is_set():
            server.handle_request()

    @property
    def url(self) -> str:
        """Origin of the server, without a slash at the end."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(
        self,
        path: str,
        *,
        method: str = "GET",
        status: int = 200,
        body: str | bytes = b"",
        json_body: Any = None,
        headers: Mapping[str, str] | None = None,
        delay: float = 0.0,
        together: int = 1,
        hang_up: bool = False,
    ) -> None:
        """Answer requests for a path; several answers are given in turn, the last one for ever.

        A `delay` ends early as soon as so many requests wait `together`: what happens at the same time is then certain
        to, and costs no time.
        """
        data = body.encode() if isinstance(body, str) else body
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        if json_body is not None:
            data, kind = json.dumps(json_body).encode(), {"Content-Type": "application/json"}
        meeting = threading.Barrier(together) if together > 1 else None
        prepared = _Answer(status, data, {**kind, **(headers or {})}, delay, hang_up, meeting)
        with self._lock:
            self._answers.setdefault((method.upper(), path), []).append(prepared)

    def forget(self) -> None:
        """Drop all answers and requests."""
        with self._lock:
            self._answers.clear()
            self.requests.clear()
            self._kept = 0

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        length = handler.headers.get("Content-Length") or "0"
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            handler.send_error(400)
            return
        body = handler.rfile.read(min(int(length), _MAX_BODY))
        parts = urlsplit(handler.path)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
        with self._lock:
            self._kept += len(body)
            full = len(self.requests) >= _MAX_REQUESTS or self._kept > _MAX_KEPT
            if not full:
                self.requests.append(request)
            prepared = self._answers.get((request.method, request.path), [])
            answer = prepared.pop(0) if len(prepared) > 1 else prepared[0] if prepared else None
        if full:
            handler.send_error(503)
            return
        if answer is None:
            answer = _Answer(404, b"the grader has no answer for this path", {"Content-Type": "text/plain"}, 0.0, False)
        if answer.delay:
            self._wait(answer)
        if answer.hang_up:
            return
        try:
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(answer.body)))
            handler.send_header("Connection", "close")
            handler.end_headers()
            if request.method != "HEAD":
                handler.wfile.write(answer.body)
        except OSError:
            return

    def _wait(self, answer: _Answer) -> None:
        if answer.meeting is None:
            self._ended.wait(answer.delay)
            return
        with suppress(threading.BrokenBarrierError):  # whoever waited longest has waited long enough
            answer.meeting.wait(answer.delay)

    def close(self) -> None:
        """Stop; requests that are being delayed end now."""
        self._ended.set()
        with self._lock:
            meetings = [answer.meeting for answers in self._answers.values() for answer in answers]
        for meeting in meetings:
            if meeting is not None:
                meeting.abort()
        if self._server is not None and self._thread is not None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._server.server_address[1]), timeout=1):
                self._thread.join()  # woken by the connection
            self._server.server_close()
            self._server = None
