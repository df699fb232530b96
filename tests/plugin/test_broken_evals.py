"""Broken evals among the selected ones are collection errors; everything else goes its way."""

from __future__ import annotations

import pytest

from tests.support.sessions import Project
from tests.support.suites import EXPECT, GRADER, RIGHT

BROKEN = {
    "no grader": ({"grader": None}, "001-broken: has no grader", "keep exactly one of grader.py and grader.test.ts"),
    "two graders": ({}, "001-broken: has two graders: grader.py and grader.test.ts", "keep exactly one of"),
    "unknown key": (
        {"toml": "pipelin = 1\n"},
        "eval.toml: unknown key 'pipelin'",
        "use only extra_time, pipeline, tags",
    ),
    "not toml": ({"toml": "pipeline = \n"}, "eval.toml: is not TOML", "correct the syntax"),
    "no answer": ({"answer": None}, "001-broken: has no answer/ folder", "add the reference project as answer/"),
    "empty task": ({"task": " \n"}, "TASK.txt: is empty", "write the prompt that the model gets"),
}
WRONG = {
    "no expectation": (None, "wrong/a: has no expect.toml", "say where it must fail"),
    "unknown step": (
        EXPECT.replace('"tests"', '"deployed"'),
        "expect.toml: step 'deployed' is not a step",
        "use one of",
    ),
    "no reason": (EXPECT.partition("why")[0], "expect.toml: does not say why", 'write why = "…"'),
    "unknown key": (EXPECT + "when = 1\n", "expect.toml: unknown key 'when'", "use only check, delete, step, why"),
}


@pytest.fixture
def good(project: Project) -> Project:
    project.suite.add("000-good/001-fine")
    return project


def broken(project: Project, case: str) -> tuple[str, str]:
    arguments, problem, remedy = BROKEN[case]
    folder = project.suite.add("000-broken/001-broken", **arguments)
    if case == "two graders":
        (folder / "grader.test.ts").write_text("", encoding="utf-8")
    return problem, f"what to do: {remedy}"


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_eval_is_named_with_its_remedy_and_the_others_run(good: Project, case: str) -> None:
    problem, remedy = broken(good, case)
    done = good.here("evals")
    assert done.code == 1
    assert problem in done.output
    assert remedy in done.output
    assert "ERROR evals/000-broken/001-broken/TASK.txt" in done.output
    assert "Traceback" not in done.output
    assert done.outcomes == {"001-fine[reference]": "passed"}
    assert sorted((case.name, case.kind) for case in done.cases)[0] == ("001-fine[reference]", "passed")
    assert "1 passed, 1 error" in done.output


@pytest.mark.parametrize("case", WRONG)
def test_a_broken_wrong_submission_is_named_and_the_others_run(good: Project, case: str) -> None:
    expect, problem, remedy = WRONG[case]
    good.suite.add("000-good/002-half", wrong={"a": expect, "b": EXPECT})
    done = good.here("evals", "--models", "wrong,reference")
    assert done.code == 1
    assert problem in done.output
    assert f"what to do: {remedy}" in done.output
    assert set(done.outcomes) == {"001-fine[reference]", "002-half[reference]", "002-half[wrong:b]"}
    assert good.here("evals", "--models", "reference").code == 0


def test_every_broken_wrong_submission_of_an_eval_is_named(good: Project) -> None:
    good.suite.add("000-good/002-half", wrong={"a": None, "b": "step = 1\n"})
    done = good.here("evals", "--models", "wrong")
    assert "wrong/a: has no expect.toml" in done.output
    assert "wrong/b/expect.toml: step 1 is not a step" in done.output


@pytest.mark.parametrize("ci", ["", "true"], ids=["at a desk", "in CI"])
def test_workers_tell_of_a_broken_eval_once_and_run_the_others(
    good: Project, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    # In CI pytest's closing lines carry whole messages, so only the section with the errors is counted.
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.setenv("CI", ci)
    for case in ("no grader", "empty task"):
        problem, remedy = broken(good, case)
    good.suite.add("000-broken/002-also", toml="nonsense = 1\n")
    done = good.run("evals", workers="2")
    assert done.code == 1
    errors = done.output.partition("short test summary info")[0]
    assert errors.count(problem) == errors.count(remedy) == 1
    assert "unknown key 'nonsense'" in done.output
    assert done.outcomes == {"001-fine[reference]": "passed"}
    assert [event["cells"] for event in done.events if event["event"] == "run_started"] == [
        ["evals/000-good/001-fine/TASK.txt::001-fine[reference]"]
    ]


@pytest.mark.parametrize("workers", ["", "2"])
def test_a_session_of_broken_evals_only_is_not_a_success(project: Project, workers: str) -> None:
    problem, _ = broken(project, "no grader")
    done = project.run("evals", workers=workers)
    assert done.code == 1, done.output
    assert problem in done.output


@pytest.mark.parametrize(
    "selection",
    [
        ["evals", "-k", "fine"],
        ["evals", "--evals-filter", "good"],
        ["evals/000-good"],
        ["evals", "--deselect", "evals/000-broken"],
        ["evals/000-good/001-fine/TASK.txt::001-fine[reference]"],
        ["evals", "-m", "category(name='000-good')"],
    ],
    ids=" ".join,
)
def test_a_broken_eval_that_is_not_selected_disturbs_nobody(good: Project, selection: list[str]) -> None:
    broken(good, "no grader")
    done = good.here(*selection)
    assert done.code == 0, done.output
    assert "grader.test.ts" not in done.output


def test_ordinary_tests_beside_evals_keep_their_behaviour(good: Project) -> None:
    (good.root / "test_ordinary.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef files():\n    return 7\n\n"
        "def test_fixture(files, tmp_path):\n    assert files == 7\n\n"
        "def test_skipped():\n    pytest.skip('not today')\n\ndef test_bad():\n    assert 1 == 2\n",
        encoding="utf-8",
    )
    for workers in ("", "2"):
        done = good.run(workers=workers)
        assert done.code == 1
        assert "2 passed, 1 skipped" in done.output.replace("1 failed, ", "")
        kinds = {case.name: case.kind for case in done.cases}
        assert kinds == {
            "001-fine[reference]": "passed",
            "test_fixture": "passed",
            "test_skipped": "skipped",
            "test_bad": "failure",
        }
        assert [bool(case.properties) for case in done.cases] == [True, False, False, False]


def test_a_collection_error_of_ordinary_tests_stops_the_session_as_ever(good: Project) -> None:
    (good.root / "test_ordinary.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    broken(good, "no grader")
    done = good.here()
    assert done.code == 2
    assert "Interrupted: 2 errors during collection" in done.output
    assert not done.runs
    done = good.here("--continue-on-collection-errors")
    assert done.code == 1
    assert done.outcomes == {"001-fine[reference]": "passed"}


def test_an_unreadable_file_of_an_eval_is_named(good: Project) -> None:
    folder = good.suite.add("000-broken/001-broken", answer=RIGHT, grader=GRADER)
    (folder / "TASK.txt").write_bytes(b"\xff\xfe\x00")
    done = good.here("evals")
    assert done.code == 1
    assert "001-broken/TASK.txt: is not UTF-8 text" in done.output
