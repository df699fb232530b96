"""Wrong settings end the session before anything is spent: exit code 4, one message, nothing left behind."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.openai_server import OpenAIServer, Reply
from tests.support.sessions import Done, Project


@dataclass(frozen=True)
class Wrong:
    """A setting, its wrong value, and what is said about it."""

    flag: str
    variable: str
    ini: str
    value: str
    message: str
    remedy: str


WRONG = {
    "model": Wrong(
        "--models",
        "MODELS",
        "evals_models",
        "reference,gtp-5",
        "unknown model 'gtp-5'.\n  nearest:    gpt-5, ",
        "`convex-evals models` lists the registry",
    ),
    "experiment": Wrong(
        "--evals-experiment",
        "EVALS_EXPERIMENT",
        "evals_experiment",
        "guidlines",
        "unknown experiment 'guidlines' (SOURCE).",
        "choose one of default, no_guidelines, web_search, web_search_no_guidelines, or name custom guidelines with "
        "--evals-guidelines FILE",
    ),
    "filter": Wrong(
        "--evals-filter",
        "TEST_FILTER",
        "evals_filter",
        "00(1",
        "'00(1' (SOURCE) is not a regular expression: missing ), unterminated subpattern",
        "give a pattern that is searched in category/name",
    ),
    "guidelines": Wrong(
        "--evals-guidelines",
        "CUSTOM_GUIDELINES_PATH",
        "evals_guidelines",
        "nowhere.md",
        "nowhere.md (SOURCE) cannot be read: No such file or directory",
        "",
    ),
    "backend": Wrong(
        "--evals-backend", "", "evals_backend", "cloud", "unknown backend 'cloud' (SOURCE).", "choose one of embedded"
    ),
    "repeats": Wrong(
        "--evals-repeats",
        "",
        "evals_repeats",
        "0",
        "repeats must be a whole number of at least 1, not '0' (SOURCE)",
        "",
    ),
    "concurrency": Wrong(
        "--evals-concurrency",
        "",
        "evals_concurrency",
        "many",
        "concurrency must be a whole number of at least 1, not 'many' (SOURCE)",
        "",
    ),
    "key": Wrong(
        "--models",
        "MODELS",
        "evals_models",
        "claude-opus-4-6",
        "claude-opus-4-6 needs a key: the variable ANTHROPIC_API_KEY is not set.",
        "export ANTHROPIC_API_KEY=…, or write it into ",
    ),
    "mode": Wrong(
        "", "EVALS_EXECUTION_MODE", "", "guess", "EVALS_EXECUTION_MODE='guess' (SOURCE) is not known.", "'answer'"
    ),
}
PLACES = [
    (name, place)
    for name, wrong in WRONG.items()
    for place in ("flag", "environment", ".env", "ini")
    if {"flag": wrong.flag, "environment": wrong.variable, ".env": wrong.variable, "ini": wrong.ini}[place]
]


@pytest.fixture
def fine(project: Project) -> Project:
    project.suite.add("000-good/001-fine")
    return project


def set_wrong(project: Project, wrong: Wrong, place: str) -> tuple[list[str], str]:
    """Make the setting in one of its places; what to add to the command, and what the message calls the place."""
    if place == "flag":
        return [wrong.flag, wrong.value], f"flag {wrong.flag}"
    if place == "ini":
        project.ini(**{wrong.ini: wrong.value})
        return [], f"ini {wrong.ini}"
    if place == "environment":
        project.env(**{wrong.variable: wrong.value})
    else:
        (project.root / ".env").write_text(f"{wrong.variable}={wrong.value}\n", encoding="utf-8")
    return [], f"{place} {wrong.variable}"


def refused(done: Done) -> str:
    """Nothing happened; the text of the message."""
    assert done.code == 4, done.output
    assert "Traceback" not in done.output
    assert "INTERNALERROR" not in done.output
    assert not done.store.exists()
    return done.output.partition("ERROR: ")[2]


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_wrong_value_is_refused_wherever_it_stands(fine: Project, name: str, place: str, workers: list[str]) -> None:
    wrong = WRONG[name]
    arguments, source = set_wrong(fine, wrong, place)
    message = refused(fine.here("evals", *arguments, *workers))
    assert wrong.message.replace("SOURCE", source) in message
    assert wrong.remedy in message


def test_the_exit_code_of_the_process_is_4_and_nothing_starts(fine: Project) -> None:
    message = refused(fine.apart("evals", "--models", "gtp-5", "-n", "2"))
    assert "unknown model 'gtp-5'" in message


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
@pytest.mark.parametrize("flag", ["--setup-plan", "--setup-only"])
def test_options_that_would_spend_money_unseen_are_refused(fine: Project, flag: str, workers: list[str]) -> None:
    message = refused(fine.here("evals", flag, *workers))
    assert "--setup-only and --setup-plan would run the models: use --collect-only to look" in message


def test_setup_plan_of_a_project_without_evals_is_not_our_business(project: Project) -> None:
    (project.root / "test_ordinary.py").write_text("def test_ordinary(tmp_path):\n    pass\n", encoding="utf-8")
    done = project.here("--setup-plan")
    assert done.code == 0
    assert "SETUP    F tmp_path" in done.output


def test_one_wrong_model_among_right_ones_prevents_every_call(fine: Project) -> None:
    with OpenAIServer(lambda _: Reply("nothing")) as server:
        fine.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="k")
        refused(fine.here("evals", "--models", "gpt-5,claude-opus-4-6"))
        refused(fine.here("evals", "--models", "gpt-5,gtp-5", "-n", "2"))
        refused(fine.here("evals", "--models", "gpt-5", "--setup-plan"))
        assert server.requests == []


def test_a_pasted_id_of_an_unknown_model_is_refused(fine: Project) -> None:
    message = refused(fine.here("evals/000-good/001-fine/TASK.txt::001-fine[gtp-5]"))
    assert "unknown model 'gtp-5'" in message


def test_a_key_in_dotenv_is_enough(fine: Project) -> None:
    (fine.root / ".env").write_text("ANTHROPIC_API_KEY=from-the-file\n", encoding="utf-8")
    assert len(fine.collected("evals", "--models", "claude-opus-4-6")) == 1


def test_a_mistake_in_the_models_of_the_project_is_named(fine: Project) -> None:
    (fine.root / "models.toml").write_text('[models."mine"]\nlitelm = "openai/x"\n', encoding="utf-8")
    message = refused(fine.here("evals", "--models", "mine"))
    assert "models.toml: [models.\"mine\"] unknown key 'litelm'; use " in message


def test_a_flag_wins_over_the_environment_that_wins_over_dotenv_that_wins_over_ini(fine: Project) -> None:
    fine.monkeypatch.delenv("EVALS_SANDBOX", raising=False)
    fine.ini(evals_filter="from-ini", evals_repeats="2")
    (fine.root / ".env").write_text("TEST_FILTER=from-dotenv\nEVALS_EXPERIMENT=no_guidelines\n", encoding="utf-8")
    assert "filter: from-dotenv (.env TEST_FILTER)" in header(fine)
    fine.env(TEST_FILTER="fine")
    assert "filter: fine (environment TEST_FILTER)" in header(fine)
    assert header(fine, "--evals-filter", "good") == [
        "filter: good (flag --evals-filter)",
        "experiment: no_guidelines (.env EVALS_EXPERIMENT)",
        "repeats: 2 (ini evals_repeats)",
    ]


def header(project: Project, *arguments: str) -> list[str]:
    """The lines about settings; a second eval makes sure that something is collected."""
    project.suite.add("000-from-dotenv/001-good")
    output = project.here("evals", "--co", *arguments).output
    return [
        line.strip()
        for line in output.partition(": run ")[2].splitlines()[1:]
        if line.startswith("  ") and ": " in line
    ]
