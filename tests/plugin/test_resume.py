"""Going on with a run: resume, regrade, select, replay, and what is said about changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_convex_evals.cli.main import main
from pytest_convex_evals.records import CellRecord
from pytest_convex_evals.store.journal import read_events
from pytest_convex_evals.store.lock import RunLock
from tests.faults.provider import Ask, Provider, Reply
from tests.support.sessions import Done, Project
from tests.support.suites import GRADER, NO_ANSWER, RIGHT, answer_text

TOGGLED = """\
from pathlib import Path


def test_depends_on_the_weather(files):
    assert not Path({path!r}).exists()
"""


def only_run(done: Done) -> Path:
    (run,) = done.runs
    return run


def latest(run: Path) -> dict[str, CellRecord]:
    """The last record of each cell."""
    events = [event for event in read_events(run / "journal.jsonl") if event["event"] == "cell_finished"]
    return {event["record"]["name"]: CellRecord.model_validate(event["record"]) for event in events}


def finished(run: Path) -> list[str]:
    events = read_events(run / "journal.jsonl")
    return [event["record"]["name"] for event in events if event["event"] == "cell_finished"]


@pytest.fixture
def three(project: Project) -> Project:
    """One that passes, one that fails, one whose grader has an error until it is mended."""
    project.suite.add("000-some/000-good")
    project.suite.add("000-some/001-bad", answer=RIGHT | NO_ANSWER)
    project.suite.add("000-some/002-broken", grader="import nothing_of_that_name\n")
    return project


def mend(project: Project) -> None:
    (project.root / "evals/000-some/002-broken/grader.py").write_text(GRADER, encoding="utf-8")


@pytest.mark.parametrize("workers", ["", "2"])
def test_a_resumed_run_runs_only_what_has_no_verdict(three: Project, workers: str) -> None:
    first = three.here("evals")
    assert sorted(first.outcomes.values()) == ["error", "failed", "passed"]
    assert f"--evals-resume {only_run(first).name[:8]}" in first.output
    mend(three)
    again = three.run("evals", "--evals-resume", "latest", workers=workers)
    run = only_run(again)
    assert sorted(finished(run)) == ["000-good", "001-bad", "002-broken", "002-broken"]
    assert {name: record.verdict.outcome for name, record in latest(run).items()} == {
        "000-good": "passed",
        "001-bad": "failed",
        "002-broken": "passed",
    }
    assert (latest(run)["002-broken"].attempt, latest(run)["000-good"].attempt) == (2, 1)
    # The session passed, the run did not.
    assert again.code == 1, again.output
    assert "2 of 3 cells have a verdict, 1 are to be run" in again.output
    assert re.search(r"reference +2/3 +2/3 +66.7 % +0", again.output)
    events = [event["event"] for event in read_events(run / "journal.jsonl")]
    assert (events[0], events.count("run_started"), events.count("resume_started")) == ("run_started", 1, 1)


def test_nothing_left_is_no_mistake_and_errors_can_be_kept(three: Project) -> None:
    three.here("evals", "-k", "good")
    done = three.here("evals", "--evals-resume", "latest")
    assert done.code == 0, done.output
    assert len(finished(only_run(done))) == 1
    three.here("evals", "-k", "broken", "--evals-dir", "other")
    kept = three.here("evals", "--evals-resume", "latest", "--evals-resume-errors", "keep", "--evals-dir", "other")
    assert kept.code == 1
    assert "0 are to be run" in kept.output


def test_settings_that_contradict_the_run_are_refused(three: Project) -> None:
    three.here("evals", "-k", "good")
    for flags, said in (
        (("--models", "empty"), "has models reference, not empty"),
        (("--evals-experiment", "no_guidelines"), "has experiment 'default', not 'no_guidelines'"),
        (("--evals-regrade", "latest"), "--evals-resume and --evals-regrade exclude each other"),
        (("--evals-resume", "zzz"), "no run starts with 'zzz'"),
        (("--evals-resume-errors", "maybe"), "unknown treatment of errors 'maybe'"),
    ):
        done = three.here("evals", "--evals-resume", "latest", *flags)
        assert (done.code, said in done.output) == (4, True), done.output
    assert len(finished(only_run(done))) == 1


def test_two_sessions_do_not_work_on_one_run(three: Project) -> None:
    run = only_run(three.here("evals"))
    journal = (run / "journal.jsonl").read_bytes()
    lock = RunLock.take(run)
    for flag in ("--evals-resume", "--evals-regrade"):
        done = three.here("evals", flag, "latest")
        assert done.code == 4
        assert f"another session works on run {run.name}: process " in done.output
    lock.release()
    assert (run / "journal.jsonl").read_bytes() == journal
    assert three.here("evals", "--evals-resume", "latest").code == 1


def test_a_journal_that_was_cut_off_is_gone_on_with(three: Project) -> None:
    run = only_run(three.here("evals"))
    lines = (run / "journal.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join(lines[:2]) + lines[2][:40], encoding="utf-8")
    mend(three)
    done = three.here("evals", "--evals-resume", run.name[:8])
    assert sorted(finished(run)) == ["000-good", "001-bad", "002-broken"]
    assert "not run" not in done.output
    # Killed before the journal knew what the run was about.
    (run / "journal.jsonl").write_text(lines[0][:30], encoding="utf-8")
    three.here("evals", "--evals-resume", run.name[:8])
    assert sorted(finished(run)) == ["000-good", "001-bad", "002-broken"]


def test_a_regrade_is_a_new_attempt_that_says_what_changed(three: Project, capsys: pytest.CaptureFixture[str]) -> None:
    toggle = three.root / "rain"
    three.suite.add("000-some/003-moody", grader=TOGGLED.format(path=str(toggle)))
    toggle.touch()
    run = only_run(three.here("evals"))
    mend(three)
    toggle.unlink()
    capsys.readouterr()
    assert main(["status", "--json", "--evals-dir", str(three.store)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["counts"] == {"passed": 1, "failed": 2, "error": 1, "stale": 0}
    (three.root / "evals/000-some/001-bad/grader.py").write_text("def test_it(files):\n    assert files\n")
    assert main(["status", run.name[:8], "--evals-dir", str(three.store)]) == 0
    shown = capsys.readouterr().out
    assert "000-some/001-bad     F*" in shown
    assert "stale, changed since: grader (1)\n  000-some/001-bad[reference]" in shown
    done = three.here("evals", "--evals-regrade", "latest")
    assert {name: record.verdict.outcome for name, record in latest(run).items()} == {
        "000-good": "passed",
        "001-bad": "passed",
        "002-broken": "passed",
        "003-moody": "passed",
    }
    assert {record.attempt for record in latest(run).values()} == {2}
    assert "graded again: 000-some/001-bad[reference]: changed since then: grader" in done.output
    flaky = (
        "flaky grader: 000-some/003-moody[reference]: the same submission failed at attempt 1 and passed at attempt 2"
    )
    assert flaky in done.output
    assert done.output.count("flaky grader:") == 1
    assert done.code == 1
    (event,) = [event for event in read_events(run / "journal.jsonl") if event["event"] == "flaky_grader"]
    assert (event["key"], event["outcomes"]) == ("000-some/003-moody[reference]", ["failed", "passed"])


def test_what_failed_in_a_run_is_selected_with_its_models(three: Project) -> None:
    three.here("evals", "--models", "reference,empty", "-k", "good or bad")
    ids = three.collected("evals", "--evals-failed-in", "latest")
    assert [node_id.partition("::")[2] for node_id in ids] == [
        "000-good[empty:no-files]",
        "000-good[empty:no-functions]",
        "001-bad[reference]",
        "001-bad[empty:no-files]",
        "001-bad[empty:no-functions]",
    ]
    assert len(three.collected("evals", "--evals-failed-in", "latest", "--models", "reference")) == 1


def test_a_resume_says_which_verdicts_are_stale(three: Project) -> None:
    run = only_run(three.here("evals"))
    (three.root / "evals/000-some/000-good/TASK.txt").write_text("Something else.\n", encoding="utf-8")
    done = three.here("evals", "--evals-resume", "latest", "-v")
    assert "stale: 000-some/000-good[reference]: changed since the verdict: task" in done.output
    assert f"--evals-regrade {run.name[:8]} grades them again" in done.output


class Shop:
    """A provider with a trouble that can be mended, and a book of what it was asked."""

    def __init__(self) -> None:
        self.down = {"001-down"}
        self.provider = Provider(self._reply)

    def _reply(self, ask: Ask) -> Reply:
        found = re.search(r"for 000-m/([\w-]+)\.", ask.prompt)
        name = found[1] if found else ""
        if name in self.down:
            return Reply(status=400, error={"message": "no", "type": "invalid_request_error"})
        return Reply(answer_text(RIGHT | NO_ANSWER if "mistaken" in name else RIGHT))

    @property
    def asked(self) -> int:
        return len(self.provider.asks)


@pytest.fixture
def shop(project: Project) -> Iterator[Shop]:
    shop = Shop()
    project.env(OPENAI_BASE_URL=shop.provider.url, OPENAI_API_KEY="sk-test")
    for name in ("000-right", "001-down", "002-mistaken"):
        project.suite.add(f"000-m/{name}")
    yield shop
    shop.provider.close()


def test_an_answer_that_killed_its_worker_is_graded_again_without_a_call(project: Project, shop: Shop) -> None:
    shop.down.clear()
    grader = project.root / "evals/000-m/000-right/grader.py"
    good = grader.read_text(encoding="utf-8")
    grader.write_text("import os\n\n\ndef test_it(files):\n    os._exit(3)\n", encoding="utf-8")
    dead = project.apart("evals", "-n", "1", "--models", "gpt-5", "-k", "right")
    assert dead.causes == {"000-right[gpt-5]": "worker_crashed"}
    grader.write_text(good, encoding="utf-8")
    project.monkeypatch.delenv("OPENAI_API_KEY")
    asked = shop.asked
    project.here("evals", "--evals-regrade", "latest")
    assert latest(only_run(dead))["000-right"].verdict.outcome == "passed"
    assert shop.asked == asked


def test_models_are_asked_once_and_graded_as_often_as_one_likes(project: Project, shop: Shop) -> None:
    project.here("evals", "--models", "gpt-5")
    assert shop.asked == 3
    shop.down.clear()
    again = project.here("evals", "--evals-resume", "latest")
    run = only_run(again)
    assert shop.asked == 4
    assert sorted(finished(run)) == ["000-right", "001-down", "001-down", "002-mistaken"]
    project.monkeypatch.delenv("OPENAI_API_KEY")
    regraded = project.here("evals", "--evals-regrade", "latest")
    assert regraded.code == 1
    assert {name: (r.verdict.outcome, r.attempt) for name, r in latest(run).items()} == {
        "000-right": ("passed", 2),
        "001-down": ("passed", 3),
        "002-mistaken": ("failed", 2),
    }
    assert all(r.generation is not None and not r.generation.reused for r in latest(run).values())
    # A replay is another run, of another submitter.
    replayed = project.here("evals", "--models", f"replay:{run.name[:8]}", "--evals-dir", str(project.store))
    (other,) = [one for one in replayed.runs if one != run]
    name = f"replay:{run.name[:8]}:gpt-5"
    assert {(r.model, r.verdict.outcome, r.generation is not None) for r in latest(other).values()} == {
        (name, "passed", True),
        (name, "failed", True),
    }
    assert len(project.collected("evals", "--models", f"replay:{run.name[:8]}", "-k", "right")) == 1
    project.env(EVALS_REHEARSAL="latency=0.01 faults=1 in_flight=2 seed=3")
    faulty = project.here("evals", "--models", f"replay:{run.name[:8]}")
    assert faulty.output.count("a fault of the rehearsal") >= 3
    project.env(EVALS_REHEARSAL="faults=2")
    assert project.here("evals", "--models", f"replay:{run.name[:8]}").code == 4
    assert shop.asked == 4
