"""The child behind a screen: an untrusted process that is asked over its standard streams and bounded from outside.

Submitted code runs inside it, so nothing it says is believed beyond what it shows: ids of requests are random, lines
that answer none of them are dropped, and its time, its memory and the length of its answers have limits.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cage.levels import INSIDE, exit_code, innermost
from pytest_convex_evals.cage.program import Limits, Program
from pytest_convex_evals.cage.spawn import start
from pytest_convex_evals.engine.setup import SNAPSHOT_FLAGS
from pytest_convex_evals.errors import Trouble

if TYPE_CHECKING:
    from pytest_convex_evals.cage.levels import Cage
    from pytest_convex_evals.engine.setup import Toolchain

START_S = 60.0
ANSWER_CPU_S = 10.0
"""Processor time for one answer."""
ANSWER_S = 30.0
"""Wall time for one answer, for a page that sleeps; waiting for a processor does not count."""
LIFE_CPU_S = 120
"""Processor time of a child; it ends by itself even when nobody is left to end it."""
HEAP_MB = 512
_HEAP_AT_FIRST_MB = 128
"""In use before the heap is searched for the first time; a search takes as long as a check, and few cells need one."""
MAX_ANSWER = 4 * 2**20
_LARGE_PAGES = [Path("/sys/kernel/mm/transparent_hugepage", name) for name in ("enabled", "hpage_pmd_size")]
"""What the C library asks about them."""
_ENVIRONMENT = {"TZ": "UTC", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Node reads the snapshot into memory twice: in large pages, where there are any; half of a start was page faults."""
_STDERR_KEPT = 8_000
_LOOK_S = 0.25
_END_S = 2.0
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that a page cannot send."""
_REPAIR = "run `convex-evals setup --force`"
_SCRIPT, _PACKAGES, _RELAY = f"{INSIDE}/screen.mjs", f"{INSIDE}/node_modules", f"{INSIDE}/relay"
_SNAPSHOT = f"{INSIDE}/screen.blob"


class ScreenError(AssertionError):
    """What was asked for cannot be done on this screen."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class ScreenChild:
    """Starts when it is made; `start` waits for it."""

    def __init__(self, toolchain: Toolchain, cage: Cage, relay: Path | None = None) -> None:
        self.used = False
        """Submitted code was given to it."""
        self.programs: set[str] = set()
        """Names of the programs that it has, and that need not be sent again."""
        self.closed = False
        self._ready = False
        self._received, self._stderr = b"", b""
        self._pid: int | None = None
        """Of the program inside, once it has said something; a launcher may stand before it."""
        places, entry = _entry(toolchain, cage)
        if relay is not None:
            places[_RELAY] = relay
        places |= {str(path): path for path in _LARGE_PAGES if path.is_file()}
        command = [
            *cage.prefix(Program(read=places, environment=_ENVIRONMENT, limits=Limits(cpu_s=LIFE_CPU_S))),
            cage.node_inside,
            "--permission",
            *SNAPSHOT_FLAGS,
            f"--max-old-space-size={HEAP_MB}",
            f"--initial-old-space-size={_HEAP_AT_FIRST_MB}",
            *entry,
            *([_RELAY] if relay is not None else []),
        ]
        try:
            self.process = start(command, cwd=toolchain.folder, environment=_ENVIRONMENT)
        except OSError as error:
            raise Trouble("toolchain", f"the screen could not be started: {error}", remedy=_REPAIR) from None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._complaints = self.process.stderr.fileno()
        for stream in (self._input, self._output, self._complaints):
            os.set_blocking(stream, False)

    @property
    def alive(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    def start(self) -> None:
        """Wait until it is ready; what goes wrong before is ours."""
        if self._ready:
            return
        try:
            self._exchange(b"", lambda line: "ready" in line, cpu_s=START_S, wall_s=START_S)
        except _Ended:
            raise Trouble("toolchain", f"the screen did not start{self._last_words()}", remedy=_REPAIR) from None
        except _TooSlow as slow:
            raise Trouble("toolchain", f"the screen did not start: {slow}", remedy=_REPAIR) from None
        with suppress(OSError):
            self._pid = innermost(self.process.pid)
        self._ready = True

    def request(self, op: str, params: Mapping[str, Any]) -> Any:
        """Ask and wait; what a page that was loaded does to the answer is the submission's."""
        self.start()
        number = secrets.token_hex(16)
        self.used = self.used or op == "render"
        line = json.dumps({"id": number, "op": op, "params": params}).encode() + b"\n"
        try:
            answer = self._exchange(line, lambda line: line.get("id") == number, cpu_s=ANSWER_CPU_S, wall_s=ANSWER_S)
        except _TooSlow as slow:
            self.close()
            raise AssertionError(f"the page does not respond: {slow}") from None
        except _Ended:
            raise self._died(op) from None
        except BaseException:
            self.close()  # half a line may have been sent
            raise
        error = answer.get("error")
        if isinstance(error, dict):
            raise ScreenError(str(error.get("code")), str(error.get("message")))
        return answer.get("ok")

    def _died(self, op: str) -> Exception:
        try:
            code = exit_code(self.process.wait(2.0))
        except subprocess.TimeoutExpired:
            code = 0  # it lives on without its streams
        self.close()
        if not self.used or (code < 0 and -code in _FROM_OUTSIDE):
            return Trouble("cage", f"the process that shows the page ended during {op} (exit code {code})")
        return AssertionError(f"the page took its process down (exit code {code}){self._last_words()}")

    def _exchange(self, line: bytes, wanted: Any, *, cpu_s: float, wall_s: float) -> dict[str, Any]:
        """Send a line and read until the wanted one comes."""
        started, (cpu, queued) = time.monotonic(), self._clocks()
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._complaints, selectors.EVENT_READ)
            if line:
                selector.register(self._input, selectors.EVENT_WRITE)
            while True:
                for key, _ in selector.select(_LOOK_S):
                    if key.fd == self._input:
                        line = self._send(line)
                        if not line:
                            selector.unregister(self._input)
                    elif key.fd == self._complaints:
                        if not self._hear():
                            selector.unregister(self._complaints)
                    elif (answer := self._receive(wanted)) is not None:
                        return answer
                cpu_now, queued_now = self._clocks()
                if cpu_now - cpu > cpu_s:
                    raise _TooSlow(f"busy for more than {cpu_s:.0f} s")
                if time.monotonic() - started - (queued_now - queued) > wall_s:
                    raise _TooSlow(f"silent for more than {wall_s:.0f} s")

    def _send(self, line: bytes) -> bytes:
        try:
            return line[os.write(self._input, line[:65_536]) :]
        except BlockingIOError:
            return line
        except OSError:
            return b""

    def _hear(self) -> bool:
        said = os.read(self._complaints, 65_536)
        self._stderr = (self._stderr + said)[-_STDERR_KEPT:]
        return bool(said)

    def _receive(self, wanted: Any) -> dict[str, Any] | None:
        """The wanted line, when it is among what can be read now."""
        said = os.read(self._output, 1 << 20)
        if not said:
            raise _Ended
        *lines, self._received = (self._received + said).split(b"\n")
        if len(self._received) > MAX_ANSWER:
            raise _TooSlow("its answer has no end")
        for line in lines:
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(answer, dict) and wanted(answer):
                return answer
        return None

    def _clocks(self) -> tuple[float, float]:
        """Seconds that its main thread has run, and waited for a processor; 0 where that cannot be told."""
        try:
            ran, waited, *_ = Path(f"/proc/{self._pid}/schedstat").read_bytes().split()
        except (OSError, ValueError):
            return 0.0, 0.0
        return int(ran) / 1e9, int(waited) / 1e9

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            while self._hear():
                pass
        lines = self._stderr.decode(errors="replace").strip().splitlines()
        fatal = [line for line in lines if line.startswith("FATAL ERROR")]
        said = "\n".join(fatal or lines)[-600:]
        return f": {said}" if said else ""

    def close(self) -> None:
        """End it and everything of its process group; first the program, so that its launcher collects it."""
        self.closed = True
        if self._pid is not None and self.alive:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.kill(self._pid, signal.SIGKILL)
                self.process.wait(_END_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._last_words()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _entry(toolchain: Toolchain, cage: Cage) -> tuple[dict[str, Path | str], list[str]]:
    """What it needs to see, and what of it Node is to start: the snapshot needs no file, the script all packages."""
    snapshot = toolchain.screen_snapshot
    if snapshot is not None:
        return {_SNAPSHOT: snapshot}, ["--snapshot-blob", cage.place(_SNAPSHOT, snapshot), "screen"]
    script, modules = toolchain.script("screen"), toolchain.folder / "node_modules"
    inside = [cage.place(_PACKAGES, modules), cage.place(_SCRIPT, script)]
    return {_SCRIPT: script, _PACKAGES: modules}, [*(f"--allow-fs-read={path}" for path in inside), inside[1]]


class _Ended(Exception):  # noqa: N818 - a state
    """The child is gone."""


class _TooSlow(Exception):  # noqa: N818 - a state
    """The child used up what it may."""
