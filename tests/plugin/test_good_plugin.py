"""A project without evals pays nothing; one with evals is told what is going on, once."""

from __future__ import annotations

import re

import pytest

from tests.support.sessions import Project
from tests.support.suites import Suite

LOOK = """\
import sys


def loaded():
    heavy = {"litellm", "pydantic", "jinja2", "dotenv", "convex"}
    return sorted(heavy.intersection(sys.modules))
"""
UNRELATED = {
    "look.py": LOOK,
    "conftest.py": (
        "import look\n\n\ndef pytest_unconfigure(config):\n"
        "    name = getattr(config, 'workerinput', {}).get('workerid', 'controller')\n"
        "    (config.rootpath / f'{name}.modules').write_text(repr(look.loaded()))\n"
    ),
    "test_ordinary.py": "import look\n\n\ndef test_ordinary():\n    assert look.loaded() == []\n",
    "answer/test_more.py": "def test_more():\n    pass\n",
    ".env": "MODELS=nonsense\nOPENAI_API_KEY=k\n",
}


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_an_unrelated_project_sees_nothing_of_us(project: Project, workers: list[str]) -> None:
    for path, text in UNRELATED.items():
        (project.root / path).parent.mkdir(exist_ok=True)
        (project.root / path).write_text(text, encoding="utf-8")
    project.env(MODELS="nonsense", EVALS_EXECUTION_MODE="nonsense", TEST_FILTER="(", SOME_API_KEY="k")
    done = project.apart("-v", "-p", "no:cacheprovider", *workers)
    assert done.code == 0, done.output
    assert "2 passed" in done.output
    about_us = [line for line in done.output.splitlines() if re.search(r"convex|evals|nonsense", line)]
    assert [line for line in about_us if not line.startswith(("plugins: ", "rootdir: "))] == []
    names = ["controller", "gw0", "gw1"] if workers else ["controller"]
    looks = {name: (project.root / f"{name}.modules").read_text(encoding="utf-8") for name in names}
    assert looks == dict.fromkeys(names, "[]")
    assert not project.store.exists()


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_evals_where_pytest_does_not_look_wake_nobody_up(project: Project, workers: list[str]) -> None:
    project.ini(norecursedirs="attic .* node_modules")
    for place in ("attic", "node_modules", ".hidden", "left_out"):
        Suite(project.root / place).add("000-good/001-fine")
    (project.root / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n", encoding="utf-8")
    project.env(MODELS="nonsense")
    done = project.apart("--ignore=left_out", *workers)
    assert done.code == 0, done.output
    assert "nonsense" not in done.output


def test_without_the_plugin_the_output_of_an_unrelated_project_is_the_same(project: Project) -> None:
    (project.root / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n", encoding="utf-8")
    outputs = []
    for arguments in ([], ["-p", "no:convex-evals"]):
        output = project.apart("-p", "no:cacheprovider", *arguments).output
        outputs.append(re.sub(r"plugins: .*\n|in \d+\.\d+s", "", output))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("workers", ["", "2"])
def test_the_header_says_where_each_setting_came_from_once(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-fine")
    project.monkeypatch.delenv("EVALS_SANDBOX", raising=False)
    project.ini(evals_repeats="2")
    (project.root / ".env").write_text("TEST_FILTER=fine\n", encoding="utf-8")
    project.env(MODELS="reference")
    output = project.run("evals", "--evals-experiment", "no_guidelines", workers=workers).output
    assert output.count("convex-evals 0.1.0: run ") == 1
    assert (
        "  models: reference (environment MODELS)\n"
        "  filter: fine (.env TEST_FILTER)\n"
        "  experiment: no_guidelines (flag --evals-experiment)\n"
        "  repeats: 2 (ini evals_repeats)\n"
    ) in output


@pytest.mark.parametrize("workers", ["", "2"])
def test_there_is_no_header_while_no_eval_is_collected(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-fine")
    (project.root / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n", encoding="utf-8")
    output = project.run("test_ordinary.py", workers=workers).output
    assert "1 passed" in output
    assert "convex-evals 0" not in output
    assert "convex evals" not in output
    assert project.run("-k", "ordinary", workers=workers).output.count("convex-evals 0") == 0


@pytest.mark.parametrize("content", [b"MODELS=\xff\xfe", b"MODELS\0=1"])
def test_a_dotenv_that_is_not_text_is_named_and_ignored(project: Project, content: bytes) -> None:
    project.suite.add("000-good/001-fine")
    (project.root / ".env").write_bytes(content)
    done = project.here("evals")
    assert done.code == 0
    assert f"  warning: {project.root}/.env ignored: it is not UTF-8 text\n" in done.output
    assert "001-fine[reference]" in done.records


def test_quiet_sessions_are_quiet(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    output = project.here("evals", "-q").output
    assert "convex-evals 0" not in output


def test_answer_mode_means_the_reference(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    project.env(EVALS_EXECUTION_MODE="answer", MODELS="gpt-5")
    done = project.here("evals")
    assert done.outcomes == {"001-fine[reference]": "passed"}
    assert "  models: reference (environment EVALS_EXECUTION_MODE)\n" in done.output


def test_the_help_shows_every_flag_with_its_default(project: Project) -> None:
    output = re.sub(r"\s+", " ", project.here("--help").output)
    flags = {
        "--models": "default: reference",
        "--evals-filter": "environment: TEST_FILTER",
        "--evals-experiment": "default: default",
        "--evals-guidelines": "environment: CUSTOM_GUIDELINES_PATH",
        "--evals-backend": "default: embedded",
        "--evals-repeats": "default: 1",
        "--evals-concurrency": "default: 8",
        "--evals-dir": "default: .evals",
    }
    for flag, said in flags.items():
        own = output.partition(f" {flag}=")[2].partition("[ini: ")[0]
        assert said in own, flag
