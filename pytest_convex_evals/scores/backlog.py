"""What a run has to deliver, read from its journal as it grows."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_convex_evals.scores.facts import SUITE, is_scored

CellKey = tuple[str, str, int]
"""Score run, eval, repeat."""


@dataclass(slots=True)
class ScoreRun:
    """The cells of one model, experiment and suite in a run."""

    key: str
    experiment: str
    model: dict[str, Any]
    """Slug, name for people, provider and former names."""
    suite: dict[str, Any]
    """The event that describes the suite."""
    evals: set[str] = field(default_factory=set)
    repeats: int = 1
    backend_version: str = ""
    """Of the first verdict that a backend had a part in; empty until there is one."""


@dataclass(frozen=True, slots=True)
class Result:
    """The newest verdict on a cell."""

    run: str
    attempt: int
    """Which verdict on this cell, counted from 1 in the order of the journal."""
    record: dict[str, Any]
    """As in the journal."""
    source: str | None
    """Hash of the archive of its eval."""


class Backlog:
    """Follows a journal; the score runs and the newest verdict on each cell."""

    def __init__(self, run_id: str, journal: Path) -> None:
        self._run_id, self._journal = run_id, journal
        self._offset = 0
        self.seen = 0
        """Bytes of the journal, a line that was cut off included."""
        self._first: str | None = None
        self._suite: dict[str, Any] | None = None
        self._models: dict[str, Any] = {}
        self._experiment = "default"
        self._attempts: dict[tuple[str, str, str, int], int] = {}
        self.runs: dict[str, ScoreRun] = {}
        self.results: dict[CellKey, Result] = {}
        self._ended_at: float | None = None
        self.finished = False
        """No session works on the run, as far as the journal says."""
        self.unknown = 0
        """Verdicts from before the journal described the suite: nothing can be said about them."""

    def read(self) -> bool:
        """Take in what was added; true when there was something."""
        try:
            with self._journal.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return False
        whole = data[: data.rfind(b"\n") + 1]
        self.seen = self._offset + len(data)
        self._offset += len(whole)
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # cut off by a crash, and fenced off since
            if isinstance(event, dict):
                self._take(event)
        return bool(whole)

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == SUITE:
            self._suite = {name: value for name, value in event.items() if name != "event"}
            self._models |= event["models"]
            self._experiment = str(event.get("experiment") or "default")
            self._first = self._first or event["fingerprint"]
            self._plan(event.get("cells", []))
        elif str(kind).endswith("_started"):
            self.finished = False
        elif kind == "run_finished":
            self.finished = True
            self._ended_at = milliseconds(event["at"]) if event.get("at") else self._ended_at
        elif kind == "cell_finished":
            self._verdict(event["record"])

    @property
    def ended_at(self) -> float:
        """When the last session ended; where the journal does not say that, when the last verdict was there."""
        return time.time() * 1000 if self._ended_at is None else self._ended_at

    def _plan(self, cells: list[list[Any]]) -> None:
        for eval_id, submitter, repeat in cells:
            if is_scored(submitter) and submitter in self._models:
                run = self._run(submitter, self._experiment)
                run.evals.add(eval_id)
                run.repeats = max(run.repeats, repeat)

    def _run(self, submitter: str, experiment: str) -> ScoreRun:
        assert self._suite is not None
        fingerprint = self._suite["fingerprint"]
        # Another suite than the one the run began with makes a score run of its own: scores of versions never mix.
        own = "" if fingerprint == self._first else f"+{fingerprint[:8]}"
        key = f"{self._run_id}{own}:{submitter}:{experiment}"
        return self.runs.setdefault(key, ScoreRun(key, experiment, self._models[submitter], self._suite))

    def _verdict(self, record: dict[str, Any]) -> None:
        submitter, experiment, eval_id = record["model"], record["experiment"], record["eval"]
        if not is_scored(submitter):
            return
        if self._suite is None or submitter not in self._models:
            self.unknown += 1
            return
        cell = (submitter, experiment, eval_id, record["repeat"])
        self._attempts[cell] = self._attempts.get(cell, 0) + 1
        run = self._run(submitter, experiment)
        run.evals.add(eval_id)
        run.repeats = max(run.repeats, record["repeat"])
        run.backend_version = run.backend_version or str(record.get("backend_version", ""))
        self._ended_at = milliseconds(record["started_at"]) + record["grading_s"] * 1000
        source = self._suite["sources"].get(eval_id)
        key = (run.key, eval_id, record["repeat"])
        self.results[key] = Result(run.key, self._attempts[cell], record, source)


def milliseconds(moment: str) -> float:
    """Of an ISO 8601 time."""
    return float(round(datetime.fromisoformat(moment).timestamp() * 1000))
