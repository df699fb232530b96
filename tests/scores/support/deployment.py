"""A deployment of the scores backend, and calls to it through the real Python client."""

import hashlib
import json
from pathlib import Path
from typing import Any

from convex import ConvexClient

from tests.engine.support.core import Core, request
from tests.engine.support.project import CliResult, run_cli

from .project import copy_project

TOKEN = "a token with every scope"
EVALS = ["000-basics/000-empty", "000-basics/001-schema", "001-queries/000-index"]
PASSED = {"kind": "passed"}
FAILED = {"kind": "failed", "cause": "checks", "reason": "a check failed"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Deployment:
    """The embedded engine with the backend on it."""

    def __init__(self, folder: Path, core: Core | None = None) -> None:
        self.folder = copy_project(folder)
        self.core = core or Core()
        self.client = ConvexClient(self.core.url)

    def close(self) -> None:
        self.core.close()

    def cli(self, *command: str) -> CliResult:
        return run_cli(self.core, self.folder, *command)

    def push(self) -> None:
        pushed = self.cli("dev", "--once", "--typecheck", "disable")
        assert pushed.code == 0, pushed.output

    def reset(self, clock: int | None = None) -> None:
        self.core.control("reset", **({} if clock is None else {"clock": clock}))
        self.add_token(TOKEN, ["report", "maintain", "mint"])

    def add_token(self, token: str, scopes: list[str]) -> None:
        self.internal("auth:createToken", name=token, hash=sha256(token.encode()), scopes=scopes)

    def internal(self, path: str, **args: Any) -> Any:
        """As someone with the admin key."""
        return self.core.run(path, args, identity="admin")

    def report(self, name: str, **args: Any) -> Any:
        return self.client.mutation(f"admin:{name}", {"token": TOKEN, **args})

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.core.control("list", table=table)["documents"]

    def start(self, key: str, evals: list[str] = EVALS, **changes: Any) -> str:
        """A run of a model, whatever it refers to included; its id."""
        self.report("ensureModel", slug="gpt-5", displayName="GPT-5", provider="openai")
        self.report("ensureSuite", fingerprint="f1", evals=evals, parts=[{"name": "prompt", "hash": "1"}])
        run = {
            "key": key,
            "model": "gpt-5",
            "experiment": "default",
            "fingerprint": "f1",
            "plannedEvals": evals,
            "repeats": 1,
            "backend": {"kind": "embedded", "version": "1"},
            "startedAt": 1000,
            **changes,
        }
        return self.report("startRun", run=run)["runId"]

    def finish(
        self, key: str, eval_path: str, verdict: dict[str, Any], checks: int = 2, attempt: int = 1, **changes: Any
    ) -> str:
        """A verdict on a cell; its id."""
        found = [{"name": f"test_{n}", "verdict": verdict, "durationMs": 1, "detail": ""} for n in range(checks)]
        result = {
            "verdict": verdict,
            "steps": [{"name": "tests", "verdict": verdict, "durationMs": 3.5, "checks": found}],
            "usage": {
                "inputTokens": 10,
                "outputTokens": 20,
                "reasoningTokens": None,
                "cachedTokens": None,
                "costUsd": 0.25,
            },
            "generationMs": 1500,
            "gradingMs": 12.5,
            "startedAt": 2000,
            **changes,
        }
        cell = {"evalPath": eval_path, "repeat": 1, "attempt": attempt}
        return self.report("finishEval", runKey=key, cell=cell, result=result)["evalId"]

    def upload(self, files: dict[str, str]) -> str:
        """An archive, stored as the reporter does it; its hash."""
        listed = [{"path": path, "text": text} for path, text in files.items()]
        data = json.dumps({"version": 1, "files": listed}).encode()
        prepared = self.report("prepareUpload", sha256=sha256(data), size=len(data))
        if not prepared["stored"]:
            sent = request(prepared["uploadUrl"], data, {"Content-Type": "application/json"}, "POST")
            self.report("registerAsset", sha256=sha256(data), storageId=sent.json()["storageId"])
        return sha256(data)
