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
_REPAIR = "run `convex-evals setup --force`"


class ToolchainWorker:
    """Starts on first need, starts again after a death, ends with `close`."""

    def __init__(self, toolchain: Callable[[], Toolchain]) -> None:
        self._toolchain = toolchain
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._stderr = b""
        self._next_id = 0

    def request(self, method: str, params: dict[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait; a dead, silent or nonsensical worker is `Trouble`."""
        process = self._process if self._process is not None and self._process.poll() is None else self._start()
        self._next_id += 1
        line = json.dumps({"id": self._next_id, "method": method, "params": params}).encode() + b"\n"
        assert process.stdin is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            raise self._died(f"while it was asked for {method}") from None
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
        for target in (self._read_answers, self._read_complaints):
            threading.Thread(target=target, args=(process, self._lines), daemon=True).start()
        if "ready" not in self._receive(_START_S, "while it started"):
            self.close()
            raise Trouble("toolchain", "the toolchain worker did not report ready", remedy=_REPAIR)
        return process

    @staticmethod
    def _read_answers(process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(b"")

    def _read_complaints(self, process: subprocess.Popen[bytes], _: queue.Queue[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            for line in stream:
                self._stderr = (self._stderr + line)[-4_000:]

    def _receive(self, deadline_s: float, when: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=deadline_s)
        except queue.Empty:
            self.close()
            raise Trouble("toolchain", f"the toolchain worker was silent for {deadline_s:.0f} s {when}") from None
        if not line:
            raise self._died(when)
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        return reply if isinstance(reply, dict) else {}

    def _died(self, when: str) -> Trouble:
        process, self._process = self._process, None
        code = process.wait() if process is not None else None
        said = self._stderr.decode(errors="replace").strip()
        tail = f": {said[-600:]}" if said else ""
        return Trouble("toolchain", f"the toolchain worker died {when} (exit code {code}){tail}", remedy=_REPAIR)

    def close(self) -> None:
        """End the process and whatever it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
