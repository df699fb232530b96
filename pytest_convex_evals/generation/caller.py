"""One call of a model through litellm, as a stream, with a deadline for each of its phases."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.generation.wire import ErrorInsideError, Exchange, NotAReplyError, install, watch
from pytest_convex_evals.models.search import RESPONSES

if TYPE_CHECKING:
    from pytest_convex_evals.generation.patience import Patience
    from pytest_convex_evals.generation.pulse import Deadline, Pulse
    from pytest_convex_evals.generation.store import Call


_AFTER_US_S = 60.0
"""Deadlines of the libraries come after ours."""
_NO_STREAM = "the reply is text, and no stream of events"
_NO_JSON = "an event of the stream is not JSON"


class CutOffError(ConnectionError):
    """The stream ended before the answer did."""


@dataclass(slots=True)
class Said:
    """An answer as it came."""

    exchange: Exchange
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    model: str | None = None
    id: str | None = None
    usage: Any = None
    """As litellm translates it; only when the provider gave one, or when its protocol is not known."""
    annotations: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    first_token_s: float | None = None
    duration_s: float = 0.0


class _NoGateway:
    """Stands for litellm's gateway to MCP servers, which its responses API asks whether it is wanted.

    The real one needs a package of litellm's proxy that is not installed, and no call of ours has tools.
    """

    @staticmethod
    def should_use_litellm_mcp_gateway(**_: Any) -> bool:
        """Never."""
        return False


def _without_gateway() -> None:
    name = "litellm.responses.mcp.litellm_proxy_mcp_handler"
    stub = ModuleType(name, _NoGateway.__doc__)
    stub.LiteLLM_Proxy_MCP_Handler = _NoGateway  # type: ignore[attr-defined]
    sys.modules.setdefault(name, stub)


def load() -> None:
    """Import litellm and set it up; takes seconds."""
    _without_gateway()
    gc.disable()  # thousands of modules, nothing of which is garbage: looking for some is a fifth of the time
    try:
        import litellm
        import openai.resources  # noqa: F401 - else the first call loads it, while everybody waits
    finally:
        gc.freeze()
        gc.enable()
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.disable_token_counter = True  # what the provider does not say is unknown, and counting 10 MB takes minutes
    install()


@dataclass(frozen=True, slots=True)
class Listener:
    """How long to listen, and who is told."""

    pulse: Pulse
    patience: Patience
    left: float
    """Seconds that remain for this cell."""
    on_first: Callable[[float], None] = lambda _: None
    """Gets the seconds until the first token."""

    def phase(self, seconds: float, elapsed: float, what: str) -> Deadline:
        """The deadline of a phase, or of the whole when that comes first."""
        if self.left - elapsed < seconds:
            return self.pulse.deadline(max(self.left - elapsed, 0.001), "no whole answer")
        return self.pulse.deadline(max(seconds, 0.001), what)


async def call_model(call: Call, api_key: str, listener: Listener, exchange: Exchange) -> Said:
    """The answer; raises whatever goes wrong."""
    watch(exchange)
    said, started = Said(exchange), time.monotonic()
    try:
        async with listener.phase(listener.patience.first_token_s, 0.0, "no reply"):
            stream = await _open(call, api_key, listener.patience)
        try:
            await _read(stream, said, listener, started)
        finally:
            await _close(stream)
    except Exception as error:
        if exchange.facts.garbled and not exchange.facts.finished:
            raise NotAReplyError(_NO_JSON) from error
        if exchange.facts.markup and not exchange.facts.events:
            raise NotAReplyError(_NO_STREAM) from error
        if not exchange.facts.finished or exchange.facts.error is not None:
            raise
        # The provider has said everything; only litellm could not read the end of it.
        said.text = list(exchange.facts.text)
        said.finish_reason = said.finish_reason or "stop"
        said.notes.append(f"the end of the reply could not be read: {type(error).__name__}")
    said.duration_s = time.monotonic() - started
    return _believed(said)


async def _open(call: Call, api_key: str, patience: Patience) -> Any:
    import httpx
    import litellm

    optional = {"api_key": api_key, "api_base": call.api_base}
    return await litellm.acompletion(
        model=call.litellm_id,
        messages=call.messages,
        stream=True,
        stream_options={"include_usage": True},
        timeout=httpx.Timeout(patience.first_token_s + _AFTER_US_S, connect=patience.connect_s),
        num_retries=0,
        max_retries=0,
        **_passed_through(call),
        **{name: value for name, value in optional.items() if value},
    )


def _passed_through(call: Call) -> dict[str, Any]:
    """Parameters that must arrive as labelled, or fail: never silently dropped."""
    named = ["reasoning_effort"] if "reasoning_effort" in call.parameters else []
    if "web_search_options" in call.parameters and call.litellm_id.startswith(RESPONSES):
        # litellm makes a tool of them there, but looks first whether the same model takes them in a chat. Elsewhere it
        # must translate them, and what is named here is sent as it is.
        named.append("web_search_options")
    return {**call.parameters, **({"allowed_openai_params": named} if named else {})}


async def _read(stream: Any, said: Said, listener: Listener, started: float) -> None:
    pieces, patience = aiter(stream), listener.patience
    while True:
        elapsed = time.monotonic() - started
        if said.first_token_s is None:
            deadline = listener.phase(patience.first_token_s - elapsed, elapsed, "no first token")
        else:
            deadline = listener.phase(patience.idle_s, elapsed, "no further token")
        try:
            async with deadline:
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        wrote = _take(piece, said) or bool(said.exchange.facts.text)
        if wrote and said.first_token_s is None:
            said.first_token_s = time.monotonic() - started
            listener.on_first(said.first_token_s)
        await asyncio.sleep(0)  # a long answer that is there already must not keep the others waiting


def _take(piece: Any, said: Said) -> bool:
    """Keep a piece of the answer; True when it holds something that a model wrote."""
    said.id = getattr(piece, "id", None) or said.id
    said.model = getattr(piece, "model", None) or said.model
    usage = getattr(piece, "usage", None)
    if usage is not None:
        said.usage = usage
    wrote = False
    for choice in getattr(piece, "choices", None) or []:
        delta = getattr(choice, "delta", None)
        for name, where in (("content", said.text), ("reasoning_content", said.reasoning)):
            text = getattr(delta, name, None)
            if isinstance(text, str) and text:
                where.append(text)
                wrote = True
        said.annotations += list(getattr(delta, "annotations", None) or [])
        said.finish_reason = getattr(choice, "finish_reason", None) or said.finish_reason
    return wrote


async def _close(stream: Any) -> None:
    """Give the connection back, or down, if litellm lets us."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        with suppress(Exception):
            await asyncio.wait_for(close(), 1.0)


def _believed(said: Said) -> Said:
    """Compare what litellm made of the reply with what went over the wire."""
    facts = said.exchange.facts
    if facts.error is not None:
        raise ErrorInsideError("the stream brought an error")
    if facts.garbled and not facts.finished:
        raise NotAReplyError(_NO_JSON)
    if facts.recognised and not facts.finished:
        raise CutOffError("the stream ended before the answer did")
    said.finish_reason = facts.limit or said.finish_reason
    if facts.in_parts:
        said.text = list(facts.text)
    if facts.unread and not said.text:
        raise NotAReplyError("the content of the reply is of a kind that cannot be read")
    if facts.recognised and facts.usage is None:
        said.usage = None
    if not facts.recognised and said.exchange.status is not None and not said.exchange.received:
        raise NotAReplyError("the reply is empty")
    kind = said.exchange.headers.get("content-type", "")
    if said.exchange.received and not facts.events and not said.text and (not kind or kind.startswith("text/")):
        raise NotAReplyError(_NO_STREAM)
    return said
