"""Sessions and runs whose results go to the scores backend, written by the real client and read back."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_convex_evals.records import CheckRecord, Errored, Failed, Passed, StepRecord
from pytest_convex_evals.scores.archives import LIMIT, sha256
from pytest_convex_evals.scores.reporter import Reporter
from pytest_convex_evals.scores.target import Target
from pytest_convex_evals.store.lock import RunLock
from tests.engine.support.core import Core
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.process_tree import command_of, descendants, environment_of
from tests.support.sessions import Project
from tests.support.suites import NO_ANSWER, RIGHT, answer_text

from .support.deployment import TOKEN, Deployment
from .support.journals import MadeRun

FAILS = "001-fails"
DEAD = "http://127.0.0.1:9"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(pytester, monkeypatch)
    for name in ("000-m/000-one", f"000-m/{FAILS}", "001-n/000-three"):
        made.suite.add(name)
    made.env(OPENAI_API_KEY="sk-x", CONVEX_AUTH_TOKEN=TOKEN)
    return made


@pytest.fixture
def deliver(scores: Deployment) -> Callable[..., Reporter]:
    """Delivers a run as `convex-evals upload` does."""

    def run(made: MadeRun, token: str = TOKEN, url: str = "", **options: bool) -> Reporter:
        target = Target(url or scores.core.url, "", token)
        reporter = Reporter(made.folder, target, lambda _: None, live=False, **{"older": False, **options})
        reporter.finish(stuck_s=60)
        return reporter

    return run


def test_a_session_with_a_model_is_delivered_whole(scores: Deployment, project: Project) -> None:
    """And the token is seen in no environment and no command on the way."""
    seen: dict[int, tuple[str, bytes]] = {}

    def answer(request: dict[str, object]) -> Reply:
        for pid in descendants(session.pid):
            seen[pid] = (command_of(pid), environment_of(pid))
        return Reply(answer_text({**RIGHT, **NO_ANSWER} if FAILS in str(request["messages"]) else RIGHT))

    grader = "import os\n\n\ndef test_no_token(files):\n    assert 'CONVEX_AUTH_TOKEN' not in os.environ\n"
    project.suite.add("001-n/000-three", grader=grader)
    with OpenAIServer(answer) as server:
        project.env(OPENAI_BASE_URL=server.url, CONVEX_EVAL_URL=scores.core.url)
        session = project.start("evals", "--models", "gpt-5,reference", "-n", "2")
        output, _ = session.communicate(timeout=240)
    done = project.ended(session, output)
    assert done.code == 1, done.output
    assert f"scores: results go to {scores.core.url}" in done.output
    assert f"scores: 3 results delivered to {scores.core.url}" in done.output, done.output
    assert any("pytest_convex_evals.scores.child" in command for command, _ in seen.values())
    assert [command for command, values in seen.values() if TOKEN in command or TOKEN.encode() in values] == []
    written = [path for path in Path(done.root).rglob("*") if path.is_file()]
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []

    (folder,) = done.runs
    [run] = scores.rows("runs")
    assert (run["key"], run["complete"]) == (f"{folder.name}:gpt-5:default", True)
    assert (run["status"]["kind"], run["counts"]["passed"], run["counts"]["failed"]) == ("failed", 2, 1)
    [model] = scores.rows("models")
    assert (model["slug"], model["provider"]) == ("gpt-5", "OpenAI")
    cells = {cell["evalPath"]: cell for cell in scores.rows("evals")}
    assert cells[f"000-m/{FAILS}"]["status"]["kind"] == "failed"
    assert cells["000-m/000-one"]["usage"]["inputTokens"] == 1200
    info = scores.internal("debug:getEvalDebugInfo", evalId=cells["000-m/000-one"]["_id"])
    assert info["eval"]["task"] == "Compute the answer, for 000-m/000-one.\n"
    assert {file["path"] for file in info["outputFiles"]} == {"convex/main.ts", "package.json"}
    sources = {"TASK.txt", "answer/convex/main.ts", "answer/package.json", "eval.toml", "grader.py"}
    assert {file["path"] for file in info["evalSourceFiles"]} == sources
    [suite] = scores.rows("suites")
    assert suite["evals"] == ["000-m/000-one", f"000-m/{FAILS}", "001-n/000-three"]
    names = {part["name"] for part in suite["parts"]}
    assert names >= {"prompts", "guidelines", "lint and type configs", "engine", "tool versions", "grading"}
    assert [row["score"] for row in scores.client.query("modelScores:leaderboard", {})["rows"]] == [2 / 3]


def test_answers_that_are_used_again_are_not_counted_again(scores: Deployment, project: Project) -> None:
    with OpenAIServer(lambda _: Reply(answer_text())) as server:
        project.env(OPENAI_BASE_URL=server.url, CONVEX_EVAL_URL=scores.core.url)
        for number in (1, 2):
            done = project.apart("evals", "--models", "gpt-5")
            assert len(scores.rows("runs")) == number, done.output
            [row] = scores.client.query("modelScores:leaderboard", {})["rows"]
            assert (row["runs"], row["trials"]) == (1, 3)
        project.apart("evals", "--models", "gpt-5", "--evals-dir", "fresh")
        [row] = scores.client.query("modelScores:leaderboard", {})["rows"]
        assert (row["runs"], row["trials"]) == (2, 6)
    assert len(server.requests) == 6


def test_a_dead_backend_is_a_warning_and_changes_no_result(project: Project) -> None:
    with OpenAIServer(lambda _: Reply(answer_text())) as server:
        project.env(OPENAI_BASE_URL=server.url, CONVEX_EVAL_URL=DEAD)
        done = project.apart("evals", "--models", "gpt-5", "-k", "three")
    assert (done.code, done.outcomes) == (0, {"000-three[gpt-5]": "passed"}), done.output
    start, _, end = done.output.partition("convex evals =")
    assert f"warning: results do not reach {DEAD}: Connection refused." in start
    assert f"warning: 1 results are not at {DEAD} yet: Connection refused. Nothing is lost." in end
    assert f"convex-evals upload {done.runs[0].name[:8]}" in end


def test_production_is_refused_from_a_laptop_before_anything_is_spent(project: Project) -> None:
    (project.root / "scores.toml").write_text('production = "https://scores.example.com"\n')
    for address in ("production", "https://scores.example.com/"):
        project.env(CONVEX_EVAL_URL=address)
        done = project.here("evals", "--models", "gpt-5")
        assert done.code == 4
        assert "which only CI on the branch main writes to" in done.output
        assert "--evals-to-production writes to production from here" in done.output
    shown = project.here("evals", "--models", "gpt-5", "--evals-to-production", "--co")
    assert "scores: results go to production (https://scores.example.com)" in shown.output
    off = project.here("evals", "--models", "gpt-5", "--evals-no-upload", "--co")
    assert "scores: results stay here (--evals-no-upload)" in off.output


def test_built_in_submitters_start_no_reporter(scores: Deployment, project: Project) -> None:
    project.env(CONVEX_EVAL_URL=scores.core.url)
    done = project.here("evals", "--models", "reference", "-k", "three")
    assert (done.code, "scores:" in done.output) == (0, False), done.output
    assert [path.name for path in done.runs[0].glob("upload*")] == []
    [suite] = [event for event in done.events if event["event"] == "suite"]
    assert (len(suite["fingerprint"]), suite["models"]) == (32, {})


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("unknown", "The token is unknown"),
        ("expired", "has expired"),
        ("revoked", "has been revoked"),
        ("narrow", "may mint, not report"),
    ],
)
def test_a_token_that_does_not_fit(
    scores: Deployment, deliver: Callable[..., Reporter], tmp_path: Path, kind: str, told: str
) -> None:
    scopes = ["mint"] if kind == "narrow" else ["report"]
    expiry = {"expiresAt": 1} if kind == "expired" else {}
    if kind != "unknown":
        scores.internal("auth:createToken", name=kind, hash=sha256(kind.encode()), scopes=scopes, **expiry)
    if kind == "revoked":
        scores.internal("auth:revokeToken", name=kind)
    made = MadeRun(tmp_path, "abcd1234-1").whole()
    reporter = deliver(made, token=kind)
    assert told in reporter.refusal
    assert "make a token that may report" in "\n".join(reporter.lines())
    assert scores.rows("runs") == []
    if kind == "expired":
        assert deliver(made).lines() == [f"scores: 3 results delivered to {scores.core.url}"]


def test_what_earlier_runs_owe_is_delivered_on_the_way(scores: Deployment, deliver, tmp_path: Path) -> None:
    before = MadeRun(tmp_path, "aaaaaaaa-1").whole()
    before.folder.path.joinpath("upload.jsonl").write_text(f'{{"to": "{scores.core.url}", "did": "opened"}}\n')
    MadeRun(tmp_path, "bbbbbbbb-2").whole()  # nobody ever asked to upload this one
    now = MadeRun(tmp_path, "cccccccc-3").whole()
    lines = deliver(now, older=True).lines()
    assert "scores: results of the earlier run aaaaaaaa-1 were delivered too" in lines
    assert sorted(run["key"][:8] for run in scores.rows("runs")) == ["aaaaaaaa", "cccccccc"]
    assert before.log()[-1] == {"to": scores.core.url, "did": "whole"}


def spoil(made: MadeRun, which: int = 0) -> None:
    """A verdict that the backend's validators do not take, as one of another version might be."""
    lines = made.folder.journal.read_text().splitlines(keepends=True)
    index = [number for number, line in enumerate(lines) if "cell_finished" in line][which]
    lines[index] = lines[index].replace('"name": "tests"', '"name": "bundle"')
    made.folder.journal.write_text("".join(lines))


def owe(made: MadeRun, url: str) -> MadeRun:
    """Deliveries of the run began."""
    made.folder.path.joinpath("upload.jsonl").write_text(f'{{"to": "{url}", "did": "opened"}}\n')
    return made


def test_a_result_that_makes_the_backend_fail_is_kept_and_said_and_holds_up_nothing(scores, deliver, tmp_path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=3).whole()
    spoil(made)
    reporter = deliver(made)
    first, remedy = reporter.lines()
    assert first.startswith(f"scores: 2 results delivered to {scores.core.url}; 1 refused: Server Error")
    assert "Value does not match validator" in first
    assert "`convex-evals deploy`" in remedy
    assert "`convex-evals upload abcd1234`" in remedy
    assert len(scores.rows("evals")) == 2
    assert "endedAt" in scores.rows("runs")[0]
    assert deliver(made).refused == 1  # it is tried again when somebody asks


def test_an_earlier_run_that_makes_the_backend_fail_does_not_hold_up_this_one(scores, deliver, tmp_path) -> None:
    before = owe(MadeRun(tmp_path, "aaaaaaaa-1", evals=3).whole(), scores.core.url)
    spoil(before)
    now = MadeRun(tmp_path, "cccccccc-3").whole()
    reporter = deliver(now, older=True)
    own, delivered, stayed = reporter.lines()
    assert own == f"scores: 3 results delivered to {scores.core.url}"
    assert delivered == "scores: results of the earlier run aaaaaaaa-1 were delivered too"
    assert stayed.startswith("warning: 1 results of the earlier run aaaaaaaa-1 stayed here: Server Error")
    assert "`convex-evals upload aaaaaaaa`" in stayed


def test_a_backend_without_the_functions_is_noticed_as_stuck(tmp_path: Path) -> None:
    core = Core()
    try:
        made = MadeRun(tmp_path, "abcd1234-1").whole()
        reporter = Reporter(made.folder, Target(core.url, "", TOKEN), lambda _: None, live=False, older=False)
        began = time.monotonic()
        reporter.finish(stuck_s=2, longest_s=60)
        assert time.monotonic() - began < 20
        warning, remedy = reporter.lines()
        assert "Could not find public function for 'admin:checkToken'" in warning
        assert "`convex-evals deploy`" in remedy
    finally:
        core.close()


def test_killed_runs_are_looked_at_once_and_hide_nothing(scores, deliver, tmp_path: Path) -> None:
    owe(MadeRun(tmp_path, "aaaaaaaa-00", evals=1).whole(), scores.core.url)
    killed = [MadeRun(tmp_path, f"bbbbbbbb-{number}", evals=1) for number in range(10, 32)]
    for made in killed:
        owe(made, scores.core.url)
    killed[0].verdict(killed[0].evals[0], "gpt-5", Passed())
    own = f"scores: 1 results delivered to {scores.core.url}"

    def told(number: int) -> list[str]:
        return deliver(MadeRun(tmp_path, f"cccccccc-{number}", evals=1).whole(), older=True).lines()

    assert told(50) == [own, *(f"scores: results of the earlier run {run} were delivered too" for run in
                               ("bbbbbbbb-10", "aaaaaaaa-00"))]  # fmt: skip
    sizes = [(made.folder.path / "upload.jsonl").stat().st_size for made in killed]
    assert told(51) == [own]
    assert sizes == [(made.folder.path / "upload.jsonl").stat().st_size for made in killed]
    killed[1].verdict(killed[1].evals[0], "gpt-5", Passed())
    lock = RunLock.take(killed[1].folder.path)
    assert told(52) == [own]
    lock.release()
    assert told(53) == [own, "scores: results of the earlier run bbbbbbbb-11 were delivered too"]


def test_a_later_verdict_replaces_an_earlier_one_whatever_its_attempt_says(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=2)
    first, second = made.evals
    made.verdict(first, "gpt-5", Errored(cause="worker_crashed", reason="killed"))
    made.verdict(second, "gpt-5", Passed())
    made.finish()
    deliver(made)
    assert scores.rows("runs")[0]["complete"] is False
    made.begin(evals=[first], asked=False)
    made.verdict(first, "gpt-5", Failed(cause="checks", reason="x"), attempt=1)
    made.finish()
    assert deliver(made).done
    [run] = scores.rows("runs")
    assert (run["complete"], run["counts"]["failed"], run["counts"]["error"]) == (True, 1, 0)
    assert sorted(cell["attempt"] for cell in scores.rows("evals")) == [1, 2]


def test_verdicts_of_another_suite_make_a_score_run_of_their_own(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=2).whole()
    made.begin(fingerprint="e" * 32)
    made.grade(seed=2)
    made.finish()
    assert deliver(made).done
    keys = sorted(run["key"] for run in scores.rows("runs"))
    assert keys == ["abcd1234-1+eeeeeeee:gpt-5:default", "abcd1234-1:gpt-5:default"]


def test_an_unfinished_run_is_delivered_and_not_ended(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1")
    made.verdict(made.evals[0], "gpt-5", Passed())
    assert deliver(made).delivered == 1
    assert scores.rows("runs")[0]["status"] == {"kind": "running"}


def test_a_check_with_a_long_name_is_delivered(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=1)
    check = CheckRecord(name=f"test_x[{'😀' * 300}]", verdict=Passed(), duration_s=0.01)
    made.verdict(
        made.evals[0],
        "gpt-5",
        Passed(),
        steps=(StepRecord(name="tests", verdict=Passed(), duration_s=0.5, checks=(check,)),),
    )
    made.finish()
    assert deliver(made).lines() == [f"scores: 1 results delivered to {scores.core.url}"]


def test_huge_texts_and_archives_are_cut_and_say_so(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=1)
    made.verdict(made.evals[0], "gpt-5", Failed(cause="checks", reason="😀" * 5_000_000))
    project = next(made.folder.outputs.rglob("project"))
    (project / "big.bin").write_bytes(b"\xff" * LIMIT)
    (project / "node_modules").mkdir()
    (project / "node_modules" / "x.js").write_text("not a file of the submission")
    (project / "link").symlink_to("/etc/passwd")
    made.finish()
    assert deliver(made).lines() == [f"scores: 1 results delivered to {scores.core.url}"]
    [cell] = scores.rows("evals")
    assert cell["status"]["reason"].endswith(" more characters")
    assert len(cell["status"]["reason"]) < 16_001
    info = scores.internal("debug:getEvalDebugInfo", evalId=cell["_id"])
    assert [file["path"] for file in info["outputFiles"]] == ["convex/a.ts"]


def test_a_run_that_was_deleted_stays_so_and_is_said(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1").whole()
    deliver(made)
    scores.report("deleteRun", runKey="abcd1234-1:gpt-5:default", reason="a broken grader")
    scores.core.control("idle")
    lines = deliver(made, again=True).lines()
    assert "3 refused" in lines[0]
    assert "has been deleted: a broken grader" in lines[0]
    assert scores.rows("runs") == scores.rows("evals") == []


def test_a_backend_that_lost_its_data_gets_everything_again(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1")
    made.grade()
    assert deliver(made).delivered == 3
    scores.reset()
    made.verdict(made.evals[0], "gpt-5", Passed(), attempt=2)
    made.finish()
    assert deliver(made).done
    assert len(scores.rows("evals")) == 3
    assert scores.rows("runs")[0]["status"]["kind"] in {"passed", "failed", "error"}


def test_files_that_changed_after_a_result_was_sent_do_not_change_it(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=1).whole()
    deliver(made)
    log = made.folder.path / "upload.jsonl"
    kept = [line for line in log.read_text().splitlines() if '"prepared"' in line]
    log.write_text("".join(f"{line}\n" for line in kept))
    shutil.rmtree(made.folder.outputs / "cells")
    reporter = deliver(made)
    assert reporter.lines() == [f"scores: 1 results delivered to {scores.core.url}"]


def test_everything_again_keeps_the_sources_that_the_backend_has(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1").whole()
    deliver(made)
    shutil.rmtree(tmp_path / "sources")
    assert deliver(made, again=True).lines() == [f"scores: 3 results delivered to {scores.core.url}"]


def test_files_that_are_gone_before_they_were_uploaded_are_said(scores, deliver, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=2).whole()
    shutil.rmtree(made.folder.outputs / "cells")
    shutil.rmtree(tmp_path / "sources")
    told = "warning: files of 2 results are gone; their verdicts are there without them"
    assert deliver(made).lines() == [f"scores: 2 results delivered to {scores.core.url}", told]


def test_a_run_ends_when_its_session_did_and_names_the_backend_that_graded(scores, deliver, tmp_path: Path) -> None:
    told = MadeRun(tmp_path, "aaaaaaaa-1", evals=2)
    told.verdict(told.evals[0], "gpt-5", Failed(cause="path", reason="x"), backend_version="")
    deliver(told)
    assert scores.rows("runs")[0]["backend"] == {"kind": "embedded", "version": ""}
    told.verdict(told.evals[1], "gpt-5", Passed(), backend_version="1.48.0")
    told.finish()
    deliver(told)
    earlier = MadeRun(tmp_path, "bbbbbbbb-1", evals=2)
    earlier.grade()
    earlier.finish(at="")
    deliver(earlier)
    runs = scores.rows("runs")
    assert [run["backend"]["version"] for run in runs] == ["1.48.0", "1"]
    assert [run["endedAt"] - run["startedAt"] for run in runs] == [3_354_322, 55_072]


def test_a_backend_that_accepts_and_never_answers_takes_nothing_with_it(deliver, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        made = MadeRun(tmp_path, "abcd1234-1").whole()
        reporter = Reporter(made.folder, Target(url, "", TOKEN), lambda _: None, live=False, older=False)
        reporter.finish(stuck_s=1)
    assert not reporter.done
    assert "Nothing is lost" in reporter.lines()[0]


def test_two_sessions_may_deliver_the_same_run_at_once(scores, tmp_path: Path) -> None:
    made = MadeRun(tmp_path, "abcd1234-1", evals=8).whole()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path, elsewhere, ignore=shutil.ignore_patterns("elsewhere"))
    folders = [made.folder, MadeRun.at(elsewhere, "abcd1234-1")]
    target = Target(scores.core.url, "", TOKEN)
    both = [Reporter(one, target, lambda _: None, live=False, older=False) for one in folders]
    for reporter in both:
        reporter.finish(stuck_s=60)
    assert [reporter.done for reporter in both] == [True, True]
    assert [reporter.refused for reporter in both] == [0, 0]
    assert len(scores.rows("evals")) == 8


@pytest.fixture(autouse=True)
def _no_orphans() -> Iterator[None]:
    """Every child that a test started has ended with it."""
    import os

    yield
    left = [pid for pid in descendants(os.getpid()) if "scores.child" in command_of(pid)]
    assert left == []
