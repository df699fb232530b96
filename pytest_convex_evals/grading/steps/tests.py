"""Tests: the checks of the eval's grader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_convex_evals.grading.grader import run_checks
from pytest_convex_evals.grading.props import Props
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed, StepName

if TYPE_CHECKING:
    from importlib.abc import Loader


class TestsStep:
    """Runs after everything else, and always reports every check."""

    __test__ = False
    name: StepName = "tests"
    blocks = False
    aside = False

    def __init__(self, loader: Loader | None = None) -> None:
        self._loader = loader

    def run(self, bench: Bench) -> StepResult:
        """Every check, then one verdict."""
        grader = bench.item.grader
        with Props(bench) as props:
            extra = bench.item.extra_time
            checks = run_checks(
                grader, self._loader, props.makers, extra_s=extra, before=props.begin_check, after=props.end_check
            )
        if bench.backend is not None and any(_was_left_behind(check) for check in checks):
            bench.backend.discard()
        return StepResult(verdict_on(checks), checks)


def _was_left_behind(check: CheckRecord) -> bool:
    """Its thread may still run, and talk to the backend."""
    return isinstance(check.verdict, Errored) and check.verdict.cause == "grader_timeout"


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
