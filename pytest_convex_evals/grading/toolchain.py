"""The toolchain worker: one trusted Node process per pytest worker that parses submitted code and never runs it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.pipes import LineChild, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_convex_evals.engine.setup import Toolchain

_START_S = 30.0
_YOUNG_HEAP = "--max-semi-space-size=64"
"""Type checking makes much garbage; with Node's default a fifth of the time goes into collecting it."""
_REPAIR = "run `convex-evals setup --force`"


class ToolchainWorker:
    """Starts on first need, starts again after a death, ends with `close`."""

    def __init__(self, toolchain: Callable[[], Toolchain]) -> None:
        self._toolchain = toolchain
        self._child: LineChild | None = None
        self._starting = threading.Lock()

    def request(self, op: str, params: dict[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait; whatever goes wrong is `Trouble`, and the next request gets a worker that works."""
        child = self._running()
        try:
            return child.request(op, params, deadline_s=deadline_s)
        except Refused as refused:
            reason = f"{op} failed in the toolchain worker: {refused}"
            raise Trouble("toolchain", reason, remedy=_REPAIR) from None
        except Trouble:
            self._give_up(child)
            raise

    def _running(self) -> LineChild:
        """One for all threads."""
        with self._starting:
            if self._child is None or not self._child.alive:
                self.close()
                self._child = self._start()
            return self._child

    def _give_up(self, child: LineChild) -> None:
        with self._starting:
            if self._child is child:
                self.close()

    def _start(self) -> LineChild:
        toolchain = self._toolchain()
        child = LineChild(
            [str(toolchain.node), _YOUNG_HEAP, str(toolchain.script("toolchain"))],
            cwd=toolchain.folder,
            environment={},
            name="the toolchain worker",
            cause="toolchain",
            remedy=_REPAIR,
        )
        child.greeting(_START_S)
        return child

    def close(self) -> None:
        """End the process and whatever it started."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
