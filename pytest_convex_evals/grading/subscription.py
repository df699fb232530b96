"""Watching a query over the sync protocol, as a browser does."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pytest_convex_evals.backends.base import FunctionError, Identity
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.values import Value, decode, encode

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from pytest_convex_evals.backends.base import Backend

_CONNECT_S = 10.0


@dataclass(slots=True)
class Subscription:
    """Every result of a query, in the order in which the backend sent them."""

    _backend: Backend
    _path: str
    _args: Mapping[str, Value]
    _identity: Identity
    results: list[Value | FunctionError] = field(default_factory=list)
    """All results so far."""
    _socket: ClientConnection | None = None

    def __enter__(self) -> Self:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        try:
            address = self._backend.url.replace("http", "ws", 1) + "/api/sync"
            self._socket = connect(address, open_timeout=_CONNECT_S, max_size=64 * 2**20, proxy=None)
            self._send(type="Connect", sessionId=str(uuid.uuid4()), connectionCount=0, lastCloseReason=None, clientTs=0)
            if self._identity.kind != "anonymous":
                acting = {"impersonating": encode(self._identity.attributes)} if self._identity.attributes else {}
                self._send(
                    type="Authenticate", baseVersion=0, tokenType="Admin", value=self._backend.admin_key, **acting
                )
            add = {"type": "Add", "queryId": 0, "udfPath": self._path, "args": [encode(self._args)]}
            self._send(type="ModifyQuerySet", baseVersion=0, newVersion=1, modifications=[add])
        except (OSError, WebSocketException) as error:
            raise Trouble("backend", f"no subscription to {self._path}: {error!r}") from None
        return self

    def __exit__(self, *exception: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def _send(self, **message: Any) -> None:
        assert self._socket is not None
        self._socket.send(json.dumps(message))

    def wait_for(self, wanted: Callable[[Value], object], *, seconds: float = 10.0) -> Value:
        """The first result, from now on or already there as the latest, that satisfies the condition."""
        deadline = time.monotonic() + seconds
        while True:
            if self.results:
                latest = self.results[-1]
                if not isinstance(latest, FunctionError) and wanted(latest):
                    return latest
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                shown = repr(self.results[-1]) if self.results else "nothing"
                raise AssertionError(f"{self._path} did not become what was waited for; the latest is {shown}")

    def value(self, *, seconds: float = 10.0) -> Value:
        """The latest result; waits for the first one, raises the error of a query that fails."""
        deadline = time.monotonic() + seconds
        while not self.results:
            if not self._receive(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"{self._path} gave no result within {seconds:g} s")
        latest = self.results[-1]
        if isinstance(latest, FunctionError):
            raise latest
        return latest

    def _receive(self, seconds: float) -> bool:
        """Take in one message; False when none came in time."""
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        try:
            message = json.loads(self._socket.recv(timeout=seconds))
        except TimeoutError:
            return False
        except ConnectionClosed as error:
            raise Trouble("backend", f"the subscription to {self._path} was closed: {error}") from None
        if message["type"] == "FatalError":
            raise Trouble("backend", f"the subscription to {self._path} was ended: {message.get('error')}")
        for change in message.get("modifications", ()):
            if change["type"] == "QueryUpdated":
                self.results.append(decode(change["value"]))
            elif change["type"] == "QueryFailed":
                self.results.append(FunctionError(change["errorMessage"], data=decode(change.get("errorData"))))
        return True
