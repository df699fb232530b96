"""Starting the reporter child, with its secrets through a pipe, and single calls by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pytest_convex_evals.errors import EvalsError
from pytest_convex_evals.scores.client import CALL_S, Refusal

_KEPT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"),
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ),
)
_GRACE_S = 10.0


class NoAnswer(EvalsError):  # noqa: N818 - a state of the backend
    """The scores backend cannot be used now."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"the scores backend {url} cannot be used: {problem}.\n"
            "  what to do: check the address and the network; `convex-evals deploy` puts the functions there"
        )


class Denied(EvalsError):  # noqa: N818 - an answer
    """The scores backend refuses."""

    def __init__(self, refusal: Refusal) -> None:
        self.code, self.reason = refusal.code, refusal.reason
        super().__init__(refusal.message)


def start_child(greeting: Mapping[str, Any], errors: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """A child that has read its greeting soon."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pytest_convex_evals.scores.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
        start_new_session=True,
    )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps({"call_s": CALL_S, **greeting}).encode() + b"\n")
        child.stdin.flush()
    except OSError:
        pass  # it is gone already, which whoever reads its output will see
    return child


def call(kind: str, name: str, args: Mapping[str, Any], *, url: str, token: str = "", admin_key: str = "") -> Any:
    """One call, made by a child so that it ends in any case."""
    asked = {"kind": kind, "name": name, "args": dict(args)}
    child = start_child({"url": url, "token": token, "admin_key": admin_key, "call": asked}, subprocess.PIPE)
    try:
        output, _ = child.communicate(timeout=CALL_S + _GRACE_S)
    except subprocess.TimeoutExpired:
        output = b""
    finally:
        child.kill()
        child.wait()
    try:
        answer = json.loads(output)
    except ValueError:
        raise NoAnswer(url, f"it did not answer within {CALL_S:.0f} s") from None
    if "refused" in answer:
        raise Denied(Refusal(**answer["refused"]))
    if "unreachable" in answer:
        raise NoAnswer(url, answer["unreachable"])
    return answer["value"]


def child_log(run: Path) -> IO[bytes]:
    """What the child complains about."""
    return (run / "upload.log").open("ab")
