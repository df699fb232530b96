"""The workers of a session that is interrupted: all hear of it at once, and nobody waits long for a deaf one."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

_LONGEST_S = 1.2
"""From the word to the kill; a worker that hears it ends itself within less (`loops.py`)."""
_SHORTEST_S = 0.1


class Workers:
    """Those that xdist has started."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._told_at: float | None = None

    def add(self, node: Any) -> None:
        """Another one."""
        self._nodes.append(node)

    def tell_to_end(self) -> None:
        """A closed channel is how a worker learns that nobody listens; the others may end meanwhile."""
        self._told_at = time.monotonic()
        for node in self._nodes:
            with suppress(AttributeError, OSError):  # it has no channel yet, or is gone
                node.channel.close()

    def hurry(self) -> None:
        """Xdist, which waits for them last, kills those that had their time."""
        if self._told_at is not None:
            left = self._told_at + _LONGEST_S - time.monotonic()
            for node in self._nodes:
                node.nodemanager.EXIT_TIMEOUT = max(_SHORTEST_S, left)
