"""How long the grading of each cell took last: a hint for the order of the next session, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pytest_convex_evals.files import write_atomically

_FILE = "durations.json"


def read_durations(store: Path) -> dict[str, float]:
    """Seconds by eval and submitter; a file that cannot be read is as good as none."""
    try:
        found = json.loads((store / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): float(value) for key, value in found.items() if isinstance(value, int | float)}


def keep_durations(store: Path, measured: Mapping[str, float]) -> None:
    """Add to what is there; a hint is not worth an error."""
    known = read_durations(store) | dict(measured)
    with suppress(OSError):
        write_atomically(store / _FILE, json.dumps(known, indent=1, sort_keys=True) + "\n", durable=False)


def duration_key(eval_id: str, submitter: str) -> str:
    """Repeats of a cell take as long as each other."""
    return f"{eval_id} {submitter}"
