"""Names that others rely on. A change here is a change for users."""

from importlib.metadata import entry_points
from typing import get_args

from pytest_convex_evals import cells, options, records, rendering
from pytest_convex_evals.cli.main import build_parser
from tests.support.verdicts import record


def test_entry_points():
    groups = ("pytest11", "console_scripts")
    entries = [entry for group in groups for entry in entry_points(group=group)]
    found = {(entry.group, entry.name, entry.value) for entry in entries if "convex_evals" in entry.value}
    assert found == {
        ("pytest11", "convex-evals", "pytest_convex_evals.plugin"),
        ("console_scripts", "convex-evals", "pytest_convex_evals.cli.main:main"),
    }


def test_flags_variables_and_ini_values():
    assert [(option.flag, option.environment, option.ini) for option in options.OPTIONS] == [
        ("--models", "MODELS", "evals_models"),
        ("--evals-filter", "TEST_FILTER", "evals_filter"),
        ("--evals-experiment", "EVALS_EXPERIMENT", "evals_experiment"),
        ("--evals-guidelines", "CUSTOM_GUIDELINES_PATH", "evals_guidelines"),
        ("--evals-backend", "", "evals_backend"),
        ("--evals-sandbox", "EVALS_SANDBOX", "evals_sandbox"),
        ("--evals-repeats", "", "evals_repeats"),
        ("--evals-concurrency", "", "evals_concurrency"),
        ("--evals-budget", "", "evals_budget"),
        ("--evals-yes", "", "evals_yes"),
        ("--evals-resume", "", "evals_resume"),
        ("--evals-resume-errors", "", "evals_resume_errors"),
        ("--evals-regrade", "", "evals_regrade"),
        ("--evals-failed-in", "", "evals_failed_in"),
        ("", "EVALS_REHEARSAL", "evals_rehearsal"),
        ("--evals-dir", "", "evals_dir"),
        ("", "OUTPUT_TEMPDIR", "evals_outputs"),
        ("--evals-no-upload", "", "evals_no_upload"),
        ("--evals-to-production", "", "evals_to_production"),
    ]
    assert options.EXECUTION_MODE == "EVALS_EXECUTION_MODE"
    assert options.EXPERIMENTS == ("default", "no_guidelines", "web_search", "web_search_no_guidelines")
    assert options.BACKENDS == ("embedded",)


def test_every_flag_says_its_default_its_variable_and_its_ini_twin_in_the_help(pytester):
    shown = " ".join(pytester.runpytest_inprocess("--help", "-p", "no:hypothesispytest").outlines)
    words = " ".join(shown.split())
    for option in options.OPTIONS:
        if option.flag:
            assert (option.flag if option.switch else f"{option.flag}={option.metavar}") in words
            assert f"[ini: {option.ini}]" in words
        if option.flag and option.default:
            assert f"(default: {option.default})" in words
        if option.flag and option.environment:
            assert f"[environment: {option.environment}]" in words


def test_properties_of_a_junit_test_case():
    assert [name for name, _ in rendering.junit_properties(record())] == [
        "eval",
        "category",
        "model",
        "experiment",
        "repeat",
        "run_id",
        "outcome",
        "cause",
        "steps",
        "checks_passed",
        "checks_total",
        "cost_usd",
        "input_tokens",
        "output_tokens",
        "generation_s",
        "grading_s",
        "backend",
        "backend_version",
        "sandbox",
        "fingerprint",
    ]


def test_steps_and_outcomes():
    assert get_args(records.StepName) == ("filesystem", "install", "deploy", "tsc", "eslint", "tests")
    kinds = (records.Passed, records.Failed, records.Errored, records.NotMade)
    assert [kind.model_fields["outcome"].default for kind in kinds] == ["passed", "failed", "error", "not_made"]


def test_causes_of_failures():
    assert set(get_args(records.FailureCause)) >= {
        *("no_files", "empty_answer", "truncated", "refused", "path", "package", "push"),
        *("types", "lint", "checks", "limit", "crashed", "not_caught"),
    }


def test_causes_of_errors():
    assert set(get_args(records.ErrorCause)) >= {
        *("grader", "grader_timeout", "eval", "toolchain", "store_unwritable", "disk_full", "worker_crashed"),
        *("internal", "generation_child", "rate_limited", "provider_unavailable", "provider_timeout"),
        *("provider_connection", "provider_reply", "zero_tokens", "authentication", "unknown_model"),
        *("bad_request", "context_window", "budget", "interrupted"),
    }


def test_no_cause_is_both_a_failure_and_an_error():
    assert set(get_args(records.FailureCause)).isdisjoint(get_args(records.ErrorCause))


def test_submitters():
    assert cells.BUILT_IN == ("reference", "wrong", "empty", "replay")
    assert cells.EMPTY_KINDS == ("no-files", "no-functions")
    assert cells.TASK_FILE == "TASK.txt"


def test_commands():
    actions = {action.dest: action for action in build_parser()._actions}
    (commands,) = [action.choices for action in actions.values() if action.choices]
    around_runs = ["setup", "list", "import", "models", "runs", "show", "status", "cache", "backend"]
    assert list(commands) == [*around_runs, "upload", "token", "mint", "deploy", "scores"]


def test_the_help_of_a_command_says_what_it_does():
    for arguments in (["status"], ["token", "create"], ["cache", "prune"]):
        parser = build_parser()
        for name in arguments:
            (choices,) = [action.choices for action in parser._actions if action.choices]
            parser = choices[name]
        assert parser.description, arguments
