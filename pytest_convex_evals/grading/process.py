"""Running a command: deadline, own process group, killed with its group, output captured and capped."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_HEAD, _TAIL = 64 * 1024, 192 * 1024
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    exit_code: int
    """Negative: ended by that signal."""
    output: str
    """Standard output."""
    complaints: str
    """Standard error."""
    timed_out: bool
    """It was killed at its deadline."""
    used_up: str = ""
    """It was killed because of this, which `watch` saw."""

    @property
    def killed(self) -> bool:
        """Ended by a signal that nobody of us sent."""
        return self.exit_code < 0 and not self.timed_out and not self.used_up


class _Capped:
    """The beginning and the end of a stream; the middle of a long one is dropped."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._head, self._tail, self._dropped = b"", b"", 0
        self._thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
        self._thread.start()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read1(65_536):  # type: ignore[attr-defined]
                room = _HEAD - len(self._head)
                self._head += chunk[:room]
                self._tail += chunk[room:]
                if len(self._tail) > _TAIL:
                    self._dropped += len(self._tail) - _TAIL
                    self._tail = self._tail[-_TAIL:]

    def text(self) -> str:
        self._thread.join(5.0)
        middle = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return (self._head + middle + self._tail).decode(errors="replace")


def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    deadline_s: float,
    watch: Callable[[int], str] = lambda _pid: "",
    watch_s: float = 0.1,
) -> Finished:
    """Run to the end, to the deadline or until `watch` names something; nothing of its group outlives the call."""
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaints = _Capped(process.stdout), _Capped(process.stderr)
    try:
        in_time, used_up = _wait(process.pid, deadline_s, watch, watch_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Finished(process.returncode, output.text(), complaints.text(), timed_out=not in_time, used_up=used_up)


def _wait(pid: int, deadline_s: float, watch: Callable[[int], str], watch_s: float) -> tuple[bool, str]:
    """Whether it ended in time, and what it used up; it is not reaped, so that its group can still be named."""
    deadline, pause = time.monotonic() + deadline_s, 0.002
    look = time.monotonic() + watch_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False, ""
        if time.monotonic() > look:
            used_up = watch(pid)
            if used_up:
                return True, used_up
            look = time.monotonic() + watch_s
        time.sleep(pause)
        pause = min(pause * 1.5, _POLL_S)
    return True, ""
