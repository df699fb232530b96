"""Looking at the processes that a session starts, through /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_Found = TypeVar("_Found")


def parent_of(pid: int) -> int | None:
    """None when the process is gone; the dead that nobody has collected do not count."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # noqa: PTH123 - called again and again while a test waits
            state, parent = stream.read().rpartition(b")")[2].split(maxsplit=2)[:2]
    except OSError:
        return None
    return None if state == b"Z" else int(parent)


def parents() -> dict[int, int]:
    """Every process that lives, with its parent."""
    found = {int(name): parent_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: parent for pid, parent in found.items() if parent is not None}


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for ancestor in found:
        found += children.get(ancestor, [])
    return found[1:]


def programs(pid: int) -> list[int]:
    """Descendants that have no children: launchers of a cage wait for the program that they started."""
    tree = parents()
    return [one for one in descendants(pid) if one not in tree.values()]


def command_of(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def environment_of(pid: int) -> bytes:
    try:
        return (Path("/proc") / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


def lives(pid: int) -> bool:
    return parent_of(pid) is not None


def wait_until(condition: Callable[[], _Found], what: str, seconds: float = 120.0) -> _Found:
    """Look until it is so, and return what was seen; a test that waits in vain says for what."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.02)
    return found


def end(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def hear_interrupts() -> None:
    """For `preexec_fn`: a shell that starts tests in the background makes them and their children deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
