"""A WebSocket client of the sync protocol that shows every frame, reads only when asked and can be cut off."""

import base64
import json
import os
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from .core import Core

DEADLINE = 60.0
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
Message = dict[str, Any]


class ClosedError(Exception):
    """The server closed the connection, with a code and a reason, or without a word (None)."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"closed with {code}: {reason}")
        self.code = code
        self.reason = reason


class Frames:
    """One connection. Ping frames are answered and counted."""

    def __init__(self, app: Core, path: str = "/api/sync", **connect: Any) -> None:
        host, port = app.url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=DEADLINE)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._stream = self._socket.makefile("rb")
        status = self._stream.readline()
        assert b" 101 " in status, status
        while self._stream.readline() != b"\r\n":
            pass
        self.pings = 0
        self._version = 0
        self.send({"type": "Connect", "connectionCount": 0, "lastCloseReason": None, "sessionId": "s", **connect})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def cut(self) -> None:
        """Ends the connection without a word."""
        self._stream.close()
        self._socket.close()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, *messages: Message) -> None:
        """All of them in one write."""
        self._socket.sendall(b"".join(frame(TEXT, json.dumps(message).encode()) for message in messages))

    def send_raw(self, opcode: int, payload: bytes) -> None:
        self._socket.sendall(frame(opcode, payload))

    def modify(self, *modifications: Message) -> None:
        self._version += 1
        self.send(
            {
                "type": "ModifyQuerySet",
                "baseVersion": self._version - 1,
                "newVersion": self._version,
                "modifications": list(modifications),
            }
        )

    def subscribe(self, number: int, path: str, args: Message | None = None, **more: Any) -> None:
        self.modify({"type": "Add", "queryId": number, "udfPath": path, "args": [args or {}], **more})

    def call(self, kind: str, number: int, path: str, args: Message | None = None, **more: Any) -> Message:
        """Sends a request and waits for its answer."""
        self.send({"type": kind, "requestId": number, "udfPath": path, "args": [args or {}], **more})
        return self.until(lambda message: message.get("requestId") == number)

    # ── receiving ───────────────────────────────────────────────────────────────────────────────────────────────────

    def frame(self) -> tuple[int, bytes]:
        """The next frame of any kind."""
        first, second = self._read(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(self._read(2), "big")
        elif length == 127:
            length = int.from_bytes(self._read(8), "big")
        return first & 0x0F, self._read(length)

    def _read(self, length: int) -> bytes:
        found = self._stream.read(length)
        if found is None or len(found) < length:
            raise ClosedError(None, "")
        return found

    def receive(self) -> Message:
        """The next message; ClosedError when there is none."""
        while True:
            opcode, payload = self.frame()
            if opcode == PING:
                self.pings += 1
                self.send_raw(PONG, payload)
            elif opcode == CLOSE:
                raise ClosedError(int.from_bytes(payload[:2], "big"), payload[2:].decode())
            elif opcode == TEXT:
                message: Message = json.loads(payload)
                return message

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        while not wanted(message := self.receive()):
            pass
        return message

    def transition(self) -> Message:
        return self.until(lambda message: message["type"] == "Transition")

    def updates(self) -> list[Message]:
        """The modifications of the next transition that has some."""
        found: list[Message] = self.until(lambda message: bool(message.get("modifications")))["modifications"]
        return found

    def close_reason(self) -> ClosedError:
        """Reads until the end, and says how it came."""
        return self.rest()[1]

    def rest(self) -> tuple[list[Message], ClosedError]:
        messages: list[Message] = []
        try:
            while True:
                messages.append(self.receive())
        except ClosedError as closed:
            return messages, closed
        except ConnectionError:
            return messages, ClosedError(None, "")


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked frame (with the mask of zeros)."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + bytes(4) + payload
