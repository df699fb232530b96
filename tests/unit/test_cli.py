"""The convex-evals command: outputs and exit codes, on real suites and stores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_convex_evals import __version__
from pytest_convex_evals.cli.main import main
from pytest_convex_evals.records import Errored, Failed
from pytest_convex_evals.store.journal import Journal
from pytest_convex_evals.store.runs import RunFolder, create_run
from tests.support.suites import EXPECT, Suite
from tests.support.verdicts import RUN_ID, check, record, step


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


FAILED = record(
    Failed(cause="checks", reason="tests: 1 of 2 checks failed\ntest_b: assert 1 == 2"),
    name="004-b",
    steps=(
        step("filesystem"),
        step(
            "tests",
            Failed(cause="checks", reason="1 of 2 checks failed"),
            check("test_a"),
            check(
                "test_b",
                Failed(cause="checks", reason="assert 1 == 2"),
                detail="grader.py:3: in test_b\nE   assert 1 == 2",
            ),
        ),
    ),
)
PASSED = record(name="003-a", steps=(step("tests", None, check("test_a"), check("test_b")),))


def add_run(run_id: str, *records, planned: int = 2, settings: dict | None = None) -> Path:
    folder = RunFolder.of(run_id, ".evals", "")
    plain = {"models": ["reference"], "experiment": "default", "outputs": ""}
    create_run(folder, {"run_id": run_id, "settings": plain | (settings or {}), "git_commit": None})
    journal = Journal(folder.journal)
    journal.append("run_started", run_id=run_id, cells=[f"cell {number}" for number in range(planned)])
    for entry in records:
        journal.append("cell_finished", record=entry.model_dump(mode="json"))
    journal.close()
    return folder.path


def test_without_a_command_the_help_is_shown(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert [name for name in ("setup", "list", "models", "runs", "show") if f"\n    {name} " not in out] == []


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"convex-evals {__version__}\n")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["show", "--no-such-flag"]])
def test_wrong_arguments_end_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: convex-evals")


def test_list_shows_evals_in_their_order(run, tmp_path):
    suite = Suite(tmp_path / "evals")
    suite.add("001-data/000-a", toml=None)
    suite.add(
        "000-fundamentals/003-crons", wrong={"x": EXPECT, "y": EXPECT}, toml='pipeline = "static"\ntags = ["a", "b"]\n'
    )
    assert run("list") == (
        0,
        "eval                        pipeline  wrong submissions  tags\n"
        "000-fundamentals/003-crons  static    2                  a b\n"
        "001-data/000-a              full      0\n"
        "\n2 evals, 0 broken\n",
        "",
    )


def test_list_names_broken_evals_and_ends_with_one(run, tmp_path):
    suite = Suite(tmp_path / "mine")
    suite.add("000-x/000-a", grader=None)
    suite.add("000-x/001-b", wrong={"x": "step = 3\n"})
    suite.add("000-x/002-c")
    code, out, _ = run("list", "mine")
    assert code == 1
    assert out == (
        "eval         pipeline  wrong submissions  tags\n"
        "000-x/000-a  broken    -\n"
        "000-x/001-b  broken    -\n"
        "000-x/002-c  static    0\n"
        "\n3 evals, 2 broken\n"
        "mine/000-x/000-a: has no grader\n  what to do: keep exactly one of grader.py and grader.test.ts\n"
        "mine/000-x/001-b/wrong/x/expect.toml: step 3 is not a step\n"
        "  what to do: use one of filesystem, install, deploy, tsc, eslint, tests\n"
    )


def test_list_of_nothing_says_what_to_name(run):
    expected = "there is no eval in none/.\n  what to do: name the folder that holds the categories\n"
    assert run("list", "none") == (1, "", expected)


def test_models_says_whether_keys_are_set_and_never_shows_them(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    (tmp_path / ".env").write_text("XAI_API_KEY=xai-secret\n", encoding="utf-8")
    code, out, err = run("models")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["gpt-5"].endswith("OPENAI_API_KEY (set)")
    assert lines["grok-4.7"].endswith("XAI_API_KEY (set)")
    assert lines["claude-opus-4-6"].endswith("ANTHROPIC_API_KEY (not set)")
    assert "secret" not in out


def test_models_can_be_searched(run):
    _, out, _ = run("models", "CODEX")
    assert [line.split()[0] for line in out.splitlines()[:-2]] == ["name", "gpt-5.3-codex", "gpt-5.2-codex"]


def test_models_of_a_broken_project_registry_is_a_message(run, tmp_path):
    (tmp_path / "models.toml").write_text("[models", encoding="utf-8")
    code, out, err = run("models")
    assert (code, out) == (1, "")
    assert err.startswith(f"the model registry {tmp_path / 'models.toml'} cannot be read: ")


def test_runs_of_an_empty_store(run):
    assert run("runs") == (0, "no runs in .evals/ yet; `pytest evals` makes one, free of cost\n", "")


def test_runs_are_listed_from_the_newest_on(run):
    add_run("zzzz0000-20240101T000000Z", record(Errored(cause="toolchain", reason="x")), planned=5)
    add_run(RUN_ID, PASSED, FAILED)
    code, out, _ = run("runs")
    assert code == 0
    assert out == (
        "run                        models     experiment  cells  passed  failed  errors  missing\n"
        "abcd1234-20250101T120000Z  reference  default     2      1       1       0       0\n"
        "zzzz0000-20240101T000000Z  reference  default     5      0       0       1       4\n"
    )


DAMAGED = [
    b"{",
    b"",
    b"[]",
    b"{}",
    b'{"settings": {}}',
    b'{"settings": {"models": 3}}',
    b"\xff\xfe",
    b'{"settings": null}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_run_does_not_hide_the_others(content, run):
    path = add_run("dddd0000-20240101T000000Z") / "run.json"
    path.write_bytes(content)
    add_run(RUN_ID, PASSED)
    code, out, err = run("runs")
    assert (code, err) == (1, "")
    message = (
        f"{path} cannot be read: it does not describe a run.\n"
        f"  what to do: its verdicts are in {path.parent}/journal.jsonl; remove the folder if you do not need them\n"
    )
    assert out == (
        "run                        models     experiment  cells  passed  failed  errors  missing\n"
        "abcd1234-20250101T120000Z  reference  default     2      1       0       0       1\n"
        "dddd0000-20240101T000000Z  damaged    -           -      -       -       -       -\n"
        f"\n{message}"
    )
    assert run("show", "dddd") == (1, "", message)


def test_show_summarises_a_run_from_its_journal(run):
    add_run(RUN_ID, PASSED, FAILED, planned=3)
    code, out, err = run("show")
    assert (code, err) == (0, "")
    assert out == (
        "run abcd1234-20250101T120000Z, experiment default, commit unknown\n"
        "\n"
        "model      000-fundamentals  all   score  errors\n"
        "reference               1/2  1/2  50.0 %       0\n"
        "\n"
        "failed:\n"
        "  000-fundamentals/004-b [reference] checks\n"
        "    tests: 1 of 2 checks failed\n"
        "    test_b: assert 1 == 2\n"
        "    folder: .evals/runs/abcd1234-20250101T120000Z/cells/000-fundamentals/004-b/reference/1/1\n"
        "\n"
        "not run: 1 cells have no verdict\n"
        "\n"
        "go on with this run:          pytest evals --models reference --evals-resume abcd1234\n"
        "run what did not pass again:  pytest evals --models reference --lf\n"
        "look at this run again:       convex-evals show abcd1234\n"
        "run a real model:             OPENAI_API_KEY=… pytest evals --models gpt-5 -k 003-a\n"
        "all models that are known:    convex-evals models\n"
    )


def test_show_with_a_pattern_tells_everything_about_the_cells_that_match(run):
    add_run(RUN_ID, PASSED, FAILED)
    _, out, _ = run("show", "abcd", "-k", "004-B")
    assert out == (
        "run abcd1234-20250101T120000Z, experiment default, commit unknown\n\n"
        "000-fundamentals/004-b [reference] failed (checks): tests: 1 of 2 checks failed\n"
        "  test_b: assert 1 == 2\n"
        "\n"
        "  test_b\n"
        "    grader.py:3: in test_b\n"
        "    E   assert 1 == 2\n"
        "  folder: .evals/runs/abcd1234-20250101T120000Z/cells/000-fundamentals/004-b/reference/1/1\n\n"
    )
    _, out, _ = run("show", "abcd", "-k", "003-a")
    assert out.endswith("003-a [reference] passed in 0.25 s\n  test_a (0.01 s)\n  test_b (0.01 s)\n\n")


def test_an_unknown_run_is_a_message(run):
    add_run(RUN_ID)
    expected = f"no run starts with 'nope' in .evals.\n  what to do: choose one, for example {RUN_ID}\n"
    assert run("show", "nope") == (1, "", expected)
    assert run("show", "--evals-dir", "none")[0] == 1


def test_a_store_of_another_format_is_a_message(run, tmp_path):
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals/format.json").write_text('{"format": 9}')
    for command in ("runs", "show"):
        code, out, err = run(command)
        assert (code, out) == (1, "")
        assert err.startswith("the run store .evals has format 9; this version reads format 1.\n")


COMMAND = [sys.executable, "-m", "pytest_convex_evals.cli.main"]


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "models"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_output_without_space_is_a_message():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, "models"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "output: No space left on device\n")
