"""The pipeline: steps in their order, one verdict at the end.

1. A step that passes, fails or meets trouble is recorded.
2. A blocking step that does not pass ends the pipeline; the others all run and all report. Checks of the sources run
   one after the other beside the tests, because neither needs what the other makes.
3. The cell failed when any step failed; else it is an error when any step met trouble; else it passed.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pytest_convex_evals.errors import Trouble, disk_trouble
from pytest_convex_evals.grading.steps.base import Bench, Step, StepResult
from pytest_convex_evals.grading.steps.checks import LintStep, TypeCheckStep
from pytest_convex_evals.grading.steps.deploy import DeployStep
from pytest_convex_evals.grading.steps.filesystem import FilesystemStep
from pytest_convex_evals.grading.steps.install import InstallStep
from pytest_convex_evals.grading.steps.tests import TestsStep
from pytest_convex_evals.grading.steps.vitest import VitestStep, open_room
from pytest_convex_evals.records import Errored, Failed, Passed, StepRecord

if TYPE_CHECKING:
    from importlib.abc import Loader

    from pytest_convex_evals.suite.evals import Eval

_log = logging.getLogger(__name__)


def steps_of(item: Eval, loader: Loader | None) -> tuple[Step, ...]:
    """The steps of an eval, in their order."""
    tests: Step = TestsStep(loader) if item.vitest is None else VitestStep()
    if item.pipeline == "static":
        return (FilesystemStep(), tests)
    # While the push goes on, the process of a vitest grader starts.
    deploy = DeployStep() if item.vitest is None else DeployStep(before_push=open_room)
    return (FilesystemStep(), InstallStep(), deploy, TypeCheckStep(), LintStep(), tests)


def run_steps(steps: Sequence[Step], bench: Bench) -> tuple[StepRecord, ...]:
    """Run until a blocking step does not pass; then what remains, side by side."""
    records = []
    for step in steps:
        if step.blocks:
            records.append(_recorded(step, bench))
            if not isinstance(records[-1].verdict, Passed):
                return tuple(records)
    aside = [step for step in steps if not step.blocks and step.aside]
    with ThreadPoolExecutor(1, thread_name_prefix="convex-evals-aside") as thread:
        waiting = thread.submit(lambda: [_recorded(step, bench) for step in aside])
        here = [_recorded(step, bench) for step in steps if not step.blocks and not step.aside]
        records += [*waiting.result(), *here]
    order = [step.name for step in steps]
    return tuple(sorted(records, key=lambda record: order.index(record.name)))


def _recorded(step: Step, bench: Bench) -> StepRecord:
    bench.entered(step.name)
    started = time.monotonic()
    result = _run(step, bench)
    record = StepRecord(
        name=step.name,
        verdict=result.verdict,
        duration_s=round(time.monotonic() - started, 4),
        checks=result.checks,
        notes=result.notes,
    )
    return StepRecord.model_validate(encodable(record.model_dump()))


def _run(step: Step, bench: Bench) -> StepResult:
    try:
        return step.run(bench)
    except Trouble as trouble:
        return StepResult(errored(trouble))
    except OSError as error:
        return StepResult(errored(disk_trouble(error, f"a file of the {step.name} step")))
    except Exception as error:  # noqa: BLE001 - a defect of ours must not take the session down
        return StepResult(defect(f"the {step.name} step", error))


def errored(trouble: Trouble) -> Errored:
    """Trouble as it is recorded."""
    return Errored(cause=trouble.cause, reason=encodable(trouble.reason), remedy=encodable(trouble.remedy))


def defect(where: str, error: Exception) -> Errored:
    """A mistake of this package, as it is recorded."""
    _log.error("defect in %s\n%s", where, encodable("".join(traceback.format_exception(error))))
    reason = f"defect in {where}: {type(error).__name__}: {error}"
    return Errored(cause="internal", reason=encodable(reason), remedy="please report it with the log")


def encodable(value: Any) -> Any:
    """The same, with text that every file can hold: messages of graders and tools may have halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list | tuple) else value


def verdict_of(steps: Sequence[StepRecord]) -> Passed | Failed | Errored:
    """The verdict on a cell: the one place where it is decided."""
    failed = [step for step in steps if isinstance(step.verdict, Failed)]
    if failed:
        first = failed[0].verdict
        assert isinstance(first, Failed)
        reasons = [f"{step.name}: {step.verdict.reason}" for step in failed if isinstance(step.verdict, Failed)]
        return Failed(cause=first.cause, reason="\n".join(reasons))
    for step in steps:
        if isinstance(step.verdict, Errored):
            verdict = step.verdict
            return Errored(cause=verdict.cause, reason=f"{step.name}: {verdict.reason}", remedy=verdict.remedy)
    return Passed()
