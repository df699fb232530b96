"""The warm vitest of one pytest worker: a trusted Node process that compiles graders for caged ones to run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.pipes import LineChild, Refused

if TYPE_CHECKING:
    from pytest_convex_evals.engine.setup import Toolchain

_START_S = 60.0
_MEMORY = 700_000_000
"""A server that uses more ends after its report."""
_REPAIR = "run `convex-evals setup --force`"


class VitestServer:
    """Starts on first need, starts again after an end of any kind, ends with `close`."""

    def __init__(self, toolchain: Callable[[], Toolchain]) -> None:
        self._toolchain = toolchain
        self._child: LineChild | None = None
        self._starting = threading.Lock()

    def request(self, op: str, params: dict[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait; everything that goes wrong is `Trouble`."""
        child = self._ready()
        try:
            answer = child.request(op, params, deadline_s=deadline_s)
        except Refused as refused:
            raise Trouble("toolchain", f"vitest refused to {op} a grader: {refused.message}", remedy=_REPAIR) from None
        except Trouble:
            self.close()
            raise
        if isinstance(answer, dict) and answer.get("memory", 0) > _MEMORY:
            self.close()
        return answer

    def _ready(self) -> LineChild:
        with self._starting:
            if self._child is None or not self._child.alive:
                self.close()
                self._child = self._start()
            return self._child

    def _start(self) -> LineChild:
        toolchain = self._toolchain()
        child = LineChild(
            [str(toolchain.node), "--no-warnings", str(toolchain.script("vitest"))],
            cwd=toolchain.folder,
            # As in CI: snapshots are compared, never written.
            environment={"CI": "1", "NO_COLOR": "1", "PATH": os.defpath},
            name="the vitest server",
            cause="toolchain",
            remedy=_REPAIR,
        )
        child.greeting(_START_S)
        return child

    def close(self) -> None:
        """End it; its workers end with it."""
        if self._child is not None:
            self._child.close()
            self._child = None
