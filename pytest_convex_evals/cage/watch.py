"""Limits that the kernel does not hold for us: how many processes a caged program has, and their memory together.

Looked at from outside, some times a second. A cage ends as a whole, so whatever was started in between ends, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pytest_convex_evals.cage.program import MB, Limits

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LAUNCHERS = 3
"""Processes of the cage itself."""


def watch(limits: Limits) -> Callable[[int], str]:
    """What is used up by a process and its descendants; empty as long as nothing is."""

    def look(pid: int) -> str:
        family = list(_family(pid))
        if len(family) > limits.processes + _LAUNCHERS:
            return f"{limits.processes} processes"
        if sum(map(_resident, family)) > limits.memory_of_all:
            return f"{limits.memory_of_all // MB} MB of memory"
        return ""

    return look


def _family(pid: int) -> Iterator[int]:
    """A process and all below it, as far as the system tells."""
    yield pid
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:  # noqa: PTH123 - often called
            children = stream.read().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as stream:  # noqa: PTH123 - often called
            return int(stream.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
