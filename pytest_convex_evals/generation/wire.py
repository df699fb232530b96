"""What really went over the wire in one call.

litellm translates, and on the way it invents what is missing: a finish reason for a stream that was cut off, token
counts for a provider that gave none, an empty answer for a page of HTML. So the child watches the one function through
which all HTTP of litellm goes, and believes what it saw there. The watching is passive, with two exceptions: a reply
that is no reply is refused at once, and a plain reply to a request for a stream is handed on as a stream.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx

from pytest_convex_evals.generation.protocols import Facts, as_stream

MOST_BYTES = 64 * 2**20
"""Of one reply; far above any answer."""
_PROMPT = {"messages", "system", "contents", "systemInstruction", "system_instruction", "input", "instructions"}
_PLAIN = ("application/json", "text/html", "application/problem+json")


class NotAReplyError(ValueError):
    """The provider said something that is no answer and no error."""


class ErrorInsideError(Exception):
    """A reply that looks like a success and brings an error."""


@dataclass(slots=True)
class Exchange:
    """One request and its reply."""

    status: int | None = None
    """Of the reply; None: none came."""
    headers: dict[str, str] = field(default_factory=dict)
    """Of the reply, names in small letters."""
    sent: dict[str, Any] = field(default_factory=dict)
    """The body of the request without the prompt."""
    facts: Facts = field(default_factory=Facts)
    """What the reply said."""
    received: int = 0
    """Bytes of the reply."""


_EXCHANGE: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


def watch(exchange: Exchange) -> None:
    """From now on, what this task sends is told there."""
    _EXCHANGE.set(exchange)


def install() -> None:
    """Watch all calls of this process; it must be a process of its own."""
    plain_send = httpx.AsyncClient.send

    async def send(self: httpx.AsyncClient, request: httpx.Request, *, stream: bool = False, **more: Any) -> Any:
        exchange = _EXCHANGE.get()
        sent = _body_of(request) if exchange is not None else None
        if exchange is None or sent is None:
            return await plain_send(self, request, stream=stream, **more)
        exchange.sent = {name: value for name, value in sent.items() if name not in _PROMPT}
        request.headers["accept-encoding"] = "identity"
        return await _watched(exchange, request, await plain_send(self, request, stream=True, **more), whole=not stream)

    httpx.AsyncClient.send = send  # type: ignore[method-assign]


def _body_of(request: httpx.Request) -> dict[str, Any] | None:
    """The body of a call of a model; None for anything else that providers are asked."""
    if request.method != "POST":
        return None
    try:
        body = json.loads(request.content)
    except (ValueError, RuntimeError):  # RuntimeError: a body that is not in memory
        return None
    streams = isinstance(body, dict) and (body.get("stream") is True or "stream" in request.url.path.lower())
    return body if streams else None


async def _watched(exchange: Exchange, request: httpx.Request, response: httpx.Response, *, whole: bool) -> Any:
    exchange.status = response.status_code
    exchange.headers = {name.lower(): value for name, value in response.headers.items()}
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code >= 400:
        exchange.facts.read_error(await _read(exchange, response))
        return response
    if kind in _PLAIN:
        return _streamed(exchange, request, response, await _read(exchange, response))
    if exchange.headers.get("content-encoding", "identity") == "identity":
        response.stream = _Watched(response.stream, exchange)
    if whole:
        await response.aread()
    return response


async def _read(exchange: Exchange, response: httpx.Response) -> bytes:
    parts = []
    async for part in response.aiter_bytes():
        exchange.received += len(part)
        if exchange.received > MOST_BYTES:
            raise NotAReplyError(f"the reply is larger than {MOST_BYTES} bytes")
        parts.append(part)
    response._content = b"".join(parts)  # so that others can read it again
    return response._content


def _streamed(exchange: Exchange, request: httpx.Request, response: httpx.Response, body: bytes) -> httpx.Response:
    """A plain reply as the stream that was asked for."""
    try:
        value = json.loads(body)
    except ValueError:
        raise NotAReplyError(f"the reply is neither a stream nor JSON: {_start(body)}") from None
    if isinstance(value, dict) and value.get("error"):
        exchange.facts.read(value)
        raise ErrorInsideError(f"the reply is an error with a status of {response.status_code}: {_start(body)}")
    stream = as_stream(value) if isinstance(value, dict) else None
    if stream is None:
        raise NotAReplyError(f"the reply has no answer in it: {_start(body)}")
    exchange.facts.feed(stream)
    headers = {
        name: text for name, text in response.headers.items() if name.lower() not in {"content-length", "content-type"}
    }
    return httpx.Response(
        response.status_code, headers={**headers, "content-type": "text/event-stream"}, content=stream, request=request
    )


def _start(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace"))


class _Watched(httpx.AsyncByteStream):
    """Hands the bytes on and reads them in passing."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._exchange.received += len(part)
            if self._exchange.received > MOST_BYTES:
                raise NotAReplyError(f"the reply is larger than {MOST_BYTES} bytes")
            self._exchange.facts.feed(part)
            yield part

    async def aclose(self) -> None:
        """The connection goes back, or down."""
        await self._inner.aclose()
