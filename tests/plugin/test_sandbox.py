"""The level of the cage: chosen, refused, and written down wherever people look."""

from __future__ import annotations

import pytest

from tests.support.cages import available
from tests.support.sessions import Project

NO_CAGE = """\
import pytest_convex_evals.cage.choice as choice

real = choice.try_level
choice.try_level = lambda level, *rest: real(level, *rest) if level == "node" else ("switched off", None)
"""


@pytest.fixture
def machine_without_a_cage(project: Project) -> Project:
    """A machine that has neither bubblewrap nor user namespaces."""
    project.monkeypatch.delenv("EVALS_SANDBOX", raising=False)
    project.suite.add("000-good/001-fine")
    (project.root / "conftest.py").write_text(NO_CAGE, encoding="utf-8")
    return project


def test_the_strongest_level_stands_in_the_header(project: Project) -> None:
    project.monkeypatch.delenv("EVALS_SANDBOX", raising=False)
    project.suite.add("000-good/001-fine")
    assert f", sandbox {available()[0]}\n" in project.apart("evals").output


def test_a_level_can_be_chosen(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    output = project.apart("evals", "--evals-sandbox", "node").output
    assert ", sandbox node\n" in output
    assert "sandbox: node (flag --evals-sandbox)" in output


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_code_of_models_is_refused_without_a_cage(machine_without_a_cage: Project, workers: list[str]) -> None:
    machine_without_a_cage.env(OPENAI_API_KEY="x")
    done = machine_without_a_cage.apart("evals", "--models", "gpt-5", *workers)
    assert done.code == 4
    assert "code written by gpt-5 does not run here" in done.output
    assert "apt-get install bubblewrap" in done.output
    assert "--evals-sandbox node accepts the risk" in done.output
    assert done.runs == []


def test_the_reference_runs_without_a_cage(machine_without_a_cage: Project) -> None:
    done = machine_without_a_cage.apart("evals")
    assert done.code == 0
    assert ", sandbox node\n" in done.output


def test_a_level_that_is_not_there_is_exit_code_4(machine_without_a_cage: Project) -> None:
    done = machine_without_a_cage.apart("evals", "--evals-sandbox", "bwrap")
    assert done.code == 4
    assert "the sandbox bwrap is not available here: switched off" in done.output
    assert "what to do: install bubblewrap" in done.output
