"""The controller's side of the generation child."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_convex_evals.generation.answers import Answer, Places, find_answer, leave_answer
from pytest_convex_evals.generation.calls import Order
from pytest_convex_evals.generation.child import DISK_EXIT
from pytest_convex_evals.generation.events import Answered, Event, Spend, parse_event
from pytest_convex_evals.generation.patience import Patience
from pytest_convex_evals.generation.tickets import Greeting
from pytest_convex_evals.records import Errored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BARE_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT")
_END_S = 1.2
"""From the word to the kill; a child that has something to write takes a second at most."""
_LAST_EVENTS_S = 0.5
"""After the end of a child; nobody needs what it said last."""
RESTARTS = 5
"""Children in a row that may die without having answered anything."""
_AGAIN = "run the same command again: answers that were stored are not paid twice"
PATIENCE = "EVALS_INTERNAL_PATIENCE"
"""Other deadlines, as JSON; for tests."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a session allows its child."""

    concurrency: int
    """Calls in flight per provider."""
    budget_usd: float | None = None
    """Over all models; None: no limit."""


class GenerationClient:
    """Starts the child, gives it tickets, and starts another one when it dies.

    The child starts at once, because loading litellm takes seconds; the folder of the run need not be there before the
    first ticket. From then on a lock on a file of the run is held by this process and by the child: whoever waits for
    an answer sees by it that none will come. Events are handed on from a thread of their own.
    """

    def __init__(
        self,
        places: Places,
        environment: Mapping[str, str],
        purchase: Purchase,
    ) -> None:
        self.places = places
        self.on_progress: Callable[[Event], None] = lambda _: None
        """Gets every event; there is none before the first ticket."""
        self.defects: list[str] = []
        """What `on_progress` raised, for people."""
        self._environment, self._purchase = dict(environment), purchase
        self._guard = threading.RLock()
        self._open: dict[str, Order] = {}
        """Tickets without an answer, in the order of need."""
        self._spend = Spend(spent_usd=0.0, reserved_usd=0.0, unknown_calls=0)
        self._deaths = 0
        self._closing = False
        self._told_at = 0.0
        """When the child was told to end."""
        self._lost: Errored | None = None
        self._lock: int | None = None
        self._needed = threading.Event()
        """Somebody has asked, or nobody will."""
        self._outbox: queue.SimpleQueue[tuple[subprocess.Popen[bytes], Greeting | Order] | None] = queue.SimpleQueue()
        """Written by a thread of its own: a child that is busy keeps nobody waiting."""
        self._process = self._start()
        threading.Thread(target=self._write, name="generation-tickets", daemon=True).start()
        self._reader = threading.Thread(target=self._attend, name="generation-child", daemon=True)
        self._reader.start()

    def ask(self, order: Order) -> None:
        """Want an answer. Trouble of an earlier session does not count as one."""
        old = find_answer(order.path)
        if old is None or old.trouble is not None:
            order.path.unlink(missing_ok=True)
        with self._guard:
            self._enter_run()
            self._open[str(order.path)] = order
            self._outbox.put((self._process, order))
        if self._lost is not None:
            self._give_up(self._lost)

    def _enter_run(self) -> None:
        """With the first ticket there is a run, and whoever waits in it looks at the lock."""
        if not self._needed.is_set():
            self._lock = os.open(self.places.lock, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            self._needed.set()

    def _start(self) -> subprocess.Popen[bytes]:
        with ExitStack() as opened:
            # Before there is a run nothing is said that the next child would not say again.
            in_run = self._needed.is_set()
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest_convex_evals.generation.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=opened.enter_context(self.places.log.open("ab")) if in_run else subprocess.DEVNULL,
                bufsize=0,
                env={name: os.environ[name] for name in _BARE_ENVIRONMENT if name in os.environ},
                start_new_session=True,
            )
        patience = self._environment.get(PATIENCE)
        greeting = Greeting(
            environment=self._environment,
            generations=str(self.places.generations),
            log=str(self.places.log),
            lock=str(self.places.lock),
            concurrency=self._purchase.concurrency,
            patience=Patience.model_validate_json(patience) if patience else Patience(),
            budget_usd=self._purchase.budget_usd,
            # What was in flight when a child died may have been sold.
            spent_usd=self._spend.spent_usd + self._spend.reserved_usd,
            unknown_calls=self._spend.unknown_calls,
        )
        self._outbox.put((process, greeting))
        return process

    def _write(self) -> None:
        while (item := self._outbox.get()) is not None:
            process, told = item
            line = told.ticket() if isinstance(told, Order) else told
            rest = memoryview(line.model_dump_json().encode() + b"\n")
            assert process.stdin is not None
            with suppress(OSError, ValueError):  # the child is gone: the next one gets the open tickets
                while rest:
                    rest = rest[process.stdin.write(rest) :]

    def _attend(self) -> None:
        """Hand on events; when the child ends too early, start another one."""
        while True:
            process = self._process
            assert process.stdout is not None
            for line in process.stdout:
                event = parse_event(line)
                if event is not None:
                    self._note(event)
                    self._hand_on(event)
            code = process.wait()
            self._needed.wait()
            with self._guard:
                if self._closing:
                    return
                self._deaths += 1
                trouble = self._hopeless(code)
                if trouble is None:
                    trouble = self._replace(process)
            if trouble is not None:
                self._give_up(trouble)
                return

    def _hand_on(self, event: Event) -> None:
        """A listener with a defect must not keep the next answer from anybody."""
        try:
            self.on_progress(event)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on
            with suppress(OSError), self.places.log.open("a", encoding="utf-8") as log:
                log.write(traceback.format_exc())
            defect = f"defect in what hears of answers: {type(error).__name__}: {error}; see {self.places.log}"
            if defect not in self.defects:
                self.defects.append(defect)

    def _replace(self, process: subprocess.Popen[bytes]) -> Errored | None:
        """Another child gets the open tickets; trouble when there is none to be had."""
        self._discard(process)
        try:
            self._process = self._start()
        except OSError as error:
            why = error.strerror or str(error)
            reason = f"the process that calls models died, and another one could not be started: {why}"
            return Errored(cause="generation_child", reason=reason, remedy=_AGAIN)
        for order in self._open.values():
            self._outbox.put((self._process, order))
        return None

    def _note(self, event: Event) -> None:
        with self._guard:
            if isinstance(event, Answered):
                self._open.pop(event.ticket, None)
                self._deaths = 0
            elif isinstance(event, Spend):
                self._spend = event

    def _hopeless(self, code: int) -> Errored | None:
        log = f"its log is {self.places.log}"
        if code == DISK_EXIT:
            reason = f"the process that calls models could not write an answer and ended; {log}"
            return Errored(cause="disk_full", reason=reason, remedy=f"free some space, then {_AGAIN}")
        if self._deaths > RESTARTS:
            reason = f"the process that calls models died {self._deaths} times in a row without an answer; {log}"
            return Errored(cause="generation_child", reason=reason, remedy=_AGAIN)
        return None

    def _give_up(self, trouble: Errored) -> None:
        """Whoever waits learns why nothing comes; then the lock is free."""
        with self._guard:
            self._lost = trouble
            orders, self._open = list(self._open.values()), {}
        for order in orders:
            with suppress(OSError):  # without a file the worker sees by the lock that nothing comes
                leave_answer(order.path, Answer(trouble=trouble))
            told = Answered(ticket=str(order.path), model=order.model.name, outcome="trouble", cause=trouble.cause)
            self._hand_on(told)
        self._release()

    def _release(self) -> None:
        with self._guard:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    @staticmethod
    def _discard(process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def tell_to_end(self) -> None:
        """Nobody wants an answer any more; `close` waits for the end."""
        with self._guard:
            if self._closing:
                return
            self._closing, self._told_at = True, time.monotonic()
            self._needed.set()
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()

    def close(self) -> None:
        """End the child and everything it started."""
        self.tell_to_end()
        process = self._process
        try:
            process.wait(max(0.0, self._told_at + _END_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._outbox.put(None)
        self._reader.join(_LAST_EVENTS_S)
        self._discard(process)
        self._release()
