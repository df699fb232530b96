"""The controller's side of the reporter child: it may hang or die, and the session does not notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pytest_convex_evals.scores.process import child_log, start_child
from pytest_convex_evals.scores.target import Target
from pytest_convex_evals.store.runs import RunFolder

_SAY_S = 2.0
_STUCK_S, _LONGEST_S = 10.0, 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
_END_S = 2.0


class Reporter:
    """Keeps a child at work on one run, and knows how far it is."""

    def __init__(
        self,
        run: RunFolder,
        target: Target,
        say: Callable[[str], None],
        *,
        live: bool = True,
        older: bool = True,
        again: bool = False,
    ) -> None:
        self._run, self._target, self._say = run, target, say
        self._greeting = {
            "url": target.url,
            "token": target.token,
            "run": run.id,
            "store": str(run.store),
            "outputs": str(run.outputs),
            "live": live,
            "older": older,
            "again": again,
        }
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._child: subprocess.Popen[bytes] | None = None
        self._finishing = self._closing = False
        self._reached = self._warned = False
        self._changed_at = time.monotonic()
        self._work = 0
        self.whole = False
        """Everything of this run that could be delivered was."""
        self.done = False
        """And of earlier ones."""
        self.broken = False
        """The backend answers, and functions of it fail."""
        self.refusal = ""
        """Why the backend takes nothing from us."""
        self.trouble = ""
        """Why nothing can be delivered at present."""
        self.delivered = self.waiting = self.refused = self.unknown = self.gone = 0
        self.reason = ""
        self.older: list[dict[str, Any]] = []
        """Earlier runs of which something was delivered or refused on the way."""
        self.owing = 0
        """Earlier runs that may owe more."""
        self._thread = threading.Thread(target=self._supervise, name="scores reporter", daemon=True)
        self._thread.start()

    def _supervise(self) -> None:
        """Start the child, listen to it, start it anew when it ends too early."""
        pause = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                self._listen()
            except OSError as error:
                self.trouble = f"the process that uploads could not be started: {error.strerror or error}"
            with self._lock:
                if self._over():
                    self._wake.notify_all()
                    return
                if not self.trouble:
                    self.trouble = "it did not answer in time, or the process that uploads died"
                self._greeting["again"] = False
                pause = _FIRST_PAUSE_S if time.monotonic() - began > _LONGEST_PAUSE_S else pause
                self._wake.wait(pause)
                if self._over():
                    return
                pause = min(pause * 2, _LONGEST_PAUSE_S if not self._finishing else _END_S)

    def _over(self) -> bool:
        """Another child would have nothing to do."""
        return bool(self.done or self.refusal or self._closing)

    def _listen(self) -> None:
        with child_log(self._run.path) as log:
            child = start_child(self._greeting, log)
        assert child.stdout is not None
        try:
            with self._lock:
                self._child, self._work = child, 0
                if self._closing:
                    _kill(child)
                    return
                if self._finishing:
                    self._tell(child)
            for line in child.stdout:
                with suppress(ValueError, KeyError, TypeError):  # nonsense of a child that is about to die
                    self._take(json.loads(line))
        finally:
            _end(child)
            with self._lock:
                self._child = None

    def _tell(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        with suppress(OSError, ValueError):
            child.stdin.write(b"finish\n")
            child.stdin.flush()

    def _take(self, said: dict[str, Any]) -> None:
        with self._lock:
            if "progress" in said:
                now = said["progress"]
                self.delivered, self.waiting = max(self.delivered, now["delivered"]), now["waiting"]
                self.refused, self.reason, self.broken = now["refused"], now["reason"], now["broken"]
                self.unknown, self.owing, self.gone = said["unknown"], said["owing"], now["gone"]
                if said["work"] > self._work:
                    self._work, self._changed_at = said["work"], time.monotonic()
            if "reached" in said:
                self._reached, self.trouble = True, ""
            if "unreachable" in said:
                self._reached, self.trouble, self.broken = False, said["unreachable"], said["broken"]
            if "older" in said:
                self.older.append(said["older"])
            if "refused" in said:
                self.refusal = said["refused"]["message"]
            self.whole = self.whole or "whole" in said
            self.done = self.done or "done" in said
            self._wake.notify_all()

    @property
    def reached(self) -> bool:
        """The backend takes what it gets, as far as is known."""
        with self._lock:
            return self._reached and not self.refusal and not self.trouble

    def wait_for_word(self, seconds: float) -> None:
        """Give the child a moment to say whether the backend is there."""
        with self._lock:
            self._wake.wait_for(lambda: self._reached or self.refusal or self.trouble, seconds)

    def warn(self) -> None:
        """Once, as soon as it is known that nothing arrives; by the thread that may write to the terminal."""
        problem = self.refusal or self.trouble
        if problem and not self._warned:
            self._warned = True
            self._say(
                f"warning: results do not reach {self._target.shown}: {_sentence(problem)}"
                f" The run goes on and keeps them; what to do: {self._remedy()}"
            )

    def _remedy(self) -> str:
        upload = f"`convex-evals upload {self._run.id.partition('-')[0]}` delivers them later"
        if self.refusal:
            return f"make a token that may report (`convex-evals token create`), then {upload}"
        if self.broken:
            return f"put the backend of this version there (`convex-evals deploy`), then {upload}"
        return f"start the backend or correct CONVEX_EVAL_URL; the next run or {upload}"

    def finish(self, *, stuck_s: float = _STUCK_S, longest_s: float = _LONGEST_S) -> None:
        """The journal is closed: wait while deliveries go on, within bounds and not in silence."""
        began = self._changed_at = said_at = time.monotonic()
        with self._lock:
            self._finishing = True
            if self._child is not None:
                self._tell(self._child)
            self._wake.notify_all()
        try:
            while True:
                with self._lock:
                    if self.done or self.refusal or (self.whole and self.trouble):
                        break
                    self._wake.wait(0.2)
                    now = time.monotonic()
                    if now - self._changed_at > stuck_s or now - began > longest_s:
                        break
                if now - said_at >= _SAY_S:
                    said_at = now
                    self._say(f"scores: {self.delivered} results delivered, {self.waiting} to go{self._why()}")
        except KeyboardInterrupt:
            self._say("scores: not waiting any longer")
        self.close()

    def _why(self) -> str:
        return f" ({self.trouble})" if self.trouble else ""

    def lines(self) -> list[str]:
        """For the summary."""
        older = [line for told in self.older for line in _older_lines(told)]
        if self.whole:
            told = f"scores: {self.delivered} results delivered to {self._target.shown}"
            taken = [told] if not self.refused else [f"{told}; {self.refused} refused: {_sentence(self.reason)}"]
            if not self.refused and self.reason:
                taken.append(f"warning: the scores backend refused a run: {_sentence(self.reason)}")
            if self.gone:
                taken.append(f"warning: files of {self.gone} results are gone; their verdicts are there without them")
            if self.reason and self.broken:
                taken.append(f"  what to do: {self._remedy()}")
            if not self.done and self.owing:
                why = _sentence(self.trouble or "the time was up")
                older.append(f"scores: the next run delivers what {self.owing} earlier runs may still owe: {why}")
            return taken + older
        problem = self.refusal or self.trouble or "the time was up"
        count = f"{self.waiting} results are" if self.waiting else "the end of the run is"
        return [
            f"warning: {count} not at {self._target.shown} yet: {_sentence(problem)} Nothing is lost.",
            f"  what to do: {self._remedy()}",
            *older,
        ]

    def close(self) -> None:
        """End the child, wherever it is."""
        with self._lock:
            self._closing = True
            child = self._child
            self._wake.notify_all()
        if child is not None and not self.done:
            _kill(child)
        self._thread.join(_END_S)


def _end(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        _kill(child)
        child.wait()


def _older_lines(told: dict[str, Any]) -> list[str]:
    """Of one earlier run."""
    run, lines = told["run"], []
    if told["sent"]:
        lines.append(f"scores: results of the earlier run {run} were delivered too")
    if told["reason"]:
        what = f"{told['refused']} results" if told["refused"] else "something"
        upload = f"`convex-evals upload {run.partition('-')[0]}`"
        lines.append(f"warning: {what} of the earlier run {run} stayed here: {_sentence(told['reason'])} Try {upload}.")
    return lines


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
