"""A loopback server that speaks the OpenAI chat protocol without streams and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pytest_convex_evals.prompts import PREFLIGHT


@dataclass
class Reply:
    """What the provider says to one call."""

    text: str | None = ""
    finish_reason: str = "stop"
    input_tokens: int = 1200
    output_tokens: int = 340
    status: int = 200
    error: dict[str, Any] | None = None
    refusal: str | None = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    cut_off: bool = False
    """The connection is closed in the middle of the body."""

    def body(self, model: str) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.error is not None:
            return json.dumps({"error": self.error}).encode()
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        usage = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }
        choices = [{"index": 0, "message": message, "finish_reason": self.finish_reason}]
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
        return json.dumps(reply | {"choices": choices, "usage": usage}).encode()


class OpenAIServer:
    """Answers each request with what `answer` returns for it, and remembers all requests."""

    def __init__(self, answer: Callable[[dict[str, Any]], Reply]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.preflights: list[dict[str, Any]] = []
        """The first, cheap call of each model; not among the requests."""
        self.preflight = Reply("ready", output_tokens=2)
        self.keys: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                request = json.loads(self.rfile.read(length))
                outer.keys.append(self.headers.get("Authorization"))
                if request["messages"][-1]["content"] == PREFLIGHT:
                    outer.preflights.append(request)
                    reply = outer.preflight
                else:
                    outer.requests.append(request)
                    reply = answer(request)
                if reply.before:
                    reply.before()
                body = reply.body(request.get("model", ""))
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
                for name, value in (headers | reply.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if reply.cut_off else body)
                self.close_connection = self.close_connection or reply.cut_off

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> OpenAIServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
