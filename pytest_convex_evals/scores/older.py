"""What earlier runs of the store still owe to the backend, delivered beside the run of a session."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_convex_evals.scores.client import Backend
from pytest_convex_evals.scores.delivery import Delivery
from pytest_convex_evals.scores.log import is_owed
from pytest_convex_evals.store.lock import is_worked_on
from pytest_convex_evals.store.runs import list_runs, run_folder

_RUNS = 20
"""Earlier runs that one session delivers something of; looking at one that owes nothing costs little, and only once."""


class OlderRuns:
    """Runs whose deliveries began and did not end, the newest first. Those that somebody works on are left to them."""

    def __init__(self, store: Path, own: str, backend: Backend, tell: Callable[[dict[str, Any]], None]) -> None:
        self._store, self._own, self._backend, self._tell = store, own, backend, tell
        self._owed: list[str] | None = None
        self._current: Delivery | None = None
        self._helped = 0
        self._work = 0

    @property
    def work(self) -> int:
        """Grows with everything that came to an end."""
        return self._work + (self._current.progress.work if self._current is not None else 0)

    @property
    def owing(self) -> int:
        """How many have not been looked at to the end."""
        return len(self._owed or [])

    def step(self) -> float | None:
        """One thing; the pause before the next, None when nothing is left."""
        if self._owed is None:
            folder = self._store / "runs"
            self._owed = [one for one in list_runs(self._store) if is_owed(folder / one, self._backend.url)]
        if not self._owed or self._helped >= _RUNS:
            return None
        run_id = self._owed[-1]
        if self._current is None and (run_id == self._own or is_worked_on(self._store / "runs" / run_id)):
            self._owed.pop()
            return 0.0
        try:
            delivery = self._open(run_id)
            if delivery.step():
                return 0.0
            if delivery.rest_s:
                return delivery.rest_s
        except (OSError, KeyError, TypeError, ValueError) as error:
            traceback.print_exc()
            self._tell({"run": run_id, "sent": 0, "refused": 0, "reason": f"it cannot be read: {error!r}"})
        self._leave(run_id)
        return 0.0

    def _open(self, run_id: str) -> Delivery:
        if self._current is None:
            self._current = Delivery(run_folder(self._store, run_id), self._backend, live=False)
            self._current.read()
        return self._current

    def _leave(self, run_id: str) -> None:
        assert self._owed is not None
        self._owed.pop()
        if self._current is None:
            return
        progress = self._current.progress
        self._work += progress.work
        if progress.sent or progress.reason:
            self._helped += 1
            told = {"sent": progress.sent, "refused": progress.refused, "reason": progress.reason}
            self._tell({"run": run_id, **told})
        self._current.close()
        self._current = None
