"""The toolchain worker: one trusted Node process per pytest worker that parses submitted code and never runs it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import SetupError, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_convex_evals.engine.setup import Toolchain

_START_S = 30.0
_END_S = 2.0
_REPAIR = "run `convex-evals setup --force`"


class ToolchainWorker:
    """Starts on first need, starts again after a death, ends with `close`."""

    def __init__(self, toolchain: Callable[[], Toolchain]) -> None:
        self._toolchain = toolchain
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._stderr = b""
        self._complaints: threading.Thread | None = None
        self._next_id = 0

    def request(self, method: str, params: dict[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait; a dead, silent or nonsensical worker is `Trouble`."""
        process = self._process if self._process is not None and self._process.poll() is None else self._start()
        self._next_id += 1
        line = json.dumps({"id": self._next_id, "method": method, "params": params}).encode() + b"\n"
        self._send(process, line, deadline_s, f"while it was asked for {method}")
        reply = self._receive(deadline_s, f"while it worked on {method}")
        while isinstance(reply.get("id"), int) and reply["id"] < self._next_id:
            # The answer to a question that nobody waits for any more.
            reply = self._receive(deadline_s, f"while it worked on {method}")
        if reply.get("id") != self._next_id or ("result" in reply) == ("error" in reply):
            self.close()
            raise Trouble("toolchain", f"the toolchain worker answered nonsense to {method}", remedy=_REPAIR)
        if "error" in reply:
            raise Trouble("toolchain", f"{method} failed in the toolchain worker: {reply['error']}", remedy=_REPAIR)
        return reply["result"]

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        try:
            toolchain = self._toolchain()
        except SetupError as error:
            raise Trouble("toolchain", str(error), remedy=error.remedy) from None
        except OSError as error:
            raise Trouble("toolchain", f"the set-up of the Node toolchain failed: {error}", remedy=_REPAIR) from None
        self._lines = queue.Queue()
        try:
            process = subprocess.Popen(
                [str(toolchain.node), str(toolchain.script("toolchain"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=toolchain.folder,
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise Trouble("toolchain", f"Node could not be started: {error}", remedy=_REPAIR) from None
        self._process, self._stderr = process, b""
        threading.Thread(target=self._read_answers, args=(process, self._lines), daemon=True).start()
        self._complaints = threading.Thread(target=self._read_complaints, args=(process,), daemon=True)
        self._complaints.start()
        if "ready" not in self._receive(_START_S, "while it started"):
            self.close()
            raise Trouble("toolchain", "the toolchain worker did not report ready", remedy=_REPAIR)
        return process

    def _send(self, process: subprocess.Popen[bytes], line: bytes, deadline_s: float, when: str) -> None:
        """A worker that does not read is killed at the deadline, which ends the writing."""
        assert process.stdin is not None
        stuck = threading.Timer(deadline_s, _kill, (process,))
        stuck.daemon = True
        stuck.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            raise self._died(when) from None
        finally:
            stuck.cancel()

    @staticmethod
    def _read_answers(process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(b"")

    def _read_complaints(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            for line in stream:
                self._stderr = (self._stderr + line)[-4_000:]

    def _receive(self, deadline_s: float, when: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=deadline_s)
        except queue.Empty:
            self.close()
            reason = f"the toolchain worker was silent for {deadline_s:.0f} s {when}"
            raise Trouble("toolchain", reason, remedy="run the same command again") from None
        if not line:
            raise self._died(when)
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        return reply if isinstance(reply, dict) else {}

    def _died(self, when: str) -> Trouble:
        code = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_END_S)
        self.close()
        if self._complaints is not None:
            self._complaints.join(_END_S)
        lines = self._stderr.decode(errors="replace").splitlines()
        said = "\n".join(line for line in lines if line.strip() and not line.startswith("    at "))
        tail = f": {said[-600:]}" if said else ""
        return Trouble("toolchain", f"the toolchain worker died {when} (exit code {code}){tail}", remedy=_REPAIR)

    def close(self) -> None:
        """End the process and whatever it started."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
