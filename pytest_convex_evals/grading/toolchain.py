"""The toolchain worker: one trusted Node process per pytest worker that parses submitted code and never runs it."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.cage.levels import Cage
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import passing_folder
from pytest_convex_evals.pipes import Death, LineChild, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_convex_evals.engine.setup import Toolchain

_START_S = 30.0
_NODE_FLAGS = ("--max-semi-space-size=32", "--initial-old-space-size=700", "--no-turbofan")
"""Type checking makes much garbage; with Node's default a fifth of the time goes into collecting it. The worker itself
knows when much of what is old is garbage; V8 would mark the heap in other threads again and again as it grows. There,
too, TurboFan works as long as the worker lives, on code that is hardly faster than what Maglev makes of it."""
_MEMORY_MB = 800
"""A worker that uses more ends after its answer."""
_LIMITS = Limits(memory=4096 * MB, open_files=4096)
"""Of the worker, and of the bundler that it starts."""
_BROKE = "internal"
_REPAIR = "run `convex-evals setup --force`"


class ToolchainWorker:
    """Starts on first need, starts again after an end of any kind, ends with `close`; any number of threads may ask."""

    def __init__(self, toolchain: Callable[[], Toolchain]) -> None:
        self._toolchain = toolchain
        self._child: LineChild | None = None
        self._folder: Path | None = None
        self._starting = threading.Lock()

    def request(self, op: str, params: dict[str, Any], *, deadline_s: float) -> Any:
        """Ask and wait; when the worker dies over it, ask a fresh one once more. What then goes wrong is `Trouble`."""
        deadline = time.monotonic() + deadline_s
        try:
            return self._ask(op, params, deadline_s)
        except Death:
            if time.monotonic() > deadline:  # it did not even read what it was asked
                raise
        return self._ask(op, params, deadline_s)

    def _ask(self, op: str, params: dict[str, Any], deadline_s: float) -> Any:
        child = self._ready()
        try:
            return child.request(op, params, deadline_s=deadline_s)
        except Refused as refused:
            if refused.code == _BROKE:
                # What broke may be broken for the next request, too.
                self._give_up(child)
            reason = f"{op} failed in the toolchain worker: {refused}"
            raise Trouble("toolchain", reason, remedy=_REPAIR) from None
        except Trouble:
            self._give_up(child)
            raise

    def _ready(self) -> LineChild:
        with self._starting:
            if self._child is None or not self._child.alive:
                self._give_up(self._child)
                self._child = self._start()
            return self._child

    def _start(self) -> LineChild:
        toolchain = self._toolchain()
        # What it reads was submitted: it may be made to use as much as it can get.
        limited = Cage("node", toolchain.node, toolchain.folder).prefix(Program(limits=_LIMITS))
        child = LineChild(
            [
                *[*limited, str(toolchain.node), *_NODE_FLAGS, str(toolchain.script("toolchain"))],
                *[str(_MEMORY_MB), *self._own_folder()],
            ],
            cwd=toolchain.folder,
            environment={},
            name="the toolchain worker",
            cause="toolchain",
            remedy=_REPAIR,
        )
        child.greeting(_START_S)
        return child

    def _own_folder(self) -> list[str]:
        """Where it keeps replicas of projects; it works without."""
        self._remove_folder()
        with suppress(OSError):
            self._folder = passing_folder("convex-evals-toolchain-")
        return [] if self._folder is None else [str(self._folder)]

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _give_up(self, child: LineChild | None) -> None:
        """End this one; another thread may have started the next."""
        if child is not None:
            child.close()
        if self._child is child:
            self._child = None

    def close(self) -> None:
        """End the process and whatever it started."""
        self._give_up(self._child)
        self._remove_folder()
