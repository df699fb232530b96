"""What a worker hands in for a cell whose submission is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.earlier import Given
from pytest_convex_evals.errors import SettingsError, Trouble
from pytest_convex_evals.generation.answers import Answer, leave_answer
from pytest_convex_evals.generation.store import Call, Generation, GenerationStore
from pytest_convex_evals.rehearsal import Rehearsal
from pytest_convex_evals.session import Plan
from pytest_convex_evals.settings import Settings
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.fingerprint import fingerprint_parts
from pytest_convex_evals.worker_side import WorkerSide
from tests.support.suites import RIGHT, Suite, answer_text
from tests.support.verdicts import generation

CELL = Cell("000-some", "000-a", "gpt-5", "default")


def settings(folder: Path) -> Settings:
    return Settings(
        models=("gpt-5",),
        filter="",
        experiment="default",
        guidelines="",
        backend="embedded",
        sandbox="node",
        repeats=1,
        concurrency=1,
        budget=None,
        yes=True,
        dir=str(folder),
        outputs="",
    )


def handed_in(folder: Path, cell: Cell, given: Given) -> Any:
    task = Suite(folder / "evals").add("000-some/000-a") / "TASK.txt"
    plan = Plan(settings(folder), "abcd1234-x", (), given={cell.eval_id: {cell.label: given}})
    # The way to a worker changes nothing.
    side = WorkerSide(Plan.from_json(plan.as_json()), None, folder)
    assert side.plan == plan
    return side._submission(load_eval(task), cell)


def answer(key: str, text: str) -> Generation:
    call = Call(litellm_id="gpt-5", messages=[], parameters={})
    return Generation(call=call, repeat=1, record=generation(key=key), text=text, refusal=None, response={})


def test_a_stored_answer_comes_with_the_lock_of_its_attempt(tmp_path):
    GenerationStore(tmp_path / "generations").put(answer("k", answer_text()))
    (tmp_path / "package-lock.json").write_text("{}", encoding="utf-8")
    found = handed_in(tmp_path, CELL, Given("", "k", True, str(tmp_path / "package-lock.json"), ""))
    assert (found.files, found.lock, found.generation.reused) == (RIGHT, "{}", True)
    assert handed_in(tmp_path, CELL, Given("", "k", False, "gone", "")).lock is None


def test_an_answer_that_is_never_reused_comes_from_its_answer_file(tmp_path):
    leave_answer(tmp_path / "answer.json", Answer(unstored=answer("k", answer_text())))
    path = str(tmp_path / "answer.json")
    assert handed_in(tmp_path, CELL, Given(path, "k", False, "", "")).files == RIGHT
    for given in (Given(path, "another", False, "", ""), Given("", "k", False, "", "")):
        with pytest.raises(Trouble, match="cannot be read back"):
            handed_in(tmp_path, CELL, given)


def test_the_lock_of_a_reference_counts_while_the_reference_is_the_same(tmp_path):
    (tmp_path / "lock").write_text("{}", encoding="utf-8")
    task = Suite(tmp_path / "evals").add("000-some/000-a") / "TASK.txt"
    part = fingerprint_parts(load_eval(task), "")["answer"]
    cell = Cell("000-some", "000-a", "reference", "default")
    assert handed_in(tmp_path, cell, Given("", "", False, str(tmp_path / "lock"), part)).lock == "{}"
    assert handed_in(tmp_path, cell, Given("", "", False, str(tmp_path / "lock"), "other")).lock is None


def test_rehearsals_are_pairs_of_names_and_numbers():
    assert Rehearsal.parse("latency=0.5, faults=0.1 in_flight=3 seed=9") == Rehearsal(0.5, 0.1, 3, 9)
    assert Rehearsal.parse("") == Rehearsal()
    for wrong in ("latency", "faults=2", "in_flight=0", "seed=x", "speed=1", "latency=-1"):
        with pytest.raises(SettingsError, match="is not understood"):
            Rehearsal.parse(wrong)
