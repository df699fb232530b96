"""From vitest's report to checks and a verdict.

| what vitest reports | outcome |
|---|---|
| a test that failed, was skipped or is only planned | `failed`: a test that did not run is not passed |
| no test, because a source of the grader does not compile, is not there or throws | `error: grader` |
| the same because of a file of the submission | `failed` |
| no test at all | `error: grader` |
| the grader exits, or its process ends | `error: grader` |
| the time of the step is over | `error: grader_timeout`, unless a test had failed by then |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.steps.base import StepResult
from pytest_convex_evals.grading.steps.tests import verdict_on
from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed

_MAX_REASON = 2_000
_MAX_DETAIL = 8_000
_MAX_NOTES = 5
_MS = 1000.0


def result_of(report: Mapping[str, Any], grader: Path, project: Path, seconds: float) -> StepResult:
    """The checks of a grader; `Trouble` when there is no verdict and the submission is not to blame."""
    tests: Sequence[Mapping[str, Any]] = report["tests"]
    if not report["started"]:
        raise Trouble("toolchain", f"the process for the grader did not start{_last(report['output'])}")
    if report["exited"] is not None:
        reason = f"{grader} ended its process by process.exit({report['exited']})"
        raise Trouble("grader", reason, remedy="let tests fail instead")
    if report["timedOut"]:
        return _ran_out_of_time(tests, grader, seconds)
    if report["died"] is not None:
        reason = f"the process of {grader} ended before its tests did ({report['died']}){_last(report['output'])}"
        raise Trouble("grader", reason, remedy="look at what the grader does to its own process, and to memory")
    if not tests:
        return StepResult(_no_tests(report["problems"] or report["unhandled"], grader, project))
    checks = tuple(_check(name, test) for name, test in zip(_names(tests), tests, strict=True))
    return StepResult(verdict_on(checks), checks, _notes(report))


def _names(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Full names; one that comes again gets a number."""
    seen: Counter[str] = Counter()
    names = []
    for test in tests:
        seen[test["name"]] += 1
        names.append(test["name"] if seen[test["name"]] == 1 else f"{test['name']} ({seen[test['name']]})")
    return names


def _check(name: str, test: Mapping[str, Any]) -> CheckRecord:
    duration, problems = round(test["duration"] / _MS, 4), test["problems"]
    if test["state"] == "passed":
        return CheckRecord(name=name, verdict=Passed(), duration_s=duration)
    reason = "\n".join(problem["message"] for problem in problems)
    if not reason:
        reason = "the test did not run (skip or todo), and what did not run is not passed"
    detail = "\n".join(problem["detail"] for problem in problems)
    verdict = Failed(cause="checks", reason=_short(reason, _MAX_REASON))
    return CheckRecord(name=name, verdict=verdict, duration_s=duration, detail=_short(detail, _MAX_DETAIL))


def _ran_out_of_time(tests: Sequence[Mapping[str, Any]], grader: Path, seconds: float) -> StepResult:
    """What ended before counts; what had not is nobody's failure."""
    reason = f"{grader} did not end within {seconds:.0f} s"
    late = Errored(cause="grader_timeout", reason=reason, remedy="give each test a time-out of its own")
    checks = tuple(
        _check(name, test)
        if test["state"] in {"passed", "failed"}
        else CheckRecord(name=name, verdict=late, duration_s=round(test["duration"] / _MS, 4))
        for name, test in zip(_names(tests), tests, strict=True)
    )
    verdict = verdict_on(checks)
    return StepResult(late if isinstance(verdict, Passed) else verdict, checks)


def _no_tests(problems: Sequence[Mapping[str, Any]], grader: Path, project: Path) -> Failed:
    if not problems:
        remedy = "call test() or it() at the top level of the grader, or in describe()"
        raise Trouble("grader", f"{grader} registers no test", remedy=remedy)
    first = problems[0]
    message = _short(str(first["message"]), _MAX_REASON)
    if _is_below(first["file"], project):
        return Failed(cause="checks", reason=f"a file of the submission cannot be loaded by the grader: {message}")
    where = f" ({first['file']})" if first["file"] and first["file"] not in message else ""
    remedy = "mend the grader; a package that is missing can be installed in the suite (npm install)"
    raise Trouble("grader", f"{grader} cannot be run: {message}{where}", remedy=remedy)


def _is_below(file: str, folder: Path) -> bool:
    path = Path(file.partition("?")[0])
    return bool(file) and "node_modules" not in path.parts and path.is_relative_to(folder)


def _notes(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What vitest would complain about at its end; tests alone decide."""
    found = [f"outside of the tests: {problem['message']}" for problem in [*report["problems"], *report["unhandled"]]]
    more = [f"… and {len(found) - _MAX_NOTES} more"] if len(found) > _MAX_NOTES else []
    return tuple(_short(note, _MAX_REASON) for note in found[:_MAX_NOTES] + more)


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"
