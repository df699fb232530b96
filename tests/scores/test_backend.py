"""The backend on the embedded engine: pushed by the real CLI, written by the real Python client, read back."""

from pathlib import Path

import pytest
from convex import ConvexError

from tests.engine.support.core import request

from .support.deployment import EVALS, FAILED, PASSED, TOKEN, Deployment
from .support.project import SCORES

HOUR = 3_600_000


def generated(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "convex" / "_generated").iterdir()}


def test_the_committed_generated_code_is_what_codegen_makes(deployed: Deployment) -> None:
    for path in (deployed.folder / "convex" / "_generated").iterdir():
        path.unlink()
    made = deployed.cli("codegen", "--typecheck", "disable")
    assert generated(deployed.folder) == generated(SCORES), made.output


def test_a_run_is_written_and_read_back(scores: Deployment) -> None:
    run_id = scores.start("r")
    source = scores.upload({"TASK.txt": "Write a backend", "grader.py": "def test(): ..."})
    output = scores.upload({"convex/a.ts": "export const ü = 1;"})
    assert scores.upload({"convex/a.ts": "export const ü = 1;"}) == output
    failed = scores.finish("r", EVALS[0], FAILED, source=source, output=output)
    for path in EVALS[1:]:
        scores.finish("r", path, PASSED, source=source)
    scores.report("heartbeat", runKey="r", sentAt=5)
    scores.report("completeRun", runKey="r", endedAt=9000)

    run = scores.client.query("runs:get", {"runId": run_id})
    assert (run["status"]["kind"], run["complete"], run["counts"]["passed"]) == ("failed", True, 2)
    [row] = scores.client.query("modelScores:leaderboard", {})["rows"]
    assert (row["model"]["slug"], row["runs"], row["meanCostUsd"]) == ("gpt-5", 1, 0.75)
    assert row["score"] == pytest.approx(2 / 3)
    assert row["interval"]["low"] == pytest.approx(0.207655, abs=1e-5)

    answer = request(f"{scores.core.site}/leaderboard")
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
    assert answer.json()["rows"][0]["score"] == row["score"]
    again = request(f"{scores.core.site}/leaderboard", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")

    found = scores.internal("debugQueries:getFailedEvalsForRun", runId=run_id)
    assert [(one["_id"], one["failedStep"]) for one in found["failedEvals"]] == [(failed, "tests")]
    info = scores.internal("debug:getEvalDebugInfo", evalId=failed)
    assert info["eval"]["task"] == "Write a backend"
    assert info["outputFiles"] == [{"path": "convex/a.ts", "text": "export const ü = 1;"}]


def test_many_long_failures_are_listed_as_far_as_they_fit(scores: Deployment) -> None:
    evals = [f"c/e{number:03}" for number in range(200)]
    run_id = scores.start("r", evals)
    verdict = {**FAILED, "reason": "─" * 15_900}
    for path in evals[:50]:
        scores.finish("r", path, verdict, checks=0)
    found = scores.internal("debugQueries:getFailedEvalsForRun", runId=run_id)
    assert ([one["evalPath"] for one in found["failedEvals"]], found["isTruncated"]) == (evals[:50], False)
    assert found["failedEvals"][0]["failureReason"].endswith("\n… 13900 more characters")
    for path in evals[50:]:
        scores.finish("r", path, verdict, checks=0)
    found = scores.internal("debugQueries:getFailedEvalsForRun", runId=run_id)
    assert (found["failedCount"], found["isTruncated"]) == (200, True)
    assert 100 < len(found["failedEvals"]) < 200


def test_refusals_reach_the_python_client_as_data(scores: Deployment) -> None:
    with pytest.raises(ConvexError) as unknown:
        scores.finish("nowhere", EVALS[0], PASSED)
    assert unknown.value.data["code"] == "unknown_run"
    scores.add_token("narrow", ["report"])
    with pytest.raises(ConvexError) as narrow:
        scores.client.mutation("admin:deleteRun", {"token": "narrow", "runKey": "r", "reason": ""})
    assert (narrow.value.data["code"], narrow.value.data["reason"]) == ("unauthorized", "scope")


@pytest.mark.parametrize("path", ["auth:listTokens", "debugQueries:getFailedEvalsForRun", "runs:deleteRest"])
def test_what_is_internal_is_not_public(scores: Deployment, path: str) -> None:
    with pytest.raises(Exception, match="Could not find public function"):
        scores.client.query(path, {})


def test_only_these_functions_are_public(deployed: Deployment) -> None:
    functions = deployed.core.control("functionSpec")["functions"]
    public = {one["identifier"] for one in functions if one.get("visibility", {}).get("kind") == "public"}
    assert {name.split(".js:")[0] for name in public if not name.startswith("admin.js:")} == {
        "benchmarkVersions",
        "evals",
        "experiments",
        "modelScores",
        "models",
        "runs",
    }
    unchecked = [one["identifier"] for one in functions if "identifier" in one and one["returns"] is None]
    assert [name for name in unchecked if not name.startswith("migrations.js:")] == []


def test_reads_do_not_grow_with_history(scores: Deployment) -> None:
    reads = []
    for number in range(14):
        scores.start(f"r{number}", EVALS[:1], startedAt=number)
        scores.finish(f"r{number}", EVALS[0], PASSED)
        board = scores.core.call("modelScores:leaderboard")
        assert board["value"]["rows"][0]["runs"] == min(10, number + 1)
        reads.append(board["usage"]["documentsRead"])
    assert set(reads) == {reads[0]}


def test_a_large_run_is_deleted_to_the_last_row(scores: Deployment) -> None:
    scores.start("kept")
    output = scores.upload({"a.ts": "shared"})
    scores.finish("kept", EVALS[0], PASSED, output=output)
    scores.start("gone")
    for path in EVALS:
        scores.finish("gone", path, FAILED, checks=700, output=output)
    assert len(scores.rows("checks")) == 2102
    scores.report("deleteRun", runKey="gone", reason="a broken grader")
    scores.core.control("idle")
    tables = ("runs", "evals", "steps", "checks", "assets", "_storage", "deletedRuns", "modelScores")
    assert [len(scores.rows(table)) for table in tables] == [1, 1, 1, 2, 1, 1, 1, 0]
    batches = [job["state"]["kind"] for job in scores.core.control("scheduled")]
    assert len(batches) >= 6
    assert set(batches) == {"success"}


def test_a_run_with_the_longest_texts_is_deleted_to_the_last_row(scores: Deployment) -> None:
    scores.start("gone")
    text = "─" * 15_900
    verdict = {**FAILED, "reason": text}
    checks = [{"name": f"t{n}", "verdict": verdict, "durationMs": 1, "detail": text} for n in range(60)]
    steps = [{"name": "tests", "verdict": verdict, "durationMs": 1, "checks": checks}]
    for path in EVALS:
        scores.finish("gone", path, verdict, steps=steps)
    for number in (2, 3):
        scores.finish("gone", EVALS[0], {**verdict, "cause": f"c{number}"}, attempt=number, steps=steps)
    scores.report("deleteRun", runKey="gone", reason="a broken grader")
    scores.core.control("idle")
    assert [len(scores.rows(table)) for table in ("runs", "evals", "steps", "checks")] == [0, 0, 0, 0]
    assert {job["state"]["kind"] for job in scores.core.control("scheduled")} == {"success"}


def test_crons_end_silent_runs_and_remove_files_without_an_owner(scores: Deployment) -> None:
    scores.reset(clock=1_800_000_000_000)
    scores.start("silent")
    scores.report("startEval", runKey="silent", cell={"evalPath": EVALS[0], "repeat": 1, "attempt": 1})
    scores.upload({"a.ts": "nobody refers to it"})
    scores.core.control("clock.advance", ms=2 * HOUR)
    assert scores.rows("runs")[0]["status"] == {"kind": "running"}
    scores.core.control("clock.advance", ms=2 * HOUR)
    [run] = scores.rows("runs")
    assert (run["status"]["kind"], run["status"]["cause"]) == ("error", "abandoned")
    assert scores.rows("evals")[0]["status"]["cause"] == "unfinished"
    assert len(scores.rows("assets")) == 1
    scores.core.control("clock.advance", ms=30 * HOUR)
    assert scores.rows("assets") == scores.rows("_storage") == []
    scores.reset()


def test_a_token_that_was_created_works_at_once(scores: Deployment) -> None:
    checked = scores.client.query("admin:checkToken", {"token": TOKEN})
    assert checked["scopes"] == ["report", "maintain", "mint"]
