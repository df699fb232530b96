"""Type checking and linting, with our rules, in the trusted toolchain worker."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.grading.steps.filesystem import FilesystemStep
from pytest_convex_evals.grading.steps.install import InstallStep
from pytest_convex_evals.records import Failed, FailureCause, Passed, StepName
from pytest_convex_evals.submission import Submission

_DEADLINE_S = 120.0
_ATTEMPTS = 2
_SHOWN = 25
_CHECKED = ("convex/", "src/")


class ToolchainCheck:
    """A method of the toolchain worker that lists findings; any finding fails the step."""

    name: StepName
    blocks = False
    aside = True
    method: str
    cause: FailureCause
    what: str

    def run(self, bench: Bench) -> StepResult:
        """Ask the worker about the submission's own files."""
        params = _params(bench)
        try:
            findings = self._findings(bench, params)
        except _UsedUp as used_up:
            return StepResult(Failed(cause="limit", reason=f"{self.name} {used_up}; that of the reference answer ends"))
        bench.keep_log(self.name, "\n".join(map(_line, findings)))
        if not findings:
            return StepResult(Passed())
        shown = "".join(f"\n{_line(finding)}" for finding in findings[:_SHOWN])
        more = f"\n… and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
        count = f"{len(findings)} {self.what}{'s' if len(findings) > 1 else ''}"
        return StepResult(Failed(cause=self.cause, reason=f"{count}{shown}{more}"))

    def _findings(self, bench: Bench, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Once more when the worker dies or is silent, and then decide by the reference whose fault that is."""
        for attempt in range(_ATTEMPTS):
            try:
                found = bench.tools.worker.request(self.method, params, deadline_s=_DEADLINE_S)
            except Trouble as trouble:
                if attempt + 1 < _ATTEMPTS:
                    continue
                self._try_reference(bench)
                raise _UsedUp(f"did not end: {trouble.reason}") from None
            if "problem" in found:
                remedy = "mend it, or install its packages in the suite (npm install)"
                raise Trouble("eval", f"the suite's ESLint config: {found['problem']}", remedy=remedy)
            return list(found["findings"])
        raise AssertionError("unreachable")

    def _try_reference(self, bench: Bench) -> None:
        """Raises when the worker cannot do it either; what it finds does not matter."""
        with tempfile.TemporaryDirectory(prefix="convex-evals-reference-") as folder:
            answer = Bench(bench.item, Submission(bench.item.answer_files()), Path(folder), bench.tools)
            FilesystemStep().run(answer)
            InstallStep().run(answer)
            bench.tools.worker.request(self.method, _params(answer), deadline_s=_DEADLINE_S)


def _params(bench: Bench) -> dict[str, Any]:
    suite = bench.item.vitest
    return {
        "project": str(bench.project),
        "toolchain": str(bench.tools.toolchain().folder),
        "files": [path for path in bench.files if path.startswith(_CHECKED)],
        "configs": {} if suite is None else {part: str(path) for part, path in suite.lint_configs().items()},
    }


class _UsedUp(Exception):  # noqa: N818 - a state
    """The submission takes the worker down or never lets it end."""


class TypeCheckStep(ToolchainCheck):
    """Strict TypeScript."""

    name: StepName = "tsc"
    method = "typecheck"
    cause: FailureCause = "types"
    what = "type error"


class LintStep(ToolchainCheck):
    """ESLint with rules that catch bugs."""

    name: StepName = "eslint"
    method = "lint"
    cause: FailureCause = "lint"
    what = "lint error"


def _line(finding: dict[str, Any]) -> str:
    place = f"{finding['file']}:{finding['line']}:{finding['column']}"
    return f"{place} {finding['rule']} {finding['message']}"
