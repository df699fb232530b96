"""The loops that run items: in a worker of xdist, and in a session without workers.

Both begin an item without knowing the next one. An item whose successor is unknown is torn down up to the session, so
that fixtures of other people's tests with the scope of a session live as long as they should.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from pytest_convex_evals.readiness import Readiness

_END = object()
_GRACE_S = 1.0
_LOOK_S = 0.5


def run_ready(session: pytest.Session, readiness: Readiness) -> bool:
    """All items of a session without workers, each as soon as it is ready."""
    upcoming = readiness.take()
    while upcoming is not None or not readiness.exhausted:
        if upcoming is None:
            readiness.wait(_LOOK_S)
            upcoming = readiness.take()
            continue
        item, upcoming = session.items[upcoming], readiness.take()
        unknown = None if readiness.exhausted else session
        _run(item, unknown if upcoming is None else session.items[upcoming])
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def _run(item: pytest.Item, following: Any) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class WorkerLoop:
    """Takes the place of the loop of xdist's worker, which begins an item only when it knows the next one."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._upcoming: deque[int] = deque()
        self._open, self._running = True, False
        self._leaving = threading.Lock()
        """Taken for good by the first thread that hears of the end."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run what the controller sends until it says that no more comes."""
        worker = _interactor(session.config)
        if worker is None:
            return None
        self._running = True
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C reaches the controller too, which has all verdicts: nothing is left to be told.
            signal.signal(signal.SIGINT, lambda *_: self._leave())
        worker.channel.setcallback(self._told, endmarker=_END)
        try:
            while self._look():
                index = self._upcoming.popleft()
                self._look(block=False)
                unknown = session if self._open else None
                worker.item_index = index
                started = time.perf_counter()
                _run(session.items[index], session.items[self._upcoming[0]] if self._upcoming else unknown)
                duration = time.perf_counter() - started
                worker.sendevent("runtest_protocol_complete", item_index=index, duration=duration)
                if session.shouldfail or session.shouldstop:
                    break
        finally:
            self._running = False
        return True

    def _told(self, command: Any) -> None:
        """In the thread that reads the channel."""
        if command is _END and self._running:
            # Nobody is left who would hear of a verdict: the controller was killed, or interrupted alone. The loop
            # must not hear of it: it would end in order, and close what is being closed here.
            self._leave()
        else:
            self._commands.put(command)

    def _leave(self) -> None:
        """End what this process started, and then this process; the first is not worth a long wait."""
        if not self._leaving.acquire(blocking=False):
            return
        guard = threading.Timer(_GRACE_S, os._exit, [1])
        guard.daemon = True
        guard.start()
        try:
            self._give_up()
        finally:
            os._exit(1)

    def _look(self, *, block: bool = True) -> bool:
        """Read what was sent; whether there is something to run."""
        while self._open and (not self._commands.empty() or (block and not self._upcoming)):
            command = self._commands.get()
            if command is _END or command[0] == "shutdown":
                self._open = False
            elif command[0] == "runtests":
                self._upcoming.extend(command[1]["indices"])
        return bool(self._upcoming)


def _interactor(config: pytest.Config) -> Any:
    """Xdist's side of the worker; None where there is none that we know."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and hasattr(plugin, "channel") and hasattr(plugin, "sendevent"):
            return plugin
    return None
