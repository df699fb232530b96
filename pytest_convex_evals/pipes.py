"""Trusted children that answer JSON lines: `{"id", "op", "params"}` in, `{"id", "ok"}` or `{"id", "error"}` out.

The first line that a child prints greets. Any number of threads may ask at the same time. A child that dies, talks
nonsense or does not read wakes everybody who waits; all of that is `Trouble`, never a hang.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.lines import Box, LinePipes

if TYPE_CHECKING:
    from pytest_convex_evals.records import ErrorCause

_STDERR_KEPT = 8_000
_END_S = 2.0
_NONSENSE: Mapping[str, Any] = {"nonsense": True}
_Answer = Mapping[str, Any] | None
"""None: the child is gone."""


class LineChild:
    """One process; it starts when it is made."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        name: str,
        cause: ErrorCause,
        remedy: str = "",
    ) -> None:
        self._name, self._cause, self._remedy = name, cause, remedy
        self._lock = threading.Lock()
        self._waiting: dict[int, Box[_Answer]] = {}
        self._greeting: Box[_Answer] = Box()
        self._next_id, self._gone = 0, False
        self._stderr = b""
        try:
            self.process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._trouble(f"could not be started: {error}") from None
        self._pipes: LinePipes[_Answer] = LinePipes(
            self.process, deliver=self._deliver, ended=self._end, give_up=self._kill
        )
        self._complaints = threading.Thread(target=self._read_complaints, name=f"{name}: complaints", daemon=True)
        self._complaints.start()

    def greeting(self, deadline_s: float) -> Any:
        """What the first line has under `ready`."""
        if not self._pipes.wait(self._greeting, time.monotonic() + deadline_s):
            self.close()
            raise self._trouble(f"was silent for {deadline_s:.0f} s while it started")
        line = self._greeting.content
        if line is None:
            raise self._died("while it started")
        if "ready" not in line:
            self.close()
            raise self._trouble("did not report ready")
        return line["ready"]

    def request(self, op: str, params: Mapping[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait. A refusal is `Refused`; silence is `Silence`; death and nonsense are `Trouble`."""
        return self.ask(op, params, deadline_s=deadline_s)()

    def ask(self, op: str, params: Mapping[str, Any], *, deadline_s: float) -> Callable[[], Any]:
        """Ask, and get a function that waits for the answer, as `request` does; it has to be called, once."""
        box: Box[_Answer] = Box()
        with self._lock:
            self._next_id += 1
            number = self._next_id
            gone = self._gone
            self._waiting[number] = box
        try:
            if gone:
                raise self._died(f"before it was asked for {op}")
            line = json.dumps({"id": number, "op": op, "params": params}, allow_nan=False).encode() + b"\n"
            self._send(line, deadline_s, f"while it was asked for {op}")
        except BaseException:
            self._forget(number)
            raise

        def answer() -> Any:
            try:
                if not self._pipes.wait(box, time.monotonic() + deadline_s):
                    raise Silence(
                        self._cause, f"{self._name} was silent for {deadline_s:.0f} s while it worked on {op}"
                    )
            finally:
                self._forget(number)
            return self._checked(box.content, op)

        return answer

    def _forget(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)

    def _checked(self, answer: _Answer, op: str) -> Any:
        if answer is None:
            raise self._died(f"while it worked on {op}")
        if ("ok" in answer) == ("error" in answer):
            self.close()
            raise self._trouble(f"answered nonsense to {op}")
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def _send(self, line: bytes, deadline_s: float, when: str) -> None:
        """A child that does not read is killed at the deadline."""
        try:
            self._pipes.send(line, time.monotonic() + deadline_s)
        except (OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                self._kill()
            raise self._died(when) from None

    def _deliver(self, line: bytes) -> None:
        answer = _parsed(line)
        if not self._greeting.full:
            self._greeting.put(answer)
            return
        number = answer.get("id")
        with self._lock:
            known = isinstance(number, int) and 0 <= number <= self._next_id
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            everybody = list(self._waiting.values())
        if waiting is not None:
            waiting.put(answer)
        elif not known:
            for one in everybody:
                one.put(_NONSENSE)

    def _end(self) -> None:
        with self._lock:
            self._gone = True
            waiting = list(self._waiting.values())
        for one in [*waiting, self._greeting]:
            one.put(None)

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self._stderr = (self._stderr + line)[-_STDERR_KEPT:]

    def _trouble(self, what: str) -> Trouble:
        return Trouble(self._cause, f"{self._name} {what}", remedy=self._remedy)

    def _died(self, when: str) -> Trouble:
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(_END_S)
        self.close()
        self._complaints.join(_END_S)
        lines = self._stderr.decode(errors="replace").splitlines()
        said = "\n".join(line for line in lines if line.strip() and not line.startswith("    at "))
        tail = f": {said[-600:]}" if said else ""
        return Death(self._cause, f"{self._name} died {when} (exit code {code}){tail}", remedy=self._remedy)

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None and not self._gone

    def close(self) -> None:
        """End it and everything of its process group; may be called twice."""
        self._kill()
        self.process.wait()
        self._pipes.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        return _NONSENSE
    return answer if isinstance(answer, dict) else _NONSENSE


class Refused(Exception):  # noqa: N818 - an answer, not a defect
    """The child refused a request, in its own words."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.code = str(error.get("code", "unknown"))
        self.message = str(error.get("message", ""))
        super().__init__(f"{self.code}: {self.message}")


class Silence(Trouble):
    """The child did not answer in time."""


class Death(Trouble):
    """The child ended while something was asked of it."""
