"""Delivers one run to the backend, one call after the other; every call may be repeated."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from pytest_convex_evals.scores.archives import SourceStore, output_archive, sha256
from pytest_convex_evals.scores.backlog import Backlog, CellKey, Result, ScoreRun
from pytest_convex_evals.scores.client import Backend, Broken, Refusal
from pytest_convex_evals.scores.log import OPENED, WHOLE, DeliveryLog
from pytest_convex_evals.scores.payload import model_args, result_args, run_args, suite_args
from pytest_convex_evals.store.runs import RunFolder

UNAUTHORIZED = "unauthorized"
_LOST = frozenset({"unknown_model", "unknown_suite", "unknown_run"})
_LOST_FILE = "unknown_asset"
_HEARTBEAT_S = 60.0
_TRIES, _MOST_TRIES, _PAUSE_S = 3, 10, 0.5
_What = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a delivery is."""

    delivered: int
    waiting: int
    refused: int
    """Results that the backend does not take."""
    reason: str
    """Why, of the last refusal; empty when there was none."""
    broken: bool
    """The backend did not say no, it failed, each time in the same way."""
    sent: int
    """Results and ends of runs that went out now, not earlier."""
    work: int
    """Grows with everything that was answered."""
    gone: int
    """Results whose submission or eval is not on this machine any more; the verdicts go without these files."""


class Delivery:
    """One run, one backend."""

    def __init__(self, run: RunFolder, backend: Backend, *, live: bool, again: bool = False) -> None:
        self._run, self._backend, self._live = run, backend, live
        self._log = DeliveryLog(run.path, backend.url)
        if again:
            self._log.forget()
        self._sources = SourceStore(run.store)
        self._refused_runs: dict[str, str] = {}
        self._refused: dict[CellKey, str] = {}
        self._reason, self._broken = "", False
        self._failures: dict[_What, list[str]] = {}
        self._postponed: set[_What] = set()
        self._again_at: float | None = None
        self._sent = self._work = 0
        self._gone: set[_What] = set()
        self._reminded = False
        self._beat_at, self._beat_sent = -_HEARTBEAT_S, 0
        self._start_over()

    def _start_over(self) -> None:
        self.backlog = Backlog(self._run.id, self._run.journal)
        self._queue: deque[CellKey] = deque()
        self._queued: set[CellKey] = set()
        self._delivered = 0

    @property
    def progress(self) -> Progress:
        """How far it is."""
        counts = (self._delivered, len(self._queue), len(self._refused))
        return Progress(*counts, self._reason, self._broken, self._sent, self._work, len(self._gone))

    @property
    def rest_s(self) -> float:
        """The pause before what failed is tried again; 0: nothing waits for that."""
        return 0.0 if self._again_at is None else max(0.001, self._again_at - time.monotonic())

    def read(self) -> None:
        """Take in what the journal has got."""
        if not self.backlog.read():
            return
        for key in self.backlog.results:
            if key not in self._queued:
                self._queued.add(key)
                self._queue.append(key)
        if self.backlog.runs:
            self._log.mark(OPENED)

    def step(self) -> bool:
        """Deliver the next thing; false when nothing is left for now. What fails waits until all else was tried."""
        if self._advance():
            return True
        if not self._postponed:
            if not self._live and not self.backlog.finished and self.backlog.runs:
                self._log.idle(self.backlog.seen)
            return False
        if self._again_at is None:
            self._again_at = time.monotonic() + _PAUSE_S
        if self._again_at > time.monotonic():
            return False
        self._again_at = None
        self._postponed.clear()
        return True

    def _advance(self) -> bool:
        waiting = set()
        for run in self.backlog.runs.values():
            if run.key in self._refused_runs or self._log.has(*_plan(run)):
                continue
            if _plan(run) in self._postponed:
                waiting.add(run.key)
                continue
            self._deliver(_plan(run), partial(self._introduce, run), partial(self._refuse_run, run.key))
            return True
        for _ in range(len(self._queue)):
            key = self._queue[0]
            result = self.backlog.results[key]
            what = ("cell", result.run, key[1], key[2], result.attempt)
            if self._log.has(*what):
                self._settle(key, delivered=True)
            elif result.run in self._refused_runs:
                self._refuse_cell(key, self._refused_runs[result.run])
            elif what in self._postponed or result.run in waiting:
                self._queue.rotate(-1)
            else:
                if self._deliver(what, partial(self._send, result, what), partial(self._refuse_cell, key)):
                    self._sent += 1
                    self._reminded = False
                    self._settle(key, delivered=True)
                return True
        if self.backlog.finished and not self._queue and not waiting:
            return self._end()
        self._heartbeat()
        return False

    def _deliver(self, what: _What, send: Callable[[], object], refuse: Callable[[str], None]) -> bool:
        """True when delivered. What the backend has lost is sent again, once; any other refusal is remembered."""
        try:
            send()
        except Broken as broken:
            self._work += 1
            self._fail(what, str(broken), refuse)
            return False
        except Refusal as refusal:
            self._work += 1
            self._broken = False
            if refusal.code == UNAUTHORIZED:
                raise
            if self._reminded or refusal.code not in {*_LOST, _LOST_FILE}:
                refuse(refusal.message)
            elif refusal.code == _LOST_FILE:
                self._reminded = True
                self._log.forget("source")
            else:
                self._reminded = True
                self._log.forget()
                self._start_over()
                self.read()
            return False
        self._work += 1
        return True

    def _fail(self, what: _What, message: str, refuse: Callable[[str], None]) -> None:
        """A failure that comes back the same is an answer: nothing behind it has to wait any longer."""
        told = self._failures.setdefault(what, [])
        told.append(message)
        if told[-_TRIES:] == [message] * _TRIES or len(told) >= _MOST_TRIES:
            self._broken = True
            refuse(message)
        else:
            self._postponed.add(what)

    def _refuse_run(self, key: str, message: str) -> None:
        self._refused_runs[key] = self._reason = message

    def _refuse_cell(self, key: CellKey, message: str) -> None:
        self._refused[key] = self._reason = message
        self._settle(key, delivered=False)

    def _settle(self, key: CellKey, *, delivered: bool) -> None:
        """Nothing more is to be done about a verdict; a newer one on the cell queues again."""
        self._queue.popleft()
        self._queued.discard(key)
        self.backlog.results.pop(key, None)
        if delivered:
            self._delivered += 1
            self._refused.pop(key, None)

    def _introduce(self, run: ScoreRun) -> None:
        """The model, the suite and the run; a session that plans more says so."""
        model, suite = model_args(run), suite_args(run.suite)
        if not self._log.has("model", model["slug"]):
            self._backend.mutation("admin:ensureModel", **model)
            self._log.note("model", model["slug"])
        if not self._log.has("suite", suite["fingerprint"]):
            self._backend.mutation("admin:ensureSuite", **suite)
            self._log.note("suite", suite["fingerprint"])
        self._backend.mutation("admin:startRun", **run_args(run))
        self._log.note(*_plan(run))

    def _send(self, result: Result, what: _What) -> None:
        source = result.source
        if source is not None and not self._log.has("source", source):
            data = self._sources.get(source)
            if data is not None:
                self._store(data)
            if data is not None or self._prepare(source, 1)["stored"]:
                self._log.note("source", source)
            else:
                self._gone.add(what)
                result = replace(result, source=None)
        self._backend.mutation("admin:finishEval", **result_args(result, self._output(result, what)))
        self._log.note(*what)

    def _output(self, result: Result, what: _What) -> str | None:
        """The hash of the submission's archive; the one that was chosen first stays as long as the backend has it."""
        folder = result.record["folder"]
        data = output_archive(self._run.outputs / folder) if folder else None
        name, chosen = sha256(data) if data else None, self._log.prepared(*what)
        if chosen is not None and chosen != name and self._prepare(chosen, 1)["stored"]:
            return chosen
        if data is None or name is None:
            if folder and not (self._run.outputs / folder).is_dir():
                self._gone.add(what)
            return None
        if chosen != name:
            self._log.prepare(name, *what)
        self._store(data)
        return name

    def _prepare(self, name: str, size: int) -> dict[str, str]:
        prepared: dict[str, str] = self._backend.mutation("admin:prepareUpload", sha256=name, size=size)
        return prepared

    def _store(self, data: bytes) -> None:
        name = sha256(data)
        prepared = self._prepare(name, len(data))
        if not prepared["stored"]:
            storage_id = self._backend.upload(prepared["uploadUrl"], data)
            self._backend.mutation("admin:registerAsset", sha256=name, storageId=storage_id)

    def _end(self) -> bool:
        for run in self.backlog.runs.values():
            if run.key not in self._refused_runs and not self._log.has("end", *_plan(run)):
                what = ("end", *_plan(run))
                if what in self._postponed:
                    continue
                told = {"runKey": run.key, "endedAt": self.backlog.ended_at}
                ended = partial(self._backend.mutation, "admin:completeRun", **told)
                if self._deliver(what, ended, partial(self._refuse_run, run.key)):
                    self._sent += 1
                    self._log.note(*what)
                return True
        if self.backlog.runs and not self._postponed:
            self._log.mark(WHOLE)  # what was refused stays so, until somebody asks for it by hand
        return False

    def _heartbeat(self) -> None:
        """A sign of life, for runs of this session."""
        if self._live and time.monotonic() - self._beat_at >= _HEARTBEAT_S:
            self._beat_at = time.monotonic()
            self._beat_sent = max(self._beat_sent + 1, round(time.time() * 1000))
            for key in [key for key in self.backlog.runs if key not in self._refused_runs]:
                self._deliver(("heartbeat", key), partial(self._beat, key), partial(self._refuse_run, key))

    def _beat(self, key: str) -> None:
        with suppress(Broken):  # results say it better
            self._backend.mutation("admin:heartbeat", runKey=key, sentAt=self._beat_sent)

    def close(self) -> None:
        """No more deliveries."""
        self._log.close()


def _plan(run: ScoreRun) -> _What:
    """A plan only grows, so that its size says which one it is; the backend is told once it is known."""
    return ("run", run.key, len(run.evals), run.repeats, run.backend_version)
