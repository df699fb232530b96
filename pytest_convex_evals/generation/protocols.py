"""Streams of model providers: what an answer says about itself, in the four protocols that nearly all speak.

Chat completions and responses (OpenAI and those like it), messages (Anthropic), generateContent (Google). Of any other
protocol nothing is known here, and `recognised` stays false.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

_ENDS = {"response.completed", "response.incomplete", "response.failed", "message_stop"}
_TEXT_PARTS = ("text", "output_text")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_UNDONE = {"error", "pause_turn", "failed", "cancelled"}
"""Reasons for an end that is none of the model's: whoever serves it broke off."""
_CUT_OFF = {"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "MAX_TOKENS"}
"""Reasons for an end by a limit of tokens."""
_FILTERED = {"content_filter", "refusal"}


@dataclass(slots=True)
class Facts:
    """What the events of a reply said."""

    events: int = 0
    """Of any protocol that sends them as server-sent events."""
    markup: bool = False
    """It begins like a page, as no stream does."""
    recognised: bool = False
    """The protocol is known."""
    finished: bool = False
    """The provider said that the answer ends here."""
    limit: Literal["length", "content_filter"] | None = None
    """What ended the answer before the model did, in the words of a chat."""
    garbled: bool = False
    """An event was not JSON."""
    error: dict[str, Any] | None = None
    """An error inside."""
    usage: dict[str, Any] | None = None
    """As the provider put it; None: it said nothing."""
    model: str | None = None
    """Who answered."""
    provider: str | None = None
    """Who served it, where an aggregator says so."""
    text: list[str] = field(default_factory=list)
    """The answer, in pieces."""
    in_parts: bool = False
    """Some of the text came as a list of parts, which litellm hands on unread."""
    unread: bool = False
    """Some of the content is of a kind that nobody here can read."""
    refusal: list[str] = field(default_factory=list)
    """What is said instead of an answer, in pieces."""
    searches: int | None = None
    """Web searches that were made; None: not said."""
    _rest: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list)

    def feed(self, part: bytes) -> None:
        """The next bytes of a stream of server-sent events."""
        if not self.events and not self._rest:
            self.markup = self.markup or part.lstrip().startswith(b"<")
        if b"\n" not in part:
            self._rest += part
            return
        *lines, rest = (bytes(self._rest) + part).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            bare = line.rstrip(b"\r")
            if bare.startswith(b"data:"):
                self._data.append(bare[5:].lstrip())
            elif not bare and self._data:
                self._event(b"\n".join(self._data))
                self._data = []

    def _event(self, data: bytes) -> None:
        self.events += 1
        if data == b"[DONE]":
            self.finished = self.recognised
            return
        try:
            value = json.loads(data)
        except ValueError:
            self.garbled = True
            return
        if isinstance(value, dict):
            self.read(value)

    def read_error(self, body: bytes) -> None:
        """The body of a reply with a status that is an error."""
        try:
            value = json.loads(body)
        except ValueError:
            return
        found = value[0] if isinstance(value, list) and value else value
        if isinstance(found, dict):
            self._failed(found.get("error", found))

    def read(self, value: dict[str, Any]) -> None:
        """One event."""
        if value.get("error"):
            self._failed(value["error"])
            return
        kind = str(value.get("type", ""))
        if kind == "error":  # as responses send it, with code and message beside the type
            self._failed(value)
        elif isinstance(value.get("choices"), list):
            self._chat(value)
        elif isinstance(value.get("candidates"), list) or "usageMetadata" in value:
            self._google(value)
        elif kind.startswith("response."):
            self._responses(kind, value)
        elif kind.startswith(("message_", "content_block_")):
            self._messages(kind, value)

    def _common(self, value: dict[str, Any]) -> None:
        self.recognised = True
        if isinstance(value.get("model"), str) and value["model"]:
            self.model = value["model"]
        if isinstance(value.get("provider"), str):
            self.provider = value["provider"]
        if isinstance(value.get("usage"), dict):
            self.usage = {**(self.usage or {}), **value["usage"]}
            self._searches(value["usage"])

    def _searches(self, usage: dict[str, Any]) -> None:
        for holder in (usage, usage.get("server_tool_use")):
            for name in ("web_search_requests", "num_search_queries"):
                count = holder.get(name) if isinstance(holder, dict) else None
                if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                    self.searches = count

    def _chat(self, value: dict[str, Any]) -> None:
        self._common(value)
        for choice in value["choices"]:
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._content(delta.get("content"))
                self._said(delta.get("refusal"), self.refusal)
            self._ended(choice.get("finish_reason"))
            if choice.get("error"):
                self._failed(choice["error"])

    def _content(self, content: Any) -> None:
        """Of a chat: plain text, or a list of parts."""
        if content is None or isinstance(content, str):
            self._said(content, self.text)
            return
        for part in content if isinstance(content, list) else [content]:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
                self.in_parts = True
                self._said(part["text"], self.text)
            elif kind == "refusal":
                self._said(part.get("refusal"), self.refusal)
            elif kind not in _THOUGHTS:
                self.unread = True

    def _ended(self, reason: Any) -> None:
        """The provider said why the answer ends, in the words of its protocol."""
        if not reason:
            return
        self.finished = True
        if str(reason) in _CUT_OFF:
            self.limit = "length"
        elif str(reason) in _FILTERED:
            self.limit = "content_filter"
        elif str(reason) in _UNDONE and self.error is None:
            self._failed({"message": f"the answer ended with {reason!r}"})

    def _failed(self, error: Any) -> None:
        self.error = error if isinstance(error, dict) else {"message": str(error)}

    @staticmethod
    def _said(piece: Any, where: list[str]) -> None:
        if isinstance(piece, str) and piece:
            where.append(piece)

    def _google(self, value: dict[str, Any]) -> None:
        self.recognised = True
        if isinstance(value.get("modelVersion"), str):
            self.model = value["modelVersion"]
        if isinstance(value.get("usageMetadata"), dict):
            self.usage = value["usageMetadata"]
        for candidate in value.get("candidates") or []:
            if not isinstance(candidate, dict):
                continue
            self.finished = self.finished or bool(candidate.get("finishReason"))
            grounding = candidate.get("groundingMetadata")
            if isinstance(grounding, dict) and isinstance(grounding.get("webSearchQueries"), list):
                self.searches = len(grounding["webSearchQueries"])
            for part in (candidate.get("content") or {}).get("parts") or []:
                if isinstance(part, dict) and not part.get("thought"):
                    self._said(part.get("text"), self.text)
        if (value.get("promptFeedback") or {}).get("blockReason"):
            self.finished = True

    def _responses(self, kind: str, value: dict[str, Any]) -> None:
        self.recognised = True
        if kind == "response.output_text.delta":
            self._said(value.get("delta"), self.text)
        elif kind == "response.refusal.delta":
            self._said(value.get("delta"), self.refusal)
        elif kind in _ENDS and isinstance(value.get("response"), dict):
            response = value["response"]
            self._common(response)
            self.finished = True
            calls = [item for item in response.get("output") or [] if isinstance(item, dict)]
            asked = any("search" in str(tool.get("type")) for tool in response.get("tools") or [] if tool)
            found = sum(item.get("type") == "web_search_call" for item in calls)
            self.searches = found if found or asked else self.searches
            if response.get("error"):
                self._failed(response["error"])
            status = kind.removeprefix("response.")
            why = response.get("incomplete_details") if status == "incomplete" else None
            reason = why.get("reason") if isinstance(why, dict) else None
            self._ended(reason or ("length" if status == "incomplete" else status))

    def _messages(self, kind: str, value: dict[str, Any]) -> None:
        self._common(value.get("message") or value)
        delta = value.get("delta")
        if isinstance(delta, dict):
            self._said(delta.get("text"), self.text)
            self._ended(delta.get("stop_reason"))
        self.finished = self.finished or kind in _ENDS


def as_stream(body: dict[str, Any]) -> bytes | None:
    """A plain reply as the events of its protocol; None when there is no answer in it."""
    if isinstance(body.get("choices"), list) and body["choices"]:
        events = _chat_events(body)
    elif body.get("type") == "message" and isinstance(body.get("content"), list):
        events = _message_events(body)
    elif isinstance(body.get("candidates"), list) and body["candidates"]:
        events = [body]
    elif body.get("object") == "response" and isinstance(body.get("output"), list):
        events = _response_events(body)
    else:
        return None
    lines = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    data = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
    return (data + ("data: [DONE]\n\n" if "choices" in body else "")).encode()


def _chat_events(body: dict[str, Any]) -> list[dict[str, Any]]:
    base = {name: value for name, value in body.items() if name not in {"choices", "usage", "object"}}
    base["object"] = "chat.completion.chunk"
    events = []
    for choice in body["choices"]:
        if isinstance(choice, dict):
            rest = {"index": choice.get("index", 0)}
            delta = _with_plain_text(choice.get("message") or {})
            events.append({**base, "choices": [{**rest, "delta": delta, "finish_reason": None}]})
            last = {**rest, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
            if choice.get("error"):
                last["error"] = choice["error"]
            events.append({**base, "choices": [last]})
    if isinstance(body.get("usage"), dict):
        events.append({**base, "choices": [], "usage": body["usage"]})
    return events


def _with_plain_text(message: Any) -> Any:
    """The same message, with its text in one piece where it came in parts."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    read = Facts()
    read._content(message["content"])
    if not read.in_parts:
        return message
    refusal = {"refusal": "".join(read.refusal)} if read.refusal else {}
    return {**message, "content": "".join(read.text), **refusal}


def _message_events(body: dict[str, Any]) -> list[dict[str, Any]]:
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else None
    start = {**body, "content": [], "stop_reason": None, "usage": usage or {"input_tokens": 0, "output_tokens": 0}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(body["content"]):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block.get("text", "")}
        elif kind == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            delta = {"type": "thinking_delta", "thinking": block.get("thinking", "")}
        else:
            continue
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": body.get("stop_reason") or "end_turn", "stop_sequence": body.get("stop_sequence")}
    events.append({"type": "message_delta", "delta": ended, **({"usage": usage} if usage else {})})
    return [*events, {"type": "message_stop"}]


def _response_events(body: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**body, "output": []}}]
    for index, item in enumerate(body["output"]):
        for number, part in enumerate(item.get("content") or [] if isinstance(item, dict) else []):
            if isinstance(part, dict) and part.get("type") == "output_text":
                place = {"item_id": item.get("id", ""), "output_index": index, "content_index": number}
                events.append({"type": "response.output_text.delta", **place, "delta": part.get("text", "")})
            elif isinstance(part, dict) and part.get("type") == "refusal":
                events.append({"type": "response.refusal.delta", "delta": part.get("refusal", "")})
    status = body.get("status")
    kind = status if status in ("incomplete", "failed") else "failed" if status == "cancelled" else "completed"
    return [*events, {"type": f"response.{kind}", "response": body}]
