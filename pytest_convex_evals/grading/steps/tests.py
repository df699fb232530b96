"""Tests: the checks of the eval's grader."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.grader import run_checks
from pytest_convex_evals.grading.sources import Sources
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed, StepName

if TYPE_CHECKING:
    from importlib.abc import Loader

_SOURCES_S = 60.0


class TestsStep:
    """Runs after everything else, and always reports every check."""

    __test__ = False
    name: StepName = "tests"
    blocks = False

    def __init__(self, loader: Loader | None = None) -> None:
        self._loader = loader

    def run(self, bench: Bench) -> StepResult:
        """Every check, then one verdict."""
        grader = bench.item.grader
        if grader.suffix != ".py":
            raise Trouble("grader", f"{grader} is a vitest grader, which this version does not run")
        found: list[Sources] = []

        def sources() -> Sources:
            if not found:
                facts = bench.toolchain.request("sources", {"files": bench.files}, deadline_s=_SOURCES_S)
                found.append(Sources.from_facts(facts))
            return found[0]

        providers = {"files": lambda: MappingProxyType(dict(bench.files)), "sources": sources}
        checks = run_checks(grader, self._loader, providers, extra_s=bench.item.extra_time)
        return StepResult(verdict_on(checks), checks)


def verdict_on(checks: tuple[CheckRecord, ...]) -> Passed | Failed | Errored:
    """A check that failed decides; then trouble; else all is well."""
    failed = [check for check in checks if isinstance(check.verdict, Failed)]
    if failed:
        lines = "".join(f"\n{check.name}: {_first_line(check)}" for check in failed)
        return Failed(cause="checks", reason=f"{len(failed)} of {len(checks)} checks failed{lines}")
    for check in checks:
        if isinstance(check.verdict, Errored):
            return check.verdict
    return Passed()


def _first_line(check: CheckRecord) -> str:
    assert isinstance(check.verdict, Failed)
    return check.verdict.reason.partition("\n")[0]
