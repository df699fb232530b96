"""Settings: flags before environment before .env before ini before default, each with its source."""

import json
from pathlib import Path

import pytest

from pytest_convex_evals.environment import Environment
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.options import OPTIONS
from pytest_convex_evals.settings import Settings, build_settings, settings_lines

GUIDES = ("flag.md", "process.md", "dotenv.md", "ini.md")


@pytest.fixture
def build(pytester: pytest.Pytester):
    """Settings from what a test writes into the places they can come from."""
    for name in GUIDES:
        (pytester.path / name).write_text("rules\n", encoding="utf-8")

    def build(*flags: str, dotenv: dict[str, str] | None = None, ini: dict[str, str] | None = None) -> Settings:
        if dotenv is not None:
            lines = "".join(f"{name}={value}\n" for name, value in dotenv.items())
            (pytester.path / ".env").write_text(lines, encoding="utf-8")
        lines = "".join(f"{name} = {value}\n" for name, value in (ini or {}).items())
        (pytester.path / "pytest.ini").write_text(f"[pytest]\n{lines}", encoding="utf-8")
        config = pytester.parseconfig(*flags)
        return build_settings(config, Environment.read(config.rootpath))

    return build


# name: (flag value, environment value, .env value, ini value, and what each becomes)
VALUES = {
    "models": (["a", "b", "c", "d"], [("a",), ("b",), ("c",), ("d",)], ("reference",)),
    "filter": (["1", "2", "3", "4"], ["1", "2", "3", "4"], ""),
    "experiment": (["one", "two", "three", "four"], ["one", "two", "three", "four"], "default"),
    "guidelines": (GUIDES, GUIDES, ""),
    "backend": (["embedded"] * 4, ["embedded"] * 4, "embedded"),
    "sandbox": (["bwrap", "namespaces", "node", "bwrap"], ["bwrap", "namespaces", "node", "bwrap"], "auto"),
    "repeats": (["2", "3", "4", "5"], [2, 3, 4, 5], 1),
    "concurrency": (["2", "3", "4", "5"], [2, 3, 4, 5], 8),
    "budget": (["2", "3", "4", "5.25"], [2.0, 3.0, 4.0, 5.25], None),
    "yes": (["", "", "", "true"], [True, True, True, True], False),
    "resume": (["a", "b", "c", "d"], ["a", "b", "c", "d"], ""),
    "resume_errors": (["keep", "again", "keep", "keep"], ["keep", "again", "keep", "keep"], "again"),
    "regrade": (["a", "b", "c", "d"], ["a", "b", "c", "d"], ""),
    "failed_in": (["a", "b", "c", "d"], ["a", "b", "c", "d"], ""),
    "rehearsal": (["seed=1", "seed=2", "seed=3", "seed=4"], ["seed=1", "seed=2", "seed=3", "seed=4"], ""),
    "dir": (["a", "b", "c", "d"], ["a", "b", "c", "d"], ".evals"),
    "outputs": (["a", "b", "c", "d"], ["a", "b", "c", "d"], ""),
    "no_upload": (["", "", "", "true"], [True, True, True, True], False),
    "to_production": (["", "", "", "true"], [True, True, True, True], False),
}


def test_every_option_has_a_line_in_the_table_below():
    assert list(VALUES) == [option.name for option in OPTIONS]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_flags_win_over_environment_over_dotenv_over_ini_over_default(option, build, pytester, monkeypatch):
    (flag, process, dotenv, ini), wanted, default = VALUES[option.name]
    more = {"evals_guidelines": "ini.md"} if option.name == "experiment" else {}

    def check(settings, expected, source):
        value = getattr(settings, option.name)
        if option.name in {"dir", "outputs", "guidelines"} and value:
            value = Path(value).relative_to(pytester.path).as_posix()
        assert value == expected
        assert settings.sources.get(option.name) == source
        line = f"{option.name}: {', '.join(value) if isinstance(value, tuple) else value} ({source})"
        if option.name not in {"dir", "outputs", "guidelines"}:
            assert (line in settings_lines(settings)) == (source is not None)

    if option.name != "experiment":
        check(build(), default, None)
    ini_values = {option.ini: ini, **more}
    check(build(ini=ini_values), wanted[3], f"ini {option.ini}")
    if option.environment:
        dotenv_values = {option.environment: dotenv}
        check(build(ini=ini_values, dotenv=dotenv_values), wanted[2], f".env {option.environment}")
        monkeypatch.setenv(option.environment, process)
        check(build(ini=ini_values), wanted[1], f"environment {option.environment}")
    if option.flag:
        given = [option.flag] if option.switch else [option.flag, flag]
        check(build(*given, ini=ini_values), wanted[0], f"flag {option.flag}")


def test_without_any_setting_everything_is_free_and_default(build, pytester):
    settings = build()
    assert settings == Settings(
        models=("reference",),
        filter="",
        experiment="default",
        guidelines="",
        backend="embedded",
        sandbox="auto",
        repeats=1,
        concurrency=8,
        budget=None,
        yes=False,
        dir=str(pytester.path / ".evals"),
        outputs="",
    )
    assert settings_lines(settings) == []


def test_models_are_comma_lists_and_repeatable_and_named_once(build):
    settings = build("--models", "a, b,,a", "--models", "c")
    assert settings.models == ("a", "b", "c")


def test_an_empty_variable_counts_as_absent(build, monkeypatch):
    monkeypatch.setenv("MODELS", "")
    monkeypatch.setenv("TEST_FILTER", "")
    assert build(dotenv={"MODELS": "gpt-5"}).sources == {"models": ".env MODELS"}


def test_execution_mode_answer_means_the_reference(build, monkeypatch):
    monkeypatch.setenv("MODELS", "gpt-5")
    monkeypatch.setenv("EVALS_EXECUTION_MODE", "answer")
    settings = build()
    assert (settings.models, settings.sources["models"]) == (("reference",), "environment EVALS_EXECUTION_MODE")
    assert build("--models", "gpt-5").models == ("gpt-5",)


def test_execution_mode_works_from_dotenv(build):
    assert build(dotenv={"EVALS_EXECUTION_MODE": "answer"}).sources == {"models": ".env EVALS_EXECUTION_MODE"}


def test_relative_folders_typed_by_people_start_where_they_are(build, pytester, monkeypatch):
    below = pytester.mkdir("below")
    (pytester.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(below)
    (below / "rules.md").write_text("rules", encoding="utf-8")
    monkeypatch.setenv("OUTPUT_TEMPDIR", "out")
    settings = build("--evals-dir", "store", "--evals-guidelines", "rules.md")
    assert settings.dir == str(below / "store")
    assert settings.outputs == str(below / "out")
    assert settings.guidelines == str(below / "rules.md")


def test_relative_folders_of_the_project_start_at_its_root(build, pytester, monkeypatch):
    (pytester.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(pytester.mkdir("below"))
    settings = build(dotenv={"OUTPUT_TEMPDIR": "out"}, ini={"evals_dir": "store", "evals_guidelines": "ini.md"})
    assert settings.dir == str(pytester.path / "store")
    assert settings.outputs == str(pytester.path / "out")
    assert settings.guidelines == str(pytester.path / "ini.md")


def test_folders_may_begin_with_the_home_folder(build, monkeypatch, pytester):
    monkeypatch.setenv("HOME", str(pytester.path / "home"))
    assert build("--evals-dir", "~/store").dir == str(pytester.path / "home/store")


def test_custom_guidelines_without_a_name_are_named_after_their_file(build, pytester):
    (pytester.path / "my rules (v2).md").write_text("rules", encoding="utf-8")
    assert build("--evals-guidelines", "my rules (v2).md").experiment == "custom-my-rules--v2-"
    assert build("--evals-guidelines", "flag.md", "--evals-experiment", "terse.v2").experiment == "terse.v2"


def test_settings_survive_the_way_to_a_worker(build):
    settings = build("--models", "a,b", "--evals-repeats", "3", "--evals-filter", "00[1-3]")
    assert Settings.from_json(json.loads(json.dumps(settings.as_json()))) == settings


WRONG = {
    "no model": (
        ["--models", ","],
        "no model is named (flag --models).\n  what to do: name one, or leave the setting out for 'reference'",
    ),
    "a broken regex": (
        ["--evals-filter", "00["],
        "'00[' (flag --evals-filter) is not a regular expression: unterminated character set at position 2.\n"
        "  what to do: give a pattern that is searched in category/name, for example 000-fundamentals/003",
    ),
    "an unknown experiment": (
        ["--evals-experiment", "guidlines"],
        "unknown experiment 'guidlines' (flag --evals-experiment).\n"
        "  what to do: choose one of default, no_guidelines, web_search, web_search_no_guidelines, or name custom "
        "guidelines with --evals-guidelines FILE",
    ),
    "a name that breaks ids": (
        ["--evals-experiment", "a b", "--evals-guidelines", "flag.md"],
        "unknown experiment 'a b' (flag --evals-experiment).\n"
        "  what to do: choose one of default, no_guidelines, web_search, web_search_no_guidelines, or name custom "
        "guidelines with --evals-guidelines FILE",
    ),
    "guidelines for an experiment without": (
        ["--evals-experiment", "no_guidelines", "--evals-guidelines", "flag.md"],
        "experiment 'no_guidelines' (flag --evals-experiment) has its own rules about guidelines.\n"
        "  what to do: give custom guidelines an experiment name of their own",
    ),
    "an unknown sandbox": (
        ["--evals-sandbox", "docker"],
        "unknown sandbox 'docker' (flag --evals-sandbox).\n  what to do: choose one of auto, bwrap, namespaces, node",
    ),
    "an unknown backend": (
        ["--evals-backend", "cloud"],
        "unknown backend 'cloud' (flag --evals-backend).\n  what to do: choose one of embedded",
    ),
    "an empty store": (
        ["--evals-dir", ""],
        "dir is empty (flag --evals-dir).\n  what to do: name a path, or leave the setting out",
    ),
    "empty guidelines": (
        ["--evals-guidelines="],
        "guidelines is empty (flag --evals-guidelines).\n  what to do: name a path, or leave the setting out",
    ),
    "nobody's home": (
        ["--evals-dir", "~nobody-by-this-name/x"],
        "dir '~nobody-by-this-name/x' (flag --evals-dir) is no path: Could not determine home directory.",
    ),
} | {
    f"{what} {value!r}": (
        [f"--evals-{what}={value}"],
        f"{what} must be a whole number of at least 1, not {value!r} (flag --evals-{what}).\n"
        "  what to do: give a number such as 3, or leave the setting out",
    )
    for what in ("repeats", "concurrency")
    for value in ("0", "-1", "1.5", "two", "", "1_0", "٣", "9999999")
}
WRONG |= {
    f"a budget of {value!r}": (
        [f"--evals-budget={value}"],
        f"budget must be an amount in USD above 0, not {value!r} (flag --evals-budget).\n"
        "  what to do: give a number such as 2.50, or leave the setting out",
    )
    for value in ("0", "-1", "two", "", "1e3", "٣", "nan", "5 USD")
}


@pytest.mark.parametrize(("flags", "message"), WRONG.values(), ids=WRONG.keys())
def test_each_wrong_value_has_its_message(flags, message, build):
    with pytest.raises(SettingsError) as caught:
        build(*flags)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "No such file or directory"), (b"\xff\xfe", "it is not UTF-8 text")]
)
def test_guidelines_that_cannot_be_read_are_a_wrong_setting(content, problem, build, pytester):
    path = pytester.path / "mine.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        build("--evals-guidelines", "mine.md")
    assert str(caught.value) == (
        f"guidelines {path} (flag --evals-guidelines) cannot be read: {problem}.\n"
        "  what to do: name a text file, or leave the setting out"
    )


def test_an_unknown_execution_mode_is_a_wrong_setting(build, monkeypatch):
    monkeypatch.setenv("EVALS_EXECUTION_MODE", "fast")
    with pytest.raises(SettingsError) as caught:
        build()
    assert str(caught.value) == (
        "EVALS_EXECUTION_MODE='fast' (environment EVALS_EXECUTION_MODE) is not known.\n"
        "  what to do: set it to 'answer' to grade the reference answers, or unset it"
    )
