"""A provider on the loopback that can fail in every way: OpenAI's two protocols and Anthropic's, as streams or plain.

It counts what it sold: an answer is sold when its last byte was written. In process: `with Provider(answer) as …`.
As a program: `python -m tests.faults.provider --answers FILE` prints `{"url": …}` and tells at `GET /sold` what was
sold.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from pytest_convex_evals.prompts import PREFLIGHT

Shape = Literal[
    "whole",
    "hang",  # takes the request and never says a word
    "hang_in_stream",  # begins to answer and stops, with the connection open
    "drip",  # one byte now and then, for ever
    "cut",  # the connection is reset in mid-stream
    "cut_cleanly",  # the stream ends as if it were whole, before the answer is
    "html",
    "invalid_json",
    "invalid_stream",  # the second event is not JSON
    "error_in_200",
    "error_in_stream",  # the stream begins, and then brings an error
    "no_usage",
    "wrong_usage",
]


Protocol = Literal["openai", "responses", "anthropic"]


@dataclass
class Ask:
    """One request."""

    protocol: Protocol
    body: dict[str, Any]
    key: str
    number: int
    """1 for the first request with this prompt for this model."""
    path: str = ""
    """What stands first in the address: providers within the provider."""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def prompt(self) -> str:
        """The last message."""
        content = self.body["input" if self.protocol == "responses" else "messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


@dataclass
class Reply:
    """What the provider does with one request."""

    text: str = ""
    shape: Shape = "whole"
    status: int = 200
    error: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    reasoning: str = ""
    refusal: str = ""
    finish: str = "stop"
    """In OpenAI's words; translated for Anthropic's protocol."""
    input_tokens: int = 1200
    output_tokens: int = 340
    usage: Any = None
    """Instead of a right one."""
    more: dict[str, Any] = field(default_factory=dict)
    """Fields of every chunk and of a plain reply (`provider`), or of Anthropic's usage (`server_tool_use`)."""
    searches: int = 0
    """Web searches, which responses show as items of the output."""
    parts: Callable[[str], Any] | None = None
    """What stands for a piece of the text in a chat, instead of the plain text."""
    kind: str = "text/html"
    """What HTML is said to be; empty: nothing is said."""
    choice_error: dict[str, Any] | None = None
    """An error in the last choice of a chat, as aggregators send it when who serves the model fails in the middle."""
    model: str = ""
    """Another name than the one that was asked."""
    stream: bool = True
    """False: a plain reply although a stream was asked for."""
    pieces: int = 8
    delay_s: float = 0.0
    """Before the first byte."""
    spread_s: float = 0.0
    """Over all pieces of a stream."""
    drip_s: float = 60.0
    """Between two bytes of a drip."""
    before: Callable[[], None] | None = None


_INCOMPLETE = {"length": "max_output_tokens"}
_ANTHROPIC_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _usage(reply: Reply) -> Any:
    if reply.shape == "wrong_usage" or reply.usage is not None:
        wrong = {"prompt_tokens": "many", "completion_tokens": -5, "total_tokens": None}
        return wrong if reply.usage is None else reply.usage
    total = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}


def _pieces(text: str, number: int) -> Iterator[str]:
    size = max(1, -(-len(text) // max(1, number)))
    yield from (text[start : start + size] for start in range(0, len(text), size))


class OpenAIWords:
    """Bodies and events of chat completions."""

    def __init__(self, ask: Ask, reply: Reply) -> None:
        self.reply = reply
        self.base = {"id": "chatcmpl-1", "created": 1, "model": reply.model or ask.model, **reply.more}
        self.asked_usage = (ask.body.get("stream_options") or {}).get("include_usage", False)

    def body(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._content(self.reply.text) or None}
        if self.reply.refusal:
            message["refusal"] = self.reply.refusal
        if self.reply.reasoning:
            message["reasoning_content"] = self.reply.reasoning
        choices = [{"index": 0, "message": message, "finish_reason": self.reply.finish, **self._choice_error()}]
        usage = {} if self.reply.shape == "no_usage" else {"usage": _usage(self.reply)}
        return {**self.base, "object": "chat.completion", "choices": choices, **usage}

    def _content(self, text: str) -> Any:
        return text if self.reply.parts is None else self.reply.parts(text)

    def _choice_error(self) -> dict[str, Any]:
        return {} if self.reply.choice_error is None else {"error": self.reply.choice_error}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, **more}]
        return self.event({**self.base, "object": "chat.completion.chunk", "choices": choices})

    @staticmethod
    def event(value: Any) -> bytes:
        return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def deltas(self) -> Iterator[bytes]:
        for piece in _pieces(self.reply.reasoning, self.reply.pieces):
            yield self._chunk({"reasoning_content": piece})
        for piece in _pieces(self.reply.text, self.reply.pieces):
            yield self._chunk({"content": self._content(piece)})
        if self.reply.refusal:
            yield self._chunk({"refusal": self.reply.refusal})

    def end(self) -> Iterator[bytes]:
        yield self._chunk({}, self.reply.finish, **self._choice_error())
        if self.asked_usage and self.reply.shape != "no_usage":
            last = {"object": "chat.completion.chunk", "choices": [], "usage": _usage(self.reply)}
            yield self.event({**self.base, **last})
        yield self.event(b"[DONE]")

    def error(self) -> Any:
        return {"error": self.reply.error or {"message": "overloaded", "type": "server_error", "code": 529}}


class AnthropicWords:
    """Bodies and events of messages."""

    def __init__(self, ask: Ask, reply: Reply) -> None:
        self.reply = reply
        self.stop = "refusal" if reply.refusal else _ANTHROPIC_STOPS.get(reply.finish, reply.finish)
        self.base = {"id": "msg_1", "type": "message", "role": "assistant", "model": reply.model or ask.model}

    def _usage(self) -> dict[str, Any]:
        if self.reply.shape == "wrong_usage":
            return {"input_tokens": -1, "output_tokens": -5}
        right = {"input_tokens": self.reply.input_tokens, "output_tokens": self.reply.output_tokens}
        return {**right, **self.reply.more}

    def body(self) -> dict[str, Any]:
        content = [{"type": "text", "text": self.reply.text}] if self.reply.text else []
        usage = {} if self.reply.shape == "no_usage" else {"usage": self._usage()}
        return {**self.base, "content": content, "stop_reason": self.stop, "stop_sequence": None, **usage}

    @staticmethod
    def event(value: Any) -> bytes:
        kind = value.get("type", "message") if isinstance(value, dict) else "content_block_delta"
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return f"event: {kind}\n".encode() + b"data: " + data + b"\n\n"

    def begin(self) -> Iterator[bytes]:
        usage = {"usage": {**self._usage(), "output_tokens": 1 if self.reply.output_tokens else 0}}
        usage = {} if self.reply.shape == "no_usage" else usage
        message = {**self.base, "content": [], "stop_reason": None, "stop_sequence": None, **usage}
        yield self.event({"type": "message_start", "message": message})
        block = {"type": "text", "text": ""}
        yield self.event({"type": "content_block_start", "index": 0, "content_block": block})

    def deltas(self) -> Iterator[bytes]:
        for piece in _pieces(self.reply.text, self.reply.pieces):
            delta = {"type": "text_delta", "text": piece}
            yield self.event({"type": "content_block_delta", "index": 0, "delta": delta})

    def end(self) -> Iterator[bytes]:
        yield self.event({"type": "content_block_stop", "index": 0})
        usage = {"usage": {"output_tokens": self._usage()["output_tokens"]}}
        usage = {} if self.reply.shape == "no_usage" else usage
        delta = {"stop_reason": self.stop, "stop_sequence": None}
        yield self.event({"type": "message_delta", "delta": delta, **usage})
        yield self.event({"type": "message_stop"})

    def error(self) -> Any:
        return {"type": "error", "error": self.reply.error or {"type": "overloaded_error", "message": "Overloaded"}}


class ResponsesWords:
    """Bodies and events of responses."""

    def __init__(self, ask: Ask, reply: Reply) -> None:
        self.reply = reply
        self.status = "completed" if reply.finish == "stop" else "incomplete"
        self.tools = ask.body.get("tools") or []
        self.base = {"id": "resp_1", "object": "response", "created_at": 1, "model": reply.model or ask.model}

    def _response(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        unset = {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}}
        choice = {"parallel_tool_calls": True, "tool_choice": "auto", "temperature": 1.0, "top_p": 1.0}
        return {**self.base, **unset, **choice, "tools": self.tools, "status": status, "output": output, **more}

    def _item(self, text: str, status: str) -> dict[str, Any]:
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if self.reply.refusal:
            part = {"type": "refusal", "refusal": self.reply.refusal}
        return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}

    def body(self) -> dict[str, Any]:
        search = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
        output = [{"id": f"ws_{number}", **search} for number in range(self.reply.searches)]
        more: dict[str, Any] = {}
        if self.status == "incomplete":
            more["incomplete_details"] = {"reason": _INCOMPLETE.get(self.reply.finish, self.reply.finish)}
        if self.reply.shape != "no_usage":
            total = self.reply.input_tokens + self.reply.output_tokens
            more["usage"] = {
                "input_tokens": self.reply.input_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": self.reply.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": total,
            }
        return self._response(self.status, [*output, self._item(self.reply.text, self.status)], **more)

    @staticmethod
    def event(value: Any) -> bytes:
        return AnthropicWords.event(value)

    def begin(self) -> Iterator[bytes]:
        yield self.event({"type": "response.created", "response": self._response("in_progress", [])})
        item = {**self._item("", "in_progress"), "content": []}
        yield self.event({"type": "response.output_item.added", "output_index": 0, "item": item})

    def deltas(self) -> Iterator[bytes]:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        for piece in _pieces(self.reply.text, self.reply.pieces):
            yield self.event({"type": "response.output_text.delta", **place, "delta": piece})
        if self.reply.refusal:
            yield self.event({"type": "response.refusal.delta", **place, "delta": self.reply.refusal})

    def end(self) -> Iterator[bytes]:
        item = self._item(self.reply.text, self.status)
        yield self.event({"type": "response.output_item.done", "output_index": 0, "item": item})
        yield self.event({"type": f"response.{self.status}", "response": self.body()})

    def error(self) -> Any:
        said = self.reply.error or {"code": "server_error", "message": "overloaded"}
        return {"error": said} if self.reply.shape != "error_in_stream" else {"type": "error", "param": None, **said}


_WORDS = {"openai": OpenAIWords, "responses": ResponsesWords, "anthropic": AnthropicWords}
_PROTOCOLS: dict[str, Protocol] = {"messages": "anthropic", "responses": "responses"}
"""By the end of the path; others are chat completions."""


class _Gone(Exception):  # noqa: N818 - not an error
    """The client or the provider has left."""


class Provider:
    """Answers each request with what `answer` returns for it, remembers all requests and counts what it sold."""

    def __init__(self, answer: Callable[[Ask], Reply]) -> None:
        self.answer = answer
        self.asks: list[Ask] = []
        self.preflights: list[Ask] = []
        self.sold: Counter[tuple[str, str]] = Counter()
        """Whole answers by (model, prompt)."""
        self.in_flight = 0
        """Calls without a first byte: whoever has the last one may be back before it is noticed here."""
        self.most_in_flight = 0
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                try:
                    outer._serve(self, json.loads(body))
                except (_Gone, OSError):
                    self.close_connection = True

            def do_GET(self) -> None:
                with outer._lock:
                    sold = [[model, prompt, count] for (model, prompt), count in outer.sold.items()]
                data = json.dumps({"asks": len(outer.asks), "sold": sold}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                return

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def root(self) -> str:
        """For Anthropic's protocol."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """For OpenAI's protocol."""
        return f"{self.root}/v1"

    def _serve(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        protocol = _PROTOCOLS.get(handler.path.rpartition("/")[2], "openai")
        key = handler.headers.get("x-api-key") or handler.headers.get("Authorization", "").removeprefix("Bearer ")
        ask = Ask(protocol, body, key, 0, handler.path.split("/")[1])
        if PREFLIGHT in ask.prompt:
            self.preflights.append(ask)
            reply = self.answer_preflight(ask)
        else:
            with self._lock:
                self._numbers[ask.model, ask.prompt] += 1
                ask.number = self._numbers[ask.model, ask.prompt]
                self.asks.append(ask)
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
            reply = self.answer(ask)
        try:
            if reply.before:
                reply.before()
            self._pause(reply.delay_s)
        finally:
            if ask.number:
                with self._lock:
                    self.in_flight -= 1
        whole = _Writer(handler, ask, reply, self._pause).write()
        if whole and ask.number:
            with self._lock:
                self.sold[ask.model, ask.prompt] += 1

    def answer_preflight(self, ask: Ask) -> Reply:
        """Replaced by tests of the preflight."""
        return Reply("ready", output_tokens=2, input_tokens=12)

    def _pause(self, seconds: float) -> None:
        if self._closing.wait(seconds) if seconds > 0 else self._closing.is_set():
            raise _Gone

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Provider:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_HANG_S = 3600.0


class _Writer:
    """Writes one reply; True when a whole answer was delivered."""

    def __init__(self, handler: Any, ask: Ask, reply: Reply, pause: Callable[[float], None]) -> None:
        self.handler, self.reply, self.pause = handler, reply, pause
        self.words: Any = _WORDS[ask.protocol](ask, reply)
        self.streams = bool(ask.body.get("stream")) and reply.stream

    def write(self) -> bool:
        reply = self.reply
        if reply.shape == "hang":
            self.pause(_HANG_S)
        if reply.status != 200:
            self._plain(json.dumps(self.words.error()).encode())
            return False
        if reply.shape == "html":
            self._plain(b"<html><body>Bad gateway</body></html>", reply.kind)
            return False
        if reply.shape == "error_in_200":
            self._plain(json.dumps(self.words.error()).encode())
            return False
        if reply.shape == "invalid_json":
            self._plain(b'{"id": "chatcmpl-1", "choices": [')
            return False
        if not self.streams:
            return self._whole_body()
        return self._stream()

    def _head(self, kind: str, **more: str) -> None:
        self.handler.send_response(self.reply.status)
        for name, value in {"Content-Type": kind, **more, **self.reply.headers}.items():
            if value:
                self.handler.send_header(name, value)
        self.handler.end_headers()

    def _plain(self, data: bytes, kind: str = "application/json") -> None:
        self._head(kind, **{"Content-Length": str(len(data))})
        self.handler.wfile.write(data)

    def _whole_body(self) -> bool:
        data = json.dumps(self.words.body()).encode()
        if self.reply.shape in {"cut", "cut_cleanly", "hang_in_stream", "drip"}:
            self._head("application/json", **{"Content-Length": str(len(data))})
            self._break_off(data)
            return False
        self._plain(data)
        return True

    def _break_off(self, data: bytes) -> None:
        half = len(data) // 2
        if self.reply.shape == "drip":
            for position in range(half):
                self.handler.wfile.write(data[position : position + 1])
                self.handler.wfile.flush()
                self.pause(self.reply.drip_s)
        self.handler.wfile.write(data[:half])
        self.handler.wfile.flush()
        if self.reply.shape == "hang_in_stream":
            self.pause(_HANG_S)
        self.handler.close_connection = True

    def _stream(self) -> bool:
        shape = self.reply.shape
        self._head("text/event-stream", **{"Transfer-Encoding": "chunked"})
        for event in self.words.begin():
            self._chunk(event)
        deltas = list(self.words.deltas())
        for number, event in enumerate(deltas):
            if number >= max(1, len(deltas) // 2) and shape not in {"whole", "no_usage", "wrong_usage"}:
                break
            self._chunk(event)
            if self.reply.spread_s:
                self.pause(self.reply.spread_s / len(deltas))
        if shape == "drip":
            rest = deltas[-1] if deltas else b": nothing\n\n"
            for position in range(len(rest)):
                self._chunk(rest[position : position + 1])
                self.pause(self.reply.drip_s)
        if shape == "hang_in_stream":
            self.pause(_HANG_S)
        if shape == "cut":
            self.handler.close_connection = True
            return False
        if shape == "invalid_stream":
            self._chunk(self.words.event(b'{"id": "chatcmpl-1", "choi'))
        if shape == "error_in_stream":
            self._chunk(self.words.event(self.words.error()))
        if shape in {"whole", "no_usage", "wrong_usage"}:
            for event in self.words.end():
                self._chunk(event)
        self.handler.wfile.write(b"0\r\n\r\n")
        self.handler.wfile.flush()
        return shape in {"whole", "no_usage", "wrong_usage"}

    def _chunk(self, data: bytes) -> None:
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()


def latency_of(seed: int, prompt: str, median_s: float, most_s: float) -> float:
    """A seeded long tail: the same prompt takes the same time in every run."""
    drawn = random.Random(f"{seed}:{prompt}").lognormvariate(0.0, 0.75)
    return min(most_s, median_s * drawn)


def main() -> None:
    """As a program, until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=Path, help='JSON: [{"match": "part of a prompt", "text": …, "shape": …}, …]')
    parser.add_argument("--median", type=float, default=0.0, help="latency, in seconds")
    parser.add_argument("--most", type=float, default=0.0, help="the longest latency")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rules = json.loads(options.answers.read_text(encoding="utf-8")) if options.answers else []

    def answer(ask: Ask) -> Reply:
        found = next((rule for rule in rules if rule["match"] in ask.prompt), {"text": "no rule matches"})
        known = {name: value for name, value in found.items() if name != "match"}
        delay = latency_of(options.seed, ask.prompt, options.median, options.most) if options.median else 0.0
        return Reply(**({"delay_s": delay} | known))

    with Provider(answer) as provider:
        sys.stdout.write(json.dumps({"url": provider.url, "root": provider.root}) + "\n")
        sys.stdout.flush()
        while sys.stdin.buffer.read(4096):
            time.sleep(0)


if __name__ == "__main__":
    main()
