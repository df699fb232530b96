"""Delivers one run to the backend, one call after the other; every call may be repeated."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pytest_convex_evals.scores.archives import SourceStore, output_archive, sha256
from pytest_convex_evals.scores.backlog import Backlog, CellKey, Result, ScoreRun
from pytest_convex_evals.scores.client import Backend, Refusal
from pytest_convex_evals.scores.log import OPENED, WHOLE, DeliveryLog
from pytest_convex_evals.scores.payload import model_args, result_args, run_args, suite_args
from pytest_convex_evals.store.runs import RunFolder

UNAUTHORIZED = "unauthorized"
_LOST = frozenset({"unknown_model", "unknown_suite", "unknown_run"})
_LOST_FILE = "unknown_asset"
_HEARTBEAT_S = 60.0
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
        self._reason = ""
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
        return Progress(self._delivered, len(self._queue), len(self._refused), self._reason)

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
        """Deliver the next thing; false when nothing is left for now."""
        for run in self.backlog.runs.values():
            if run.key not in self._refused_runs and not self._log.has(*_plan(run)):
                self._deliver(partial(self._introduce, run), partial(self._refuse_run, run.key))
                return True
        while self._queue:
            key = self._queue[0]
            result = self.backlog.results[key]
            what = ("cell", result.run, key[1], key[2], result.attempt)
            if self._log.has(*what):
                self._settle(key, delivered=True)
            elif result.run in self._refused_runs:
                self._refuse_cell(key, self._refused_runs[result.run])
            else:
                if self._deliver(partial(self._send, result, what), partial(self._refuse_cell, key)):
                    self._reminded = False
                    self._settle(key, delivered=True)
                return True
        return self._end() if self.backlog.finished else self._heartbeat()

    def _deliver(self, send: Callable[[], object], refuse: Callable[[str], None]) -> bool:
        """True when delivered. What the backend has lost is sent again, once; any other refusal is remembered."""
        try:
            send()
        except Refusal as refusal:
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
        return True

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
            if data is None:
                result = replace(result, source=None)
            else:
                self._store(data)
                self._log.note("source", source)
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
                ended = partial(self._backend.mutation, "admin:completeRun", runKey=run.key, endedAt=time.time() * 1000)
                if self._deliver(ended, partial(self._refuse_run, run.key)):
                    self._log.note("end", *_plan(run))
                return True
        if self.backlog.runs:
            self._log.mark(WHOLE)  # what was refused stays so, until somebody asks for it by hand
        return False

    def _heartbeat(self) -> bool:
        """A sign of life, for runs of this session."""
        if self._live and time.monotonic() - self._beat_at >= _HEARTBEAT_S:
            self._beat_at = time.monotonic()
            self._beat_sent = max(self._beat_sent + 1, round(time.time() * 1000))
            for key in [key for key in self.backlog.runs if key not in self._refused_runs]:
                beat = partial(self._backend.mutation, "admin:heartbeat", runKey=key, sentAt=self._beat_sent)
                self._deliver(beat, partial(self._refuse_run, key))
        return False

    def close(self) -> None:
        """No more deliveries."""
        self._log.close()


def _plan(run: ScoreRun) -> _What:
    """A plan only grows, so that its size says which one it is."""
    return ("run", run.key, len(run.evals), run.repeats)
