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
_FUNCTION_FAILED = 560
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

    def query(self, name: str, /, **args: Any) -> Any:
        """Ask."""
        return self._call("query", name, args)

    def mutation(self, name: str, /, **args: Any) -> Any:
        """Change."""
        return self._call("mutation", name, args)

    def _call(self, kind: str, name: str, args: Mapping[str, Any]) -> Any:
        from convex import ConvexClient, ConvexError

        try:
            with self._bounded():
                if self._client is None:
                    self._client = ConvexClient(self.url)
                return getattr(self._client, kind)(name, {**args, "token": self._token})
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

    def internal(self, name: str, /, **args: Any) -> Any:
        """A function of any kind that is not public; the sync protocol knows none, so this goes the way of the CLI."""
        from convex.values import convex_to_json, json_to_convex

        body = json.dumps({"path": name, "format": "convex_encoded_json", "args": convex_to_json(args)}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Convex {self._admin_key}"}
        try:
            answer = json.loads(self._post(f"{self.url}/api/function", body, headers))
            if answer["status"] == "success":
                return json_to_convex(answer["value"])
            data, message = answer.get("errorData"), answer["errorMessage"]
        except (HTTPException, ValueError, KeyError, TypeError) as error:
            raise Unreachable(_told(error)) from None
        data = data if isinstance(data, dict) else {}
        raise Refusal(str(data.get("code", "")), str(data.get("message", message)))

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        asked = urllib.request.Request(url, data=body, headers=dict(headers), method="POST")  # noqa: S310 - checked
        try:
            with urllib.request.urlopen(asked, timeout=self._call_s) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                told = error.read()
            if error.code == _FUNCTION_FAILED:
                return told
            if error.code in {401, 403}:
                raise Refusal("unauthorized", "the key is not one of this deployment") from None
            raise Unreachable(_told(error)) from None
        except OSError as error:
            raise Unreachable(_told(error)) from None

    def upload(self, url: str, data: bytes) -> str:
        """Store a file; its storage id."""
        try:
            return str(json.loads(self._post(url, data, {"Content-Type": "application/json"}))["storageId"])
        except (Refusal, HTTPException, ValueError, KeyError, TypeError) as error:
            # An address to upload to is good for a while only: refused, the next try asks for another.
            raise Unreachable(f"the upload of a file failed: {_told(error)}") from None


def _told(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)
