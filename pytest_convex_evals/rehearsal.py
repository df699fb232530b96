"""Rehearsals: replayed answers that arrive as late, and as faulty, as somebody wants them.

`EVALS_REHEARSAL="latency=0.1 faults=0.05 in_flight=32 seed=7"` makes each answer of `--models replay:RUN` take a tenth
of the time that its call took, 32 at a time, and turns one of twenty into trouble, always the same ones for a seed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.generation.answers import Answer, leave_answer
from pytest_convex_evals.generation.store import GenerationStore
from pytest_convex_evals.records import ErrorCause, Errored

if TYPE_CHECKING:
    from pytest_convex_evals.cells import Cell
    from pytest_convex_evals.session import Plan
    from pytest_convex_evals.store.runs import RunFolder

_FAULTS: tuple[ErrorCause, ...] = ("rate_limited", "provider_unavailable", "provider_timeout", "provider_connection")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How replayed answers arrive."""

    latency: float = 0.0
    """Part of the recorded duration that an answer takes."""
    faults: float = 0.0
    """Share of the answers that are trouble instead."""
    in_flight: int = 8
    """How many arrive beside each other."""
    seed: int = 0
    """Which ones are faulty."""

    @classmethod
    def parse(cls, text: str) -> Rehearsal:
        """Pairs of names and numbers; a mistake is a wrong setting."""
        kinds = {one.name: float if one.name in {"latency", "faults"} else int for one in fields(cls)}
        found: dict[str, Any] = {}
        for pair in text.replace(",", " ").split():
            name, _, value = pair.partition("=")
            try:
                found[name] = kinds[name](value)
                good = found[name] >= (1 if name == "in_flight" else 0) and (name != "faults" or found[name] <= 1)
            except (KeyError, ValueError):
                good = False
            if not good:
                raise SettingsError(
                    f"EVALS_REHEARSAL: {pair!r} is not understood.\n"
                    "  what to do: write for example latency=0.1 faults=0.05 in_flight=32 seed=7"
                )
        return cls(**found)


class RehearsedCalls:
    """Takes the place of the generation child; nothing leaves the machine and nothing is paid."""

    def __init__(
        self, plan: Plan, run: RunFolder, cells: Iterable[Cell], told: Callable[[dict[str, Any]], None]
    ) -> None:
        self._how = Rehearsal.parse(plan.settings.rehearsal)
        self._plan, self._run, self._told = plan, run, told
        self._store = GenerationStore(run.generations)
        self._todo = iter(list(cells))
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, name=f"rehearsal-{number}", daemon=True)
            for number in range(self._how.in_flight)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                cell = next(self._todo, None)
            if cell is None:
                return
            self._answer(cell)

    def _answer(self, cell: Cell) -> None:
        path, provider = self._run.answer(cell), "replay"
        ticket = str(path)
        self._told(
            {"event": "call_started", "ticket": ticket, "model": cell.submitter, "provider": provider, "attempt": 1}
        )
        started = time.monotonic()
        given = self._plan.given[cell.eval_id][cell.label]
        generation = self._store.get(given.generation)
        recorded = generation.record.duration_s if generation is not None else 0.0
        if self._stopped.wait(self._how.latency * recorded):
            return
        draw = random.Random(f"{self._how.seed} {cell.key}")  # noqa: S311 - no secret
        faulty = draw.random() < self._how.faults
        cause = draw.choice(_FAULTS) if faulty else None
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)
            if cause is not None:
                leave_answer(path, Answer(trouble=Errored(cause=cause, reason="a fault of the rehearsal")))
        self._told(
            {
                "event": "answered",
                "ticket": ticket,
                "model": cell.submitter,
                "outcome": "trouble" if faulty else "reused",
                "cause": cause,
                "duration_s": time.monotonic() - started,
            }
        )

    def close(self) -> None:
        """No more answers."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(1.0)
