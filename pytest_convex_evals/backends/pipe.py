"""A trusted child that answers JSON lines: requests by id on its input, answers on its output."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import Trouble

_STDERR_KEPT = 8_000


class PipeChild:
    """One process, any number of requests at a time from any thread; its death wakes everybody who waits."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._greetings: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
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
            raise Trouble("backend", f"{name} could not be started: {error}") from None
        for target in (self._read_answers, self._read_complaints):
            threading.Thread(target=target, name=f"{name}-{target.__name__}", daemon=True).start()

    def greeting(self, deadline_s: float) -> dict[str, Any]:
        """The first line."""
        try:
            line = self._greetings.get(timeout=deadline_s)
        except queue.Empty:
            self.close()
            raise Trouble("backend", f"{self._name} did not start within {deadline_s:.0f} s") from None
        if line is None:
            raise self._died("while it started")
        return line

    def request(self, op: str, params: Mapping[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait. An `error` in the answer is `PipeError`; silence or death is `Trouble`."""
        answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            if self._gone:
                raise self._died(f"before it was asked for {op}")
            self._next_id += 1
            number = self._next_id
            self._waiting[number] = answers
            line = json.dumps({"id": number, "op": op, "params": params}, allow_nan=False).encode() + b"\n"
            try:
                assert self.process.stdin is not None
                self.process.stdin.write(line)
                self.process.stdin.flush()
            except OSError:
                self._waiting.pop(number, None)
                raise self._died(f"when it was asked for {op}") from None
        try:
            answer = answers.get(timeout=deadline_s)
        except queue.Empty:
            raise PipeSilence(f"{self._name} did not answer {op} within {deadline_s:.0f} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer is None:
            raise self._died(f"while it worked on {op}")
        if "error" in answer:
            raise PipeError(answer["error"])
        return answer.get("ok")

    def _read_answers(self) -> None:
        assert self.process.stdout is not None
        first = True
        with self.process.stdout as stream:
            for line in stream:
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue
                if first:
                    first = False
                    self._greetings.put(answer)
                    continue
                with self._lock:
                    waiting = self._waiting.get(answer.get("id", 0))
                if waiting is not None:
                    waiting.put(answer)
        with self._lock:
            self._gone = True
            for waiting in self._waiting.values():
                waiting.put(None)
        self._greetings.put(None)

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self._stderr = (self._stderr + line)[-_STDERR_KEPT:]

    def _died(self, when: str) -> Trouble:
        said = self._stderr.decode(errors="replace").strip()[-600:]
        tail = f": {said}" if said else ""
        return Trouble("backend", f"{self._name} died {when} (exit code {self.process.poll()}){tail}")

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None and not self._gone

    def close(self) -> None:
        """End it and everything of its process group."""
        with suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class PipeError(Exception):
    """The child refused a request, in its own words."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.code = str(error.get("code", "unknown"))
        self.message = str(error.get("message", ""))
        super().__init__(f"{self.code}: {self.message}")


class PipeSilence(Trouble):
    """The child did not answer in time."""

    def __init__(self, reason: str) -> None:
        super().__init__("backend", reason)
