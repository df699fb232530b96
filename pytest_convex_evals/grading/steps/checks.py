"""Type checking and linting, with our rules, in the trusted toolchain worker."""

from __future__ import annotations

from typing import Any

from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import Failed, FailureCause, Passed, StepName

_DEADLINE_S = 120.0
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
        params = {
            "project": str(bench.project),
            "toolchain": str(bench.tools.toolchain().folder),
            "files": [path for path in bench.files if path.startswith(_CHECKED)],
        }
        findings = bench.tools.worker.request(self.method, params, deadline_s=_DEADLINE_S)["findings"]
        (bench.folder / f"{self.name}.log").write_text("\n".join(map(_line, findings)) + "\n", encoding="utf-8")
        if not findings:
            return StepResult(Passed())
        shown = "".join(f"\n{_line(finding)}" for finding in findings[:_SHOWN])
        more = f"\n… and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
        count = f"{len(findings)} {self.what}{'s' if len(findings) > 1 else ''}"
        return StepResult(Failed(cause=self.cause, reason=f"{count}{shown}{more}"))


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
