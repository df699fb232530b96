"""Records in, text out, for every kind of verdict."""

import pytest

from pytest_convex_evals.records import Errored, Failed, NotMade
from pytest_convex_evals.rendering import junit_properties, status_word, summary_lines, verdict_text
from tests.support.verdicts import check, generation, record, step

FAILED_CHECK = Failed(cause="checks", reason="assert 1 == 2")
FAILED = record(
    Failed(cause="checks", reason="tests: 1 of 2 checks failed\ntest_b: assert 1 == 2"),
    model="gpt-5",
    generation=generation(),
    steps=(
        step("filesystem", notes=(".npmrc ignored: would configure npm",)),
        step(
            "tests",
            Failed(cause="checks", reason="1 of 2 checks failed"),
            check("test_a"),
            check("test_b", FAILED_CHECK, detail="grader.py:3: in test_b\nE   assert 1 == 2"),
        ),
    ),
)
ERRORED = record(
    Errored(cause="rate_limited", reason="RateLimitError: slow down", remedy="wait, or lower --evals-concurrency"),
    model="gpt-5",
    name="004-http",
    repeat=2,
    folder="",
    grading_s=0.0,
)


def properties(entry, *names):
    found = dict(junit_properties(entry))
    return [found[name] for name in names]


def test_the_properties_of_a_failed_cell():
    assert junit_properties(FAILED) == [
        ("eval", "000-fundamentals/003-crons"),
        ("category", "000-fundamentals"),
        ("model", "gpt-5"),
        ("experiment", "default"),
        ("repeat", "1"),
        ("run_id", "abcd1234-20250101T120000Z"),
        ("outcome", "failed"),
        ("cause", "checks"),
        ("steps", "filesystem=passed tests=failed"),
        ("checks_passed", "1"),
        ("checks_total", "2"),
        ("cost_usd", "0.0125"),
        ("input_tokens", "1200"),
        ("output_tokens", "340"),
        ("generation_s", "4.5"),
        ("grading_s", "0.250"),
        ("backend", "none"),
        ("backend_version", ""),
        ("sandbox", "none"),
        ("fingerprint", "0123456789abcdef"),
    ]


def test_a_passed_cell_has_no_cause():
    assert properties(record(), "outcome", "cause", "steps") == ["passed", "", ""]


def test_an_errored_cell_has_its_cause():
    assert properties(ERRORED, "outcome", "cause", "repeat") == ["error", "rate_limited", "2"]


PAID = ("cost_usd", "input_tokens", "output_tokens", "generation_s")


def test_a_submitter_that_calls_no_model_costs_nothing():
    assert properties(record(), *PAID) == ["0", "0", "0", "0"]


def test_what_the_provider_did_not_say_is_unknown_and_never_zero():
    entry = record(generation=generation(cost_usd=None, input_tokens=None, output_tokens=None))
    assert properties(entry, *PAID) == ["unknown", "unknown", "unknown", "4.5"]


def test_large_counts_are_written_in_full():
    entry = record(generation=generation(input_tokens=1_234_567, output_tokens=98_765_432, cost_usd=1.23456789))
    assert properties(entry, *PAID) == ["1.23456789", "1234567", "98765432", "4.5"]


def test_a_check_that_was_not_made_counts_as_neither_passed_nor_failed():
    entry = record(steps=(step("tests", None, check("a"), check("b", NotMade(reason="no clock"))),))
    assert properties(entry, "checks_passed", "checks_total") == ["1", "2"]


def test_a_passed_cell_needs_no_words():
    assert verdict_text(record(), "folder") == ""


def test_a_failed_cell_tells_each_failed_check_and_the_folder():
    assert verdict_text(FAILED, ".evals/runs/x") == (
        "failed (checks): tests: 1 of 2 checks failed\n"
        "  test_b: assert 1 == 2\n"
        "  note: .npmrc ignored: would configure npm\n"
        "\n"
        "  test_b\n"
        "    grader.py:3: in test_b\n"
        "    E   assert 1 == 2\n"
        "  folder: .evals/runs/x"
    )


def test_an_error_tells_what_to_do():
    assert verdict_text(ERRORED, "") == (
        "error (rate_limited): RateLimitError: slow down\n  what to do: wait, or lower --evals-concurrency"
    )


def test_a_check_with_trouble_is_told_too():
    trouble = Errored(cause="toolchain", reason="it died", remedy="again")
    steps = (step("tests", trouble, check("test_a", trouble), check("test_b", NotMade(reason="no clock"))),)
    entry = record(Errored(cause="toolchain", reason="tests: it died", remedy="again"), steps=steps)
    assert verdict_text(entry, "") == (
        "error (toolchain): tests: it died\n  what to do: again\n\n  test_a\n    it died"
    )


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        (record(), "PASSED 0.2 s"),
        (FAILED, "FAILED 1/2 checks 0.2 s"),
        (ERRORED, "ERROR 0.0 s"),
    ],
)
def test_a_verbose_line_says_how_many_checks_passed(entry, word):
    assert status_word(entry) == word


def test_the_summary_of_nothing_says_how_to_begin():
    assert list(summary_lines([], ".evals", 0, ["evals"], "abcd1234-x")) == [
        "",
        "run a real model:             OPENAI_API_KEY=… pytest evals",
        "all models that are known:    convex-evals models",
    ]


def test_the_summary_of_a_run_where_all_passed():
    records = [record(), record(category="001-data", name="000-a"), record(model="wrong:x"), record(model="wrong:y")]
    assert list(summary_lines(records, ".evals/runs/x", 0, ["evals"], "abcd1234-x")) == [
        "model      000-fundamentals  001-data  all    score  errors",
        "reference               1/1       1/1  2/2  100.0 %       0",
        "wrong                   2/2         -  2/2  100.0 %       0",
        "",
        "look at this run again:       convex-evals show abcd1234",
        "run a real model:             OPENAI_API_KEY=… pytest evals --models gpt-5 -k 003-crons",
        "all models that are known:    convex-evals models",
    ]


def test_the_summary_tells_failures_and_errors_apart_and_what_was_not_run():
    reused = record(model="gpt-5", name="005-c", generation=generation(reused=True))
    command = ["evals", "--models", "gpt-5", "-k", "a or b", "--lf"]
    assert list(summary_lines([FAILED, ERRORED, reused], ".evals/runs/x", 2, command, "abcd1234-x")) == [
        "model  000-fundamentals  all   score  errors",
        "gpt-5               1/2  1/2  50.0 %       1",
        "",
        "failed:",
        "  000-fundamentals/003-crons [gpt-5] checks",
        "    tests: 1 of 2 checks failed",
        "    test_b: assert 1 == 2",
        "    folder: .evals/runs/x/cells/000-fundamentals/003-crons/gpt-5/1/1",
        "",
        "errors (ours, not the model's):",
        "  000-fundamentals/004-http [gpt-5+2] rate_limited",
        "    RateLimitError: slow down",
        "    what to do: wait, or lower --evals-concurrency",
        "",
        "1 answers came from the generation store and were not paid again",
        "",
        "not run: 2 cells have no verdict",
        "",
        "go on with this run:          pytest evals --models gpt-5 -k 'a or b' --evals-resume abcd1234",
        "run what did not pass again:  pytest evals --models gpt-5 -k 'a or b' --lf",
        "look at this run again:       convex-evals show abcd1234",
    ]


def test_a_model_with_only_errors_has_no_score():
    lines = list(summary_lines([ERRORED], "x", 0, [], "abcd1234-x"))
    assert lines[:2] == ["model  000-fundamentals  all  score  errors", "gpt-5               0/0  0/0      -       1"]


def test_long_reasons_are_cut_in_the_summary():
    entry = record(Failed(cause="push", reason="\n".join(["x" * 1_000] * 20)))
    shown = [line for line in summary_lines([entry], "x", 0, [], "abcd1234-x") if line.startswith("    x")]
    assert [len(line) for line in shown] == [405] * 6
