"""Calls to the scores backend. Only for child processes: the client holds the interpreter lock and knows no deadline.

Unreachable      nobody answers, or the answer is no answer: worth another try
Broken           a function is missing or failed, or a file was not taken: worth few tries, the same may happen again
Refusal          the backend said no, with a code: no retry mends it
"""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from pytest_convex_evals.errors import EvalsError

_PROBE_S = 5.0
_OK, _FUNCTION_FAILED, _DENIED = 200, 560, frozenset({401, 403})
_PASSING = frozenset({408, 425, 429})
CALL_S = 20.0
"""After this long without an answer the process ends itself: the lock is held, so nothing else can."""


class Unreachable(EvalsError):  # noqa: N818 - a state of the backend
    """The backend cannot be used at present."""


class Broken(EvalsError):  # noqa: N818 - a state of the backend
    """The backend answers, and cannot do what it was asked."""


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
            raise _refusal(error.data, str(error)) from None
        except Exception:  # noqa: BLE001 - the client raises nothing more specific
            self._client = None
        # The client does not tell a function that failed from a lost connection; asked the plain way, an answer is one.
        return self._ask(kind, name, {**args, "token": self._token}, {})

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
        return self._ask("function", name, args, {"Authorization": f"Convex {self._admin_key}"})

    def _ask(self, way: str, name: str, args: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        from convex.values import convex_to_json, json_to_convex

        body = json.dumps({"path": name, "format": "convex_encoded_json", "args": convex_to_json(dict(args))}).encode()
        code, told = self._post(f"{self.url}/api/{way}", body, headers)
        if headers and code in _DENIED:
            raise Refusal("unauthorized", "the key is not one of this deployment")
        if code not in {_OK, _FUNCTION_FAILED}:
            raise Unreachable(f"HTTP {code}")
        try:
            answer = json.loads(told)
            if answer["status"] == "success":
                return json_to_convex(answer["value"])
            data, message = answer.get("errorData"), str(answer["errorMessage"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(_told(error)) from None
        if data is not None:
            raise _refusal(data, message)
        raise Broken(_REQUEST_ID.sub("", message).strip())

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and text of an answer, whichever it is."""
        told = {"Content-Type": "application/json", **headers}
        asked = urllib.request.Request(url, data=body, headers=told, method="POST")  # noqa: S310 - checked
        try:
            with urllib.request.urlopen(asked, timeout=self._call_s) as answer:  # noqa: S310
                return answer.status, bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, HTTPException) as error:
            raise Unreachable(_told(error)) from None

    def upload(self, url: str, data: bytes) -> str:
        """Store a file; its storage id. The address is good for a while only: the next try asks for another."""
        code, told = self._post(url, data, {})
        if 400 <= code < 500 and code not in _PASSING:
            raise Broken(f"the upload of a file failed: HTTP {code}")
        try:
            return str(json.loads(told)["storageId"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"the upload of a file failed: HTTP {code}, {_told(error)}") from None


_REQUEST_ID = re.compile(r"^\[Request ID: \w+\] ?")
"""Each answer has another one."""


def _refusal(data: Any, message: str) -> Refusal:
    said = data if isinstance(data, dict) else {}
    return Refusal(str(said.get("code", "")), str(said.get("message", message)), str(said.get("reason", "")))


def _told(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):  # of the probe
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)
