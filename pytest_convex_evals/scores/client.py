"""Calls to the scores backend. Only for child processes: the client holds the interpreter lock and knows no deadline.

Unreachable      nobody answers, or the answer is no answer: worth another try
Refusal          the backend said no, with a code: no retry mends it
"""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from pytest_convex_evals.errors import EvalsError

_PROBE_S = 5.0
CALL_S = 20.0
"""After this long without an answer the process ends itself: the lock is held, so nothing else can."""


class Unreachable(EvalsError):  # noqa: N818 - a state of the backend
    """The backend cannot be used at present."""


class Refusal(EvalsError):  # noqa: N818 - an answer
    """The backend understood, and refuses."""

    def __init__(self, code: str, message: str, reason: str = "") -> None:
        self.code, self.message, self.reason = code, message, reason
        super().__init__(message)


class Backend:
    """One deployment, with a token or with its admin key."""

    def __init__(self, url: str, *, token: str = "", admin_key: str = "", call_s: float = CALL_S) -> None:
        self.url, self._token, self._admin_key, self._call_s = url.rstrip("/"), token, admin_key, call_s
        self._client: Any = None

    def probe(self) -> None:
        """Somebody listens who speaks HTTP; a fresh connection afterwards."""
        self._client = None
        try:
            with urllib.request.urlopen(f"{self.url}/version", timeout=_PROBE_S) as answer:  # noqa: S310 - checked
                answer.read(1000)
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(_told(error)) from None

    def query(self, name: str, **args: Any) -> Any:
        """Ask."""
        return self._call("query", name, args)

    def mutation(self, name: str, **args: Any) -> Any:
        """Change."""
        return self._call("mutation", name, args)

    def _call(self, kind: str, name: str, args: Mapping[str, Any]) -> Any:
        from convex import ConvexClient, ConvexError

        try:
            with self._bounded():
                if self._client is None:
                    self._client = ConvexClient(self.url)
                    if self._admin_key:
                        self._client.set_admin_auth(self._admin_key)
                given = {**args, "token": self._token} if self._token else dict(args)
                return getattr(self._client, kind)(name, given)
        except ConvexError as error:
            data = error.data if isinstance(error.data, dict) else {}
            message = str(data.get("message", error))
            raise Refusal(str(data.get("code", "")), message, str(data.get("reason", ""))) from None
        except Exception as error:  # noqa: BLE001 - the client raises nothing more specific
            self._client = None
            raise Unreachable(str(error).strip() or type(error).__name__) from None

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self._call_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def upload(self, url: str, data: bytes) -> str:
        """Store a file; its storage id."""
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(url, data=data, headers=headers, method="POST")  # noqa: S310 - from the backend
        try:
            with urllib.request.urlopen(asked, timeout=self._call_s) as answer:  # noqa: S310
                return str(json.loads(answer.read())["storageId"])
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"the upload of a file failed: {_told(error)}") from None


def _told(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)
