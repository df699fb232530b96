"""Looking at the processes that a session starts, through /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_Found = TypeVar("_Found")


def parents() -> dict[int, int]:
    """Every process that lives, with its parent; the dead that nobody has collected do not count."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                found[int(entry.name)] = int(parent)
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    tree = parents()
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in tree.items() if parent == ancestor]
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
    return pid in parents()


def wait_until(condition: Callable[[], _Found], what: str, seconds: float = 120.0) -> _Found:
    """Look until it is so, and return what was seen; a test that waits in vain says for what."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.01)
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
