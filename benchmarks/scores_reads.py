"""The scores backend: what the leaderboard reads when history grows."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_convex_evals.cli.deploy import push
from pytest_convex_evals.cli.scores_project import project_copy
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain
from pytest_convex_evals.pipes import LineChild

TOKEN = "benchmark"
_MODELS, _BATCH = 20, 500
_FEW, _MANY = 100, 10_000
_EVAL = "000-basics/000-empty"
_DEADLINE_S = 300.0


def figures() -> Iterator[str]:
    """Documents read by one request for the leaderboard of twenty models."""
    few, many = (_reads(runs) for runs in (_FEW, _MANY))
    yield f"scores leaderboard reads: {few} at {_FEW} runs, {many} at {_MANY} runs"


def _reads(runs: int) -> int:
    toolchain = ensure_toolchain(progress)
    with tempfile.TemporaryDirectory() as name, deployed(toolchain, Path(name)) as (core, _):
        _fill(core, runs)
        stored = len(core.request("list", {"table": "runs"}, deadline_s=_DEADLINE_S)["documents"])
        if stored != runs:
            raise RuntimeError(f"{stored} runs instead of {runs}")
        answer = _call(core, "modelScores:leaderboard", {})
        ranked = [(row["runs"], row["score"]) for row in answer["value"]["rows"]]
        if ranked != [(min(10, runs // _MODELS), 1)] * _MODELS:
            raise RuntimeError(f"the leaderboard is wrong: {ranked}")
        read: int = answer["usage"]["documentsRead"]
        progress(f"  leaderboard at {runs} runs: {read} documents read")
        return read


def progress(line: str) -> None:
    """For people who wait."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def deployed(toolchain: Toolchain, folder: Path) -> Iterator[tuple[LineChild, str]]:
    """The backend on the embedded engine, pushed by the real CLI."""
    project = project_copy(folder, toolchain)
    core = LineChild(
        [str(toolchain.node), str(toolchain.script("core"))],
        cwd=toolchain.folder,
        environment={"PATH": os.defpath},
        name="the backend",
        cause="backend",
    )
    try:
        ready = core.greeting(_DEADLINE_S)
        push(project, toolchain, ready["url"], ready["adminKey"], production=False, quiet=True)
        yield core, ready["url"]
    finally:
        core.close()


def _call(core: LineChild, path: str, args: dict[str, Any], **params: Any) -> Any:
    answer = core.request("call", {"path": path, "args": args, **params}, deadline_s=_DEADLINE_S)
    if "error" in answer:
        raise RuntimeError(f"{path}: {answer['error']['message']}")
    return answer


def add_token(core: LineChild) -> None:
    """What every report needs."""
    token = {"name": TOKEN, "hash": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["report"]}
    _call(core, "auth:createToken", token, identity="admin")


def _fill(core: LineChild, runs: int) -> None:
    """Each model reports one run; its history is copies of that one, and a last run brings its score up to date."""
    add_token(core)
    _report(core, "ensureSuite", fingerprint="f", evals=[_EVAL], parts=[])
    for number in range(_MODELS):
        _report(core, "ensureModel", slug=f"m{number}", displayName=f"M{number}", provider="p")
        _report_run(core, f"m{number}", "first", 1)
    firsts = core.request("list", {"table": "runs"}, deadline_s=_DEADLINE_S)["documents"]
    copies = [_copy(first, number) for first in firsts for number in range(runs // _MODELS - 2)]
    for start in range(0, len(copies), _BATCH):
        batch = copies[start : start + _BATCH]
        core.request("insert", {"table": "runs", "documents": batch}, deadline_s=_DEADLINE_S)
    for number in range(_MODELS):
        _report_run(core, f"m{number}", "last", 1_000_000)


def _copy(run: dict[str, Any], number: int) -> dict[str, Any]:
    own = {field: value for field, value in run.items() if not field.startswith("_")}
    return {**own, "key": f"{run['key']}-{number}", "startedAt": 2 + number}


def _report(core: LineChild, name: str, **args: Any) -> None:
    _call(core, f"admin:{name}", {"token": TOKEN, **args})


def _report_run(core: LineChild, model: str, name: str, started_at: int) -> None:
    key = f"{name}:{model}:default"
    run = {"key": key, "model": model, "experiment": "default", "fingerprint": "f", "plannedEvals": [_EVAL]}
    settings = {"repeats": 1, "backend": {"kind": "embedded", "version": "1"}, "startedAt": started_at}
    _report(core, "startRun", run={**run, **settings})
    tokens = dict.fromkeys(("inputTokens", "outputTokens", "reasoningTokens", "cachedTokens"), 1)
    result = {
        "verdict": {"kind": "passed"},
        "steps": [],
        "usage": {**tokens, "costUsd": 0.1},
        "generationMs": 1,
        "gradingMs": 1,
        "startedAt": started_at,
    }
    _report(core, "finishEval", runKey=key, cell={"evalPath": _EVAL, "repeat": 1, "attempt": 1}, result=result)
    _report(core, "completeRun", runKey=key, endedAt=started_at + 1)
