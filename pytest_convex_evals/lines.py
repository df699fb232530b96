"""The two pipes of a child that speaks lines: whoever waits for one reads.

No thread of their own reads: of those who wait, one reads for all of them, and another takes over when it has what it
waits for. So a lone asker pays for no change of threads, which would cost more than everything else it does. A child
that wants to be read before it reads on is read by whoever writes.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

_CHUNK = 2**16
_LOOK_S = 1.0
"""How long somebody who is not called looks whether nobody reads: a reader may be interrupted at any point."""
_Content = TypeVar("_Content")


class Box(Generic[_Content]):
    """Where one line arrives for one who waits."""

    __slots__ = ("_bell", "content", "full")

    content: _Content

    def __init__(self) -> None:
        self.full = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def put(self, content: _Content) -> None:
        """Only the first counts."""
        if not self.full:
            self.content, self.full = content, True
            self.ring()

    def ring(self) -> None:
        """Wake who waits: something is in it, or nobody reads."""
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def listen(self, seconds: float) -> None:
        """Until it rings, or for so long."""
        self._bell.acquire(timeout=seconds)


class LinePipes(Generic[_Content]):
    """Any number of threads may send and wait at the same time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        deliver: Callable[[bytes], None],
        ended: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """Lines go to `deliver`, in the thread that reads; `give_up` ends the child when a part of a line was lost."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._deliver, self._on_end, self._give_up = deliver, ended, give_up
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._waiting: dict[Box[_Content], None] = {}
        self._parts: list[bytes] = []
        self._ended = False

    def send(self, line: bytes, deadline: float) -> None:
        """`TimeoutError` when the child does not read in time, another `OSError` when it is gone."""
        if not self._writing.acquire(timeout=_left(deadline)):
            raise TimeoutError
        rest = memoryview(line)
        try:
            if self._input.closed:
                raise BrokenPipeError
            while rest:
                try:
                    rest = rest[os.write(self._in, rest) :]
                except BlockingIOError:
                    self._until_writable(deadline)
        except BaseException:
            if len(rest) < len(line):
                self._give_up()
            raise
        finally:
            self._writing.release()

    def wait(self, box: Box[_Content], deadline: float) -> bool:
        """Whether something arrived in time."""
        self._waiting[box] = None
        try:
            while not box.full and not self._ended and (left := _left(deadline)) > 0:
                if self._reading.acquire(blocking=False):
                    try:
                        self._read_until(box, deadline)
                    finally:
                        self._reading.release()
                else:
                    box.listen(min(left, _LOOK_S))
        finally:
            self._waiting.pop(box, None)
            self._call_next()
        return box.full

    def _call_next(self) -> None:
        """Somebody else who waits reads from now on."""
        if not self._reading.locked():
            for box in list(self._waiting):
                if not box.full:
                    box.ring()
                    return

    def _read_until(self, box: Box[_Content], deadline: float) -> None:
        ready = select.poll()
        ready.register(self._out, select.POLLIN)
        while not box.full and not self._ended and (left := _left(deadline)) > 0:
            if ready.poll(left * 1000):
                self._read()

    def _until_writable(self, deadline: float) -> None:
        left = _left(deadline)
        if left <= 0:
            raise TimeoutError
        ready = select.poll()
        ready.register(self._in, select.POLLOUT)
        reads = self._reading.acquire(blocking=False)
        try:
            if reads and not self._ended:
                ready.register(self._out, select.POLLIN)
            found = ready.poll((left if reads else min(left, _LOOK_S)) * 1000)
            if any(handle == self._out for handle, _ in found):
                self._read()
        finally:
            if reads:
                self._reading.release()
                self._call_next()

    def _read(self) -> None:
        """Takes what is there; who reads holds the lock."""
        try:
            data = os.read(self._out, _CHUNK)
            *lines, rest = data.split(b"\n")
            if lines:
                lines[0] = b"".join([*self._parts, lines[0]])
                self._parts = []
            self._parts.append(rest)
            for line in lines:
                self._deliver(line)
            if not data:
                self._end()
        except BaseException:
            self._give_up()
            raise

    def _end(self) -> None:
        if not self._ended:
            self._output.close()
            self._on_end()
            self._ended = True

    def close(self) -> None:
        """After the end of the process; whoever reads or writes at the moment notices it by itself."""
        with self._writing, suppress(OSError):
            self._input.close()
        if self._reading.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._reading.release()


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
