"""Which worker gets which cell: those that are ready, the longest first, to whoever is free.

A worker holds one cell. It gets a second one in advance only behind one that is known to be quick, and while there are
more ready cells than workers: so no cell waits behind a long one while somebody is free (`loops.py` begins a cell
without knowing the next). Sessions without evals, and other ways of distribution (`--dist`), are left to xdist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from xdist.scheduler import LoadScheduling  # type: ignore[import-untyped]

from pytest_convex_evals.readiness import Readiness


class HandOut(LoadScheduling):  # type: ignore[misc]
    """xdist's own bookkeeping with another order; answers arrive in a thread of their own, hence the lock."""

    collection: list[str] | None

    def __init__(self, config: Any, log: Any, readiness: Callable[[], Readiness | None]) -> None:
        super().__init__(config, log)
        self._find = readiness
        self._readiness: Readiness | None = None
        self._lock = threading.RLock()

    @property
    def tests_finished(self) -> bool:
        """Everything was handed out and is done."""
        if self._readiness is None:
            return bool(super().tests_finished)
        with self._lock:
            return self._readiness.exhausted and not any(self.node2pending.values())

    @property
    def has_pending(self) -> bool:
        """Something is still to be done."""
        if self._readiness is None:
            return bool(super().has_pending)
        return not self.tests_finished

    def schedule(self) -> None:
        """Called when all workers have collected, and again when one is replaced."""
        if self._readiness is None and self.collection is None and self._check_nodes_have_same_collection():
            self._readiness = self._find()
            if self._readiness is not None:
                self.collection = next(iter(self.node2collection.values()))
                self._readiness.on_change = self._feed
        if self._readiness is None:
            super().schedule()
        else:
            self._feed()

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """A worker may be free."""
        if self._readiness is None:
            super().check_schedule(node, duration)
        else:
            self._feed()

    def mark_test_pending(self, item: str) -> None:
        """Somebody wants an item to run again."""
        if self._readiness is None:
            super().mark_test_pending(item)
            return
        assert self.collection is not None
        self._readiness.give_back(self.collection.index(item))
        self._feed()

    def remove_node(self, node: Any) -> str | None:
        """A worker has ended; what it was working on when it died."""
        if self._readiness is None:
            crashed: str | None = super().remove_node(node)
            return crashed
        with self._lock:
            held: Sequence[int] = self.node2pending.pop(node)
            # One that ended in order had nothing in its hands, only something on the way to it.
            died = not hasattr(node, "workeroutput")
            for index in held[1:] if died else held:
                self._readiness.give_back(index)
            self._feed()
        return self.collection[held[0]] if died and held and self.collection is not None else None

    def _feed(self) -> None:
        """Whoever is free gets a cell; when nothing is left to hand out, workers may end."""
        assert self._readiness is not None
        with self._lock:
            nodes = [node for node in self.nodes if not node.shutting_down]
            for node in nodes:
                if not self.node2pending[node]:
                    self._send(node)
            for node in nodes:
                held = self.node2pending[node]
                if len(held) == 1 and held[0] in self._readiness.quick and self._readiness.ready > len(nodes):
                    self._send(node)
            if self._readiness.exhausted:
                for node in nodes:
                    node.shutdown()

    def _send(self, node: Any) -> None:
        assert self._readiness is not None
        index = self._readiness.take()
        if index is not None:
            self.node2pending[node].append(index)
            try:
                node.send_runtest_some([index])
            except OSError:
                # It died, and xdist has not told us yet; `remove_node` will hand the cell to another.
                self.node2pending[node].remove(index)
                self._readiness.give_back(index)
