"""Which worker gets which cell: the longest first, one at a time, to whoever is free.

A worker of xdist begins an item only when it knows the next one, so each holds two cells: the one that it works on and
the one after it. Sessions without evals, and other ways of distribution (`--dist`), are left to xdist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdist.scheduler import LoadScheduling  # type: ignore[import-untyped]

_HELD = 2


class HandOut(LoadScheduling):  # type: ignore[misc]
    """xdist's own bookkeeping with another order."""

    def __init__(self, config: Any, log: Any, order: Callable[[Sequence[str]], list[int] | None]) -> None:
        super().__init__(config, log)
        self._order = order
        self._begun, self._ours = False, False

    def schedule(self) -> None:
        """Called when all workers have collected, and again when one is replaced."""
        ids: list[str] = next(iter(self.node2collection.values()), [])
        first = not self._begun and self._check_nodes_have_same_collection()
        self._begun = True
        order = self._order(ids) if first else None
        if order is None:
            super().schedule()
            return
        self._ours, self.collection, self.pending = True, ids, order
        # Forth and back, so that whoever got the longest cell gets the shortest of the first ones too.
        for node in [*self.nodes, *reversed(self.nodes)]:
            self._send_tests(node, 1)
        if not self.pending:
            for node in self.nodes:
                node.shutdown()

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """A worker may be free."""
        if not self._ours:
            super().check_schedule(node, duration)
        elif not node.shutting_down:
            if self.pending:
                self._send_tests(node, _HELD - len(self.node2pending[node]))
            else:
                node.shutdown()


def longest_first(ids: Sequence[str], seconds: Callable[[str], float | None]) -> list[int]:
    """Indices in the order of hand-out; what was never measured goes first, because it may be long."""
    expected = [seconds(node_id) for node_id in ids]
    return sorted(range(len(ids)), key=lambda at: (expected[at] is not None, -(expected[at] or 0.0), at))
