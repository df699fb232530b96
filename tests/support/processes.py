"""Looking at processes through /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """(pid, command line) of all processes below one, parents first."""
    for child in _children(pid):
        yield child, _command(child)
        yield from descendants(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(text) for text in task.read_text().split()]
        except OSError:
            continue
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Running, not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(look: Callable[[], object], seconds: float = 30.0) -> object:
    """What `look` returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen")
        time.sleep(0.005)
    return found


def hear_interrupts() -> None:
    """For `preexec_fn`: a shell that starts tests in the background makes them and their children deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kill(pid: int) -> None:
    """As the system would."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
