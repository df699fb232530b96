"""A run that is gone on with, beside what it said before: what is stale, what changed, which grader is flaky."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import BrokenEval
from pytest_convex_evals.records import CellRecord, Errored
from pytest_convex_evals.store.history import History
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.fingerprint import changed_parts, fingerprint_parts

REMOVED = ("removed",)
_SHOWN = 5


def stale_cells(records: Mapping[str, CellRecord], rootpath: Path, guidelines: str) -> dict[str, tuple[str, ...]]:
    """Which verdicts are about something that is not so any more, and what has changed; each eval is read once."""
    now: dict[str, Mapping[str, str] | None] = {}
    found = {}
    for key, record in records.items():
        task = record.node_id.partition("::")[0]
        if task not in now:
            try:
                now[task] = fingerprint_parts(load_eval(rootpath / task), guidelines)
            except (BrokenEval, OSError):
                now[task] = None
        parts = now[task]
        changed = REMOVED if parts is None else changed_parts(record.fingerprint_parts, parts)
        if changed:
            found[key] = changed
    return found


@dataclass(slots=True)
class Comparison:
    """Of the records of this session with those before it."""

    history: History
    flaky: list[str] = field(default_factory=list)
    """What to say about graders that judged the same thing in two ways."""
    _changed: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    _turned: list[str] = field(default_factory=list)

    def add(self, record: CellRecord) -> dict[str, Any] | None:
        """Compare with the last verdict on the cell; what to journal when its grader is flaky."""
        before = self.history.verdicts.get(record.key)
        if before is None or isinstance(record.verdict, Errored):
            return None
        same = _submission(before) == _submission(record)
        changed = changed_parts(before.fingerprint_parts, record.fingerprint_parts)
        if changed:
            self._changed.setdefault(changed, []).append(record.key)
        if before.verdict.outcome == record.verdict.outcome:
            return None
        self._turned.append(f"{record.key} was {before.verdict.outcome}, is {record.verdict.outcome}")
        if not same or before.fingerprint != record.fingerprint:
            return None
        self.flaky.append(
            f"{record.key}: the same submission {_word(before)} at attempt {before.attempt} and "
            f"{_word(record)} at attempt {record.attempt}, and nothing else has changed"
        )
        return {
            "key": record.key,
            "fingerprint": record.fingerprint,
            "attempts": [before.attempt, record.attempt],
            "outcomes": [before.verdict.outcome, record.verdict.outcome],
        }

    def stale_lines(self, rootpath: Path, guidelines: str, run_id: str) -> list[str]:
        """Verdicts of the run that this session does not touch, and that are no longer about what is there."""
        kept = {key: record for key, record in self.history.records.items() if key in self.history.verdicts}
        groups: dict[tuple[str, ...], list[str]] = {}
        for key, changed in stale_cells(kept, rootpath, guidelines).items():
            groups.setdefault(changed, []).append(key)
        lines = [f"stale: {_listed(keys)}: changed since the verdict: {', '.join(c)}" for c, keys in groups.items()]
        if lines:
            lines.append(f"  what to do: --evals-regrade {run_id[:8]} grades them again, free of cost")
        return lines

    def lines(self) -> list[str]:
        """For the summary."""
        lines = [
            f"graded again: {_listed(keys)}: changed since then: {', '.join(c)}" for c, keys in self._changed.items()
        ]
        lines += [f"another verdict: {text}" for text in self._turned]
        lines += [f"flaky grader: {text}" for text in self.flaky]
        return [*lines, ""] if lines else []


def _submission(record: CellRecord) -> str:
    return record.generation.key if record.generation is not None else record.fingerprint_parts.get("answer", "")


def _word(record: CellRecord) -> str:
    return record.verdict.outcome


def _listed(keys: list[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
