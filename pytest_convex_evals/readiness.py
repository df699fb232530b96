"""Which items may run now: those whose answer is there, and those that need none.

Answers arrive in a thread of their own, so everything here may be called from any thread.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence

Rank = tuple[float, ...]
"""What is smaller goes first; equal ranks keep the order of collection."""


class Readiness:
    """The items of a session, by their index in the collection."""

    def __init__(self, ranks: Sequence[Rank], waiting: Iterable[int], quick: Iterable[int] = ()) -> None:
        self._ranks = ranks
        self.quick = frozenset(quick)
        """Items behind which another one may wait: they are known to take next to no time."""
        self._waiting = set(waiting)
        self._ready = [(rank, index) for index, rank in enumerate(ranks) if index not in self._waiting]
        heapq.heapify(self._ready)
        self._changed = threading.Condition()
        self.on_change: Callable[[], None] = lambda: None
        """Called when something became ready, by whoever made it so."""

    def arrived(self, index: int) -> None:
        """What the item needs is there; a second time changes nothing."""
        self._release([index])

    def over(self) -> None:
        """Nothing will arrive any more: whatever waits may run, and will find out why it has no answer."""
        with self._changed:
            waiting = list(self._waiting)
        self._release(waiting)

    def _release(self, indices: Iterable[int]) -> None:
        with self._changed:
            released = [index for index in indices if index in self._waiting]
            self._waiting.difference_update(released)
            for index in released:
                heapq.heappush(self._ready, (self._ranks[index], index))
            self._changed.notify_all()
        if released:
            self.on_change()

    def give_back(self, index: int) -> None:
        """Taken, and not run."""
        with self._changed:
            heapq.heappush(self._ready, (self._ranks[index], index))
            self._changed.notify_all()

    def take(self) -> int | None:
        """The next item that may run; None: there is none at the moment."""
        with self._changed:
            return heapq.heappop(self._ready)[1] if self._ready else None

    def wait(self, seconds: float) -> None:
        """Until something is ready, for so long at most."""
        with self._changed:
            if not self._ready:
                self._changed.wait(seconds)

    @property
    def ready(self) -> int:
        """How many may run now."""
        with self._changed:
            return len(self._ready)

    @property
    def waiting(self) -> int:
        """How many wait for an answer."""
        with self._changed:
            return len(self._waiting)

    @property
    def exhausted(self) -> bool:
        """Everything was taken."""
        with self._changed:
            return not self._ready and not self._waiting


def longest_first(ids: Sequence[str], seconds: Callable[[str], float | None]) -> list[Rank]:
    """Ranks for several workers; what was never measured goes first, because it may be long."""
    expected = [seconds(node_id) for node_id in ids]
    return [(float(one is not None), -(one or 0.0)) for one in expected]
