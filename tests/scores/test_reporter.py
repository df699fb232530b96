"""Sessions whose results go to the scores backend, written by the real client and read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sessions import Project

from .support.deployment import TOKEN, Deployment
from .support.sessions import FAILS, Scored, upload_lines


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)


@pytest.fixture
def scored(scores: Deployment, project: Project) -> Iterator[Scored]:
    made = Scored(project, scores.core.url)
    yield made
    made.close()


def test_a_session_with_a_model_is_delivered_whole(scored: Scored, scores: Deployment) -> None:
    done = scored.run("--models", "reference")
    assert done.code == 1, done.output
    assert f"scores: results go to {scores.core.url}" in done.output
    assert "scores: 3 results delivered" in done.output, done.output
    (folder,) = done.runs
    [run] = scores.rows("runs")
    assert (run["key"], run["complete"]) == (f"{folder.name}:gpt-5:default", True)
    assert (run["status"]["kind"], run["counts"]["passed"], run["counts"]["failed"]) == ("failed", 2, 1)
    [model] = scores.rows("models")
    assert (model["slug"], model["provider"]) == ("gpt-5", "OpenAI")
    cells = {cell["evalPath"]: cell for cell in scores.rows("evals")}
    assert cells[f"000-m/{FAILS}"]["status"]["kind"] == "failed"
    assert cells["000-m/000-one"]["usage"]["inputTokens"] == 1200
    info = scores.internal("debug:getEvalDebugInfo", evalId=cells["001-n/000-three"]["_id"])
    assert info["eval"]["task"] == "Compute the answer, for 001-n/000-three.\n"
    assert {file["path"] for file in info["outputFiles"]} == {"convex/main.ts", "package.json"}
    assert {file["path"] for file in info["evalSourceFiles"]} == {
        "TASK.txt",
        "answer/convex/main.ts",
        "answer/package.json",
        "eval.toml",
        "grader.py",
    }
    [suite] = scores.rows("suites")
    assert suite["evals"] == ["000-m/000-one", f"000-m/{FAILS}", "001-n/000-three"]
    names = {part["name"] for part in suite["parts"]}
    assert names >= {"prompts", "guidelines", "lint and type configs", "engine", "tool versions", "grading"}
    assert [row["score"] for row in scores.client.query("modelScores:leaderboard", {})["rows"]] == [2 / 3]
    assert upload_lines(folder)[-1]["did"] == "whole"
    written = [path for path in Path(done.root).rglob("*") if path.is_file()]
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
