"""With workers and without: the same journal, the same JUnit, the same exit code; and what failed last runs again."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from tests.support.sessions import PROPERTIES, Done, Project
from tests.support.suites import EXPECT, GRADER

FAILS = GRADER.replace('"42" in', '"43" in')
BROKEN = "import a_module_that_is_nowhere\n\n\ndef test_never(files):\n    pass\n"
MODES = ("", "0", "2")


@pytest.fixture
def mixed(project: Project) -> Project:
    """Cells that pass, fail, err and are wrong where they must be, or not."""
    project.suite.add("000-first/000-passes", wrong={"caught": EXPECT})
    project.suite.add("000-first/001-fails", grader=FAILS)
    project.suite.add("001-second/000-errs", grader=BROKEN)
    project.suite.add(
        "001-second/001-lenient", wrong={"missed": EXPECT.replace("answers_the_question", "exports_the_answer")}
    )
    return project


OUTCOMES = {
    "000-passes[reference]": ("passed", ""),
    "000-passes[wrong:caught]": ("passed", ""),
    "001-fails[reference]": ("failed", "checks"),
    "000-errs[reference]": ("error", "grader"),
    "001-lenient[reference]": ("passed", ""),
    "001-lenient[wrong:missed]": ("failed", "not_caught"),
}
KINDS = {"passed": "passed", "failed": "failure", "error": "error"}


def normalised(value: Any, run_id: str) -> Any:
    """Without times and the id of the run."""
    if isinstance(value, dict):
        timed = {"duration_s", "grading_s", "started_at", "at"}
        return {key: normalised(item, run_id) for key, item in value.items() if key not in timed}
    if isinstance(value, list):
        return [normalised(item, run_id) for item in value]
    return value.replace(run_id, "RUN") if isinstance(value, str) else value


def journal_of(done: Done) -> list[Any]:
    (run,) = done.runs
    events = [normalised(event, run.name) for event in done.events]
    finished = [event for event in events if event["event"] == "cell_finished"]
    others = [event for event in events if event["event"] != "cell_finished"]
    return [*others, *sorted(finished, key=lambda event: event["record"]["node_id"])]


def junit_of(done: Done) -> list[Any]:
    (run,) = done.runs
    return [
        (case.name, case.kind, normalised(case.message, run.name), normalised(case.properties, run.name))
        for case in done.cases
    ]


def every_cell_is_journaled_and_reported_with_all_properties(done: Done) -> None:
    assert done.code == 1, done.output
    assert {name: (record.verdict.outcome, done.causes[name]) for name, record in done.records.items()} == OUTCOMES
    assert {case.name: case.kind for case in done.cases} == {n: KINDS[o] for n, (o, _) in OUTCOMES.items()}
    (run,) = done.runs
    for case in done.cases:
        record = done.records[case.name]
        assert list(case.properties) == PROPERTIES
        assert (case.properties["outcome"], case.properties["cause"]) == OUTCOMES[case.name]
        assert case.properties["eval"] == f"{case.properties['category']}/{record.name}"
        assert case.properties["run_id"] == run.name
        assert case.properties["fingerprint"] == record.fingerprint
        assert (case.properties["cost_usd"], case.properties["input_tokens"]) == ("0", "0")
    assert [event["event"] for event in done.events][:: len(done.events) - 1] == ["run_started", "run_finished"]
    assert (done.events[-1]["exit_status"], done.events[-1]["missing"]) == (1, 0)
    assert re.search(r"reference +1/2 +1/1 +2/3 +66\.7 % +1\n", done.output)
    assert re.search(r"wrong +1/1 +0/1 +1/2 +50\.0 % +0\n", done.output)


def test_journal_and_junit_are_whole_and_equal_with_and_without_workers(mixed: Project) -> None:
    results = []
    for workers in MODES:
        done = mixed.apart("evals", "--models", "reference,wrong", *(["-n", workers] if workers else []))
        every_cell_is_journaled_and_reported_with_all_properties(done)
        results.append((journal_of(done), junit_of(done)))
        shutil.rmtree(mixed.store)
    for number, what in enumerate(("journal", "JUnit")):
        assert results[0][number] == results[1][number] == results[2][number], what


def test_failures_name_the_step_the_check_and_the_folder(mixed: Project) -> None:
    done = mixed.here("evals", "-k", "001-fails")
    (case,) = done.cases
    (run,) = done.runs
    folder = f".evals/runs/{run.name}/cells/000-first/001-fails/reference/1/1"
    assert case.message.splitlines() == [
        "failed (checks): tests: 1 of 2 checks failed",
        "  test_answers_the_question: assert '43' in 'export const answer = 42;\\n'",
        "",
        "  test_answers_the_question",
        "    grader.py:5: in test_answers_the_question",
        '        assert "43" in files["convex/main.ts"]',
        "    E   AssertionError: assert '43' in 'export const answer = 42;\\n'",
        f"  folder: {folder}",
    ]
    assert (mixed.root / folder / "project/convex/main.ts").read_text(encoding="utf-8") == "export const answer = 42;\n"


def test_errors_are_told_apart_from_failures_and_without_a_traceback(mixed: Project) -> None:
    done = mixed.here("evals")
    assert "failed:\n  000-first/001-fails [reference] checks\n" in done.output
    assert "errors (ours, not the model's):\n  001-second/000-errs [reference] grader\n" in done.output
    assert "No module named 'a_module_that_is_nowhere'" in done.output
    assert "what to do: mend the grader" in done.output
    assert "Traceback" not in done.output
    assert "pytest_convex_evals/" not in done.output
    assert re.search(r"run what did not pass again: +pytest .* evals --lf\n", done.output)


@pytest.mark.parametrize("workers", ["", "2"])
def test_last_failed_runs_what_did_not_pass(mixed: Project, workers: str) -> None:
    (mixed.root / "test_ordinary.py").write_text(
        "def test_fine():\n    pass\n\n\ndef test_bad():\n    assert False\n", encoding="utf-8"
    )
    mixed.run(".", "--models", "reference,wrong", workers=workers)
    again = mixed.run(".", "--models", "reference,wrong", "--lf", workers=workers)
    assert sorted(case.name for case in again.cases) == [
        "000-errs[reference]",
        "001-fails[reference]",
        "001-lenient[wrong:missed]",
        "test_bad",
    ]
    for name in ("000-first/001-fails", "001-second/000-errs"):
        mixed.suite.add(name)
    narrower = mixed.run(".", "--lf", workers=workers)
    assert {case.name: case.kind for case in narrower.cases} == {
        "001-fails[reference]": "passed",
        "000-errs[reference]": "passed",
        "test_bad": "failure",
    }


def test_verbose_lines_say_how_many_checks_passed(mixed: Project) -> None:
    done = mixed.here("evals", "-v")
    assert re.search(r"::000-passes\[reference\] PASSED 2/2 checks \d+\.\d s", done.output)
    assert re.search(r"::001-fails\[reference\] FAILED 1/2 checks \d+\.\d s", done.output)
    assert re.search(r"::000-errs\[reference\] ERROR \d+\.\d s", done.output)


def test_cells_that_were_not_run_are_counted(mixed: Project) -> None:
    done = mixed.here("evals", "-x")
    assert done.code == 1
    assert list(done.outcomes) == ["000-passes[reference]", "001-fails[reference]"]
    assert "not run: 2 cells have no verdict" in done.output
    assert done.events[-1]["missing"] == 2


@pytest.mark.parametrize("workers", ["", "2"])
def test_messages_may_hold_any_character(project: Project, workers: str) -> None:
    odd = "half \\ud800, null \\0, bell \\a, ]]> & <b> \\u2028 \\U0001f600"
    project.suite.add("000-odd/000-odd", grader=f'def test_odd(files):\n    raise ValueError("{odd}")\n')
    project.suite.add("000-odd/001-fine")
    done = project.run("evals", workers=workers)
    assert "INTERNALERROR" not in done.output
    assert done.outcomes == {"000-odd[reference]": "failed", "001-fine[reference]": "passed"}
    (failed, _) = done.cases
    assert list(failed.properties) == PROPERTIES
    assert "]]> & <b>" in failed.message
