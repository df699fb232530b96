"""Every submission of the corpus, graded by the real pipeline at every level that this machine has."""

from __future__ import annotations

import os
import re

import pytest

from pytest_convex_evals.cage.levels import LEVELS
from pytest_convex_evals.grading.steps import checks
from pytest_convex_evals.records import Errored, Failed
from tests.hostile import corpus_files, corpus_runtime
from tests.hostile.case import Case
from tests.support.cages import available

CASES = [*corpus_files.CASES, *corpus_runtime.CASES]
ALL = os.environ.get("HOSTILE") == "all"
"""`make hostile` grades all at every level; `make test` a few of each kind at the strongest one."""


def selected() -> list[object]:
    strongest = available()[0]
    found = []
    for level in LEVELS if ALL else (strongest,):
        wanted = [case for case in CASES if (case.quick or ALL) and (case.everywhere or level == strongest)]
        found += [pytest.param(case, level, id=f"{case.name}-{level}") for case in wanted]
    return found


def test_the_corpus_is_large_and_says_what_each_attempts():
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.attempts for case in CASES)


@pytest.mark.parametrize(("case", "level"), selected())
def test_a_hostile_submission_comes_to_nothing(case: Case, level: str, world_at, monkeypatch) -> None:
    world = world_at(level)
    if (case.step, case.cause) == ("tsc", "limit"):
        monkeypatch.setattr(checks, "_DEADLINE_S", 25.0)
    record = world.grade(case.files, case.attack)
    steps = {step.name: step for step in record.steps}
    told = "\n".join(f"{step.name}: {step.verdict} {step.checks}" for step in record.steps)
    assert case.step in steps, told
    step = steps[case.step]
    seen = " ".join(check.verdict.reason for check in step.checks if isinstance(check.verdict, Failed | Errored))
    seen += getattr(step.verdict, "reason", "")
    if level not in case.stopped_by:
        broken = world.listener.connections or world.victim.poll() is not None or world.leaks(record)
        assert step.verdict.outcome != case.outcome or broken, f"{level} stops it, too: {told}"
        return
    assert step.verdict.outcome == case.outcome, told
    if case.cause:
        assert getattr(step.verdict, "cause", "") == case.cause, told
    assert re.search(case.reason, seen), told
    assert record.verdict.outcome != "error", told
    if case.step == "tests":
        honest = next(check for check in step.checks if check.name == "test_honest_functions_work")
        assert honest.verdict.outcome == "passed", told
    assert world.leaks(record) == []
    assert list(world.outside.iterdir()) == []
    assert world.listener.connections == 0
    assert world.victim.poll() is None
    assert world.other.deployed() is False


@pytest.mark.parametrize("level", LEVELS if ALL else available()[:1])
def test_after_all_of_them_an_honest_submission_passes(level: str, world_at) -> None:
    record = world_at(level).grade({})
    assert (record.verdict.outcome, record.sandbox) == ("passed", level), record


@pytest.mark.skipif(not ALL, reason="make hostile runs it")
def test_a_bundler_that_dies_over_a_submission_is_replaced_before_the_next(world_at) -> None:
    world = world_at(available()[0])
    bomb = next(case for case in CASES if case.name == "bundle of constants")
    assert world.grade(bomb.files).verdict.outcome == "failed"
    honest = world.grade({})
    assert honest.verdict.outcome == "passed", honest
    assert [step.notes for step in honest.steps if step.name == "deploy"] == [()], "pushed by the worker"
