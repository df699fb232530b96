"""Records as arguments of the scores backend: pure functions of what the journal says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pytest_convex_evals.scores.backlog import Result, ScoreRun, milliseconds

_TEXT, _ALL_TEXTS, _NAME, _CHECKS = 16_000, 1_500_000, 500, 1_000
_ROOM = 100
"""For the words that say how much is missing."""


class _Texts:
    """Cuts long texts, so that a verdict is never lost for its explanation."""

    def __init__(self) -> None:
        self._left = _ALL_TEXTS

    def cut(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()
        limit = min(_TEXT, self._left)
        # Lengths are counted as JavaScript does, so that the backend does not cut again.
        size = _units(text)
        if size > limit:
            kept = _first(text, max(0, limit - _ROOM))
            text = f"{kept}\n… {size - _units(kept)} more characters"
        self._left = max(_ROOM, self._left - _units(text))
        return text

    def verdict(self, record: dict[str, Any]) -> dict[str, Any]:
        kind = record["outcome"]
        if kind == "passed":
            return {"kind": kind}
        reason = {"reason": self.cut(record["reason"])}
        return {"kind": kind, **reason} if kind == "not_made" else {"kind": kind, "cause": record["cause"], **reason}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _first(text: str, units: int) -> str:
    return text.encode("utf-16-le")[: units * 2].decode("utf-16-le", "ignore")


def _name(text: str) -> str:
    return _first(text.encode("utf-8", "replace").decode(), _NAME)


def model_args(run: ScoreRun) -> dict[str, Any]:
    """Of `ensureModel`."""
    model = run.model
    args = {"slug": model["slug"], "displayName": model["display"], "provider": model["provider"]}
    return args | ({"formerSlugs": model["formerly"]} if model.get("formerly") else {})


def suite_args(suite: dict[str, Any]) -> dict[str, Any]:
    """Of `ensureSuite`."""
    parts = [{"name": _name(name), "hash": text} for name, text in sorted(suite["parts"].items())]
    return {"fingerprint": suite["fingerprint"], "evals": suite["evals"], "parts": parts}


def run_args(run: ScoreRun) -> dict[str, Any]:
    """Of `startRun`."""
    suite = run.suite
    start = {
        "key": run.key,
        "model": run.model["slug"],
        "experiment": run.experiment,
        "fingerprint": suite["fingerprint"],
        "plannedEvals": sorted(run.evals),
        "repeats": run.repeats,
        "backend": {"kind": suite["backend"]["kind"], "version": run.backend_version},
        "startedAt": milliseconds(suite["at"]),
    }
    optional = {"gitCommit": suite.get("git_commit"), "ciUrl": suite.get("ci_url")}
    return {"run": start | {name: value for name, value in optional.items() if value}}


def result_args(result: Result, output: str | None) -> dict[str, Any]:
    """Of `finishEval`; `output` is the hash of the archive of the submission."""
    record, texts = result.record, _Texts()
    generation = record.get("generation")
    sent: dict[str, Any] = {
        "verdict": texts.verdict(record["verdict"]),
        "steps": [_step(step, texts) for step in record["steps"]],
        "usage": _usage(generation),
        "generationMs": None if generation is None else generation["duration_s"] * 1000,
        "gradingMs": record["grading_s"] * 1000,
        "startedAt": milliseconds(record["started_at"]),
    }
    hashes = {"output": output, "source": result.source, "answer": _answer(generation)}
    cell = {"evalPath": record["eval"], "repeat": record["repeat"], "attempt": result.attempt}
    return {
        "runKey": result.run,
        "cell": cell,
        "result": sent | {name: value for name, value in hashes.items() if value is not None},
    }


_PURCHASE = ("key", "duration_s", "first_token_s", "input_tokens", "output_tokens", "finish_reason", "attempts")
"""What was sent, and how the call went that was answered: two calls with the same prompt differ in the latter."""


def _answer(generation: dict[str, Any] | None) -> str | None:
    """The same for an answer that is used again, here or in a copy of the store; None without one."""
    if generation is None:
        return None
    told = json.dumps([generation.get(name) for name in _PURCHASE], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _usage(generation: dict[str, Any] | None) -> dict[str, Any]:
    names = {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "reasoningTokens": "reasoning_tokens",
        "cachedTokens": "cached_tokens",
        "costUsd": "cost_usd",
    }
    return {name: None if generation is None else generation.get(field) for name, field in names.items()}


def _step(step: dict[str, Any], texts: _Texts) -> dict[str, Any]:
    return {
        "name": step["name"],
        "verdict": texts.verdict(step["verdict"]),
        "durationMs": step["duration_s"] * 1000,
        "checks": [_check(check, texts) for check in _most_telling(step["checks"])],
    }


def _most_telling(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The backend keeps so many; of more than that, those that did not pass go first."""
    if len(checks) <= _CHECKS:
        return checks
    ranked = sorted(range(len(checks)), key=lambda index: checks[index]["verdict"]["outcome"] == "passed")
    return [checks[index] for index in sorted(ranked[:_CHECKS])]


def _check(check: dict[str, Any], texts: _Texts) -> dict[str, Any]:
    return {
        "name": _name(check["name"]),
        "verdict": texts.verdict(check["verdict"]),
        "durationMs": check["duration_s"] * 1000,
        "detail": texts.cut(check["detail"]),
    }
