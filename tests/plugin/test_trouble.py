"""Trouble of the machine is an error with its cause, never a failure of a submission and never a traceback."""

from __future__ import annotations

import socket

import pytest

from tests.support.environments import REPOSITORY, bare_environment
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.sessions import PROPERTIES, Done, Project
from tests.support.suites import RIGHT, SOURCES_GRADER, answer_text

LIMITED = """\
import resource

import pytest


def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def pytest_runtest_setup(item):
    limit({size})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish():
    limit(-1)
    return (yield)
"""


def no_traceback(done: Done) -> None:
    assert "Traceback" not in done.output
    assert "INTERNALERROR" not in done.output


@pytest.mark.parametrize("workers", ["", "2"])
def test_a_file_in_the_place_of_the_store_is_an_error_of_every_cell(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-fine")
    project.suite.add("000-good/002-also")
    project.store.write_text("I was here first.\n", encoding="utf-8")
    with OpenAIServer(lambda _: Reply(answer_text())) as server:
        project.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="k")
        done = project.run("evals", "--models", "reference,gpt-5", workers=workers)
        assert server.requests == []
    assert done.code == 1, done.output
    no_traceback(done)
    assert [(case.kind, case.properties["cause"]) for case in done.cases] == [("error", "store_unwritable")] * 4
    assert [list(case.properties) for case in done.cases] == [PROPERTIES] * 4
    assert "warning: the run store could not be written" in done.output
    assert "what to do: make the folder writable, or choose another one with --evals-dir DIR" in done.output
    assert project.store.read_text(encoding="utf-8") == "I was here first.\n"


@pytest.mark.parametrize("workers", ["", "2"])
def test_outputs_go_where_output_tempdir_says(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-fine")
    project.env(OUTPUT_TEMPDIR=str(project.root / "elsewhere"))
    done = project.run("evals", workers=workers)
    assert done.code == 0, done.output
    (run,) = done.runs
    record = done.records["001-fine[reference]"]
    assert (project.root / "elsewhere" / run.name / record.folder / "project/convex/main.ts").is_file()
    assert not (run / "cells").exists()


def test_an_output_folder_that_cannot_be_made_is_an_error_and_is_journaled(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    (project.root / "elsewhere").write_text("", encoding="utf-8")
    project.env(OUTPUT_TEMPDIR=str(project.root / "elsewhere"))
    done = project.here("evals")
    assert done.code == 1
    no_traceback(done)
    assert done.causes == {"001-fine[reference]": "store_unwritable"}


def test_a_disk_that_is_full_is_an_error_of_the_cell_that_met_it(project: Project) -> None:
    project.suite.add("000-good/001-big", answer=RIGHT | {"convex/big.ts": "//" + "x" * 20_000})
    project.suite.add("000-good/002-small")
    (project.root / "conftest.py").write_text(LIMITED.format(size=16_000), encoding="utf-8")
    done = project.apart("evals")
    assert done.code == 1, done.output
    no_traceback(done)
    assert done.causes == {"001-big[reference]": "disk_full", "002-small[reference]": ""}
    assert "what to do: free some space, then run the same command again" in done.output


def test_no_answer_is_bought_that_could_not_be_kept(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    conftest = LIMITED.format(size=16_000).replace("pytest_runtest_setup(item)", "pytest_configure()")
    (project.root / "conftest.py").write_text(conftest, encoding="utf-8")
    with OpenAIServer(lambda _: Reply(answer_text())) as server:
        project.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY="k")
        done = project.apart("evals", "--models", "gpt-5")
        assert server.requests == []
    assert done.code == 1, done.output
    no_traceback(done)
    assert done.causes == {"001-fine[gpt-5]": "disk_full"}


def test_a_verdict_that_is_not_in_the_journal_is_not_a_success(project: Project) -> None:
    for number in range(6):
        project.suite.add(f"000-good/{number:03}-fine")
    (project.root / "conftest.py").write_text(LIMITED.format(size=4_000), encoding="utf-8")
    done = project.apart("evals")
    assert done.code == 1, done.output
    no_traceback(done)
    assert "6 passed" in done.output
    assert 0 < len(done.records) < 6
    lost = "evals/000-good/005-fine/TASK.txt::005-fine[reference]"
    assert f"warning: the verdict on {lost} is not in the journal: File too large" in done.output
    # What came after the cut line is whole again.
    assert done.events[-1]["event"] == "run_finished"
    assert done.outcomes == dict.fromkeys(done.outcomes, "passed")


@pytest.mark.parametrize("workers", ["", "2"])
def test_a_toolchain_that_cannot_be_installed_is_an_error_and_others_are_graded(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-files")
    project.suite.add("000-good/002-sources", grader=SOURCES_GRADER)
    project.suite.add("000-good/003-sources", grader=SOURCES_GRADER)
    python = bare_environment(project.root / "bare", REPOSITORY)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        registry = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        project.env(
            npm_config_registry=registry, npm_config_fetch_retries="0", npm_config_cache=str(project.root / "npm")
        )
        done = project.apart("evals", *(["-n", workers] if workers else []), python=python)
    assert done.code == 1, done.output
    no_traceback(done)
    causes = {"001-files[reference]": "", "002-sources[reference]": "toolchain", "003-sources[reference]": "toolchain"}
    assert done.causes == causes
    assert "set-up failed: the npm packages could not be installed" in done.output
    assert "ECONNREFUSED" in done.output
    assert "what to do: check the network and the proxy settings of npm, then run `convex-evals setup`" in done.output


@pytest.mark.parametrize("workers", ["", "2"])
def test_sources_are_read_by_the_toolchain(project: Project, workers: str) -> None:
    project.suite.add("000-good/001-sources", grader=SOURCES_GRADER)
    project.suite.add("000-good/002-none", grader=SOURCES_GRADER, answer={"package.json": "{}"})
    done = project.run("evals", workers=workers)
    assert done.causes == {"001-sources[reference]": "", "002-none[reference]": "checks"}, done.output


def test_guidelines_that_disappear_while_the_session_runs_are_still_the_guidelines(project: Project) -> None:
    project.suite.add("000-good/001-fine")
    (project.root / "rules.md").write_text("Always answer 42.\n", encoding="utf-8")
    before = project.here("evals", "--evals-guidelines", "rules.md", "--evals-dir", "first")
    assert before.code == 0
    (project.root / "conftest.py").write_text(
        "def pytest_collection_finish(session):\n    (session.config.rootpath / 'rules.md').unlink()\n",
        encoding="utf-8",
    )
    after = project.here("evals", "--evals-guidelines", "rules.md")
    assert after.code == 0, after.output
    assert before.cases[0].properties["fingerprint"] == after.cases[0].properties["fingerprint"]
