"""Builds records with everything filled in that a test does not care about."""

from __future__ import annotations

from typing import Any

from pytest_convex_evals.records import (
    CellRecord,
    CheckRecord,
    Errored,
    Failed,
    GenerationRecord,
    Passed,
    StepRecord,
)

RUN_ID = "abcd1234-20250101T120000Z"


def check(name: str, verdict: Any = None, **fields: Any) -> CheckRecord:
    return CheckRecord(name=name, verdict=verdict or Passed(), duration_s=0.01, **fields)


def step(name: str, verdict: Any = None, *checks: CheckRecord, notes: tuple[str, ...] = ()) -> StepRecord:
    return StepRecord(name=name, verdict=verdict or Passed(), duration_s=0.1, checks=checks, notes=notes)


def generation(**fields: Any) -> GenerationRecord:
    known: dict[str, Any] = {
        "key": "0" * 64,
        "litellm_id": "openai/gpt-5",
        "answered_by": "gpt-5",
        "parameters": {},
        "finish_reason": "stop",
        "input_tokens": 1200,
        "output_tokens": 340,
        "cost_usd": 0.0125,
        "duration_s": 4.5,
    }
    return GenerationRecord(**(known | fields))


def record(verdict: Passed | Failed | Errored | None = None, **fields: Any) -> CellRecord:
    """A cell of the reference that passed, unless a test says otherwise."""
    category, name = fields.get("category", "000-fundamentals"), fields.get("name", "003-crons")
    model, repeat = fields.get("model", "reference"), fields.get("repeat", 1)
    label = model if repeat == 1 else f"{model}+{repeat}"
    known: dict[str, Any] = {
        "run_id": RUN_ID,
        "eval": f"{category}/{name}",
        "category": category,
        "name": name,
        "model": model,
        "experiment": "default",
        "repeat": repeat,
        "attempt": 1,
        "node_id": f"evals/{category}/{name}/TASK.txt::{name}[{label}]",
        "verdict": verdict or Passed(),
        "pipeline": "static",
        "backend": "none",
        "backend_version": "",
        "sandbox": "none",
        "fingerprint": "0123456789abcdef",
        "folder": f"cells/{category}/{name}/{model}/{repeat}/1",
        "started_at": "2025-01-01T12:00:00.000+00:00",
        "grading_s": 0.25,
    }
    return CellRecord(**(known | fields))
