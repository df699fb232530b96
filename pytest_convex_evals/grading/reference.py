"""What the reference answer deploys: its schema and its function spec, computed once per content."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import write_json
from pytest_convex_evals.grading.steps.base import Bench, Step
from pytest_convex_evals.grading.steps.deploy import DeployStep
from pytest_convex_evals.grading.steps.filesystem import FilesystemStep
from pytest_convex_evals.grading.steps.install import InstallStep
from pytest_convex_evals.records import Passed
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.fingerprint import eval_fingerprint, harness_fingerprint

if TYPE_CHECKING:
    from pytest_convex_evals.grading.tools import Tools
    from pytest_convex_evals.suite.evals import Eval


@dataclass(frozen=True, slots=True)
class Reference:
    """What the reference answer looks like once deployed."""

    schema: dict[str, Any] | None
    """As `app.schema()`."""
    functions: list[dict[str, Any]]
    """As `app.functions()`."""


def reference_of(item: Eval, tools: Tools) -> Reference:
    """From the cache, or by deploying the answer; an answer that cannot be deployed is our trouble."""
    key = f"{eval_fingerprint(item)[:24]}-{harness_fingerprint()[:8]}"
    path = tools.cache / "reference" / f"{key}.json"
    try:
        return Reference(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        found = _deploy(item, tools)
        write_json(path, {"schema": found.schema, "functions": found.functions}, durable=False)
        return found


def _deploy(item: Eval, tools: Tools) -> Reference:
    steps: tuple[Callable[[], Step], ...] = (FilesystemStep, InstallStep, DeployStep)
    with tempfile.TemporaryDirectory(prefix="convex-evals-reference-") as folder:
        bench = Bench(item, Submission(item.answer_files()), Path(folder), tools)
        try:
            for make in steps:
                step = make()
                verdict = step.run(bench).verdict
                if not isinstance(verdict, Passed):
                    reason = f"the answer of {item.id} fails at {step.name}: {verdict.reason}"
                    raise Trouble("reference", reason, remedy="mend the answer")
            assert bench.backend is not None
            return Reference(bench.backend.schema(), bench.backend.functions())
        finally:
            bench.close()
