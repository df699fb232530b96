"""What is sent to the scores backend is a pure function of the journal, and never too large."""

import json

import pytest

from pytest_convex_evals.scores.archives import archive, output_archive
from pytest_convex_evals.scores.backlog import Backlog, Result
from pytest_convex_evals.scores.payload import result_args


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def record(**changes):
    check = {"name": "test_a", "verdict": {"outcome": "passed"}, "duration_s": 0.1, "detail": ""}
    step = {"name": "tests", "verdict": {"outcome": "passed"}, "duration_s": 0.5, "checks": [check]}
    plain = {
        "eval": "a/b",
        "repeat": 1,
        "verdict": {"outcome": "passed"},
        "steps": [step],
        "generation": None,
        "grading_s": 1.5,
        "started_at": "2026-01-01T00:00:00.500+00:00",
    }
    return plain | changes


def sent(**changes):
    return result_args(Result("r", 2, record(**changes), None), None)


def test_a_plain_result():
    args = sent()
    assert args["cell"] == {"evalPath": "a/b", "repeat": 1, "attempt": 2}
    assert args["result"]["startedAt"] == 1767225600500.0
    assert args["result"]["generationMs"] is None
    assert set(args["result"]["usage"].values()) == {None}
    assert {"output", "source"}.isdisjoint(args["result"])


def test_an_answer_is_known_by_its_purchase():
    generation = {"key": "k", "duration_s": 1.5, "first_token_s": 0.5, "output_tokens": 3, "cost_usd": 0.1}
    bought = sent(generation=generation)["result"]["answer"]
    assert len(bought) == 64
    assert sent(generation={**generation, "reused": True})["result"]["answer"] == bought
    for change in ({"key": "l"}, {"duration_s": 1.501}, {"first_token_s": None}, {"attempts": [{"cause": "timeout"}]}):
        assert sent(generation={**generation, **change})["result"]["answer"] != bought
    assert "answer" not in sent()["result"]


@pytest.mark.parametrize("sign", ["x", "ü", "😀"])
def test_a_long_text_is_cut_to_what_the_backend_keeps_whole(sign):
    verdict = sent(verdict={"outcome": "failed", "cause": "checks", "reason": sign * 20_000})["result"]["verdict"]
    assert units(verdict["reason"]) <= 16_000
    kept, _, told = verdict["reason"].rpartition("\n… ")
    assert units(kept) + int(told.split()[0]) == units(sign * 20_000)


def test_half_a_character_does_not_stop_a_verdict():
    reason = sent(verdict={"outcome": "error", "cause": "x", "reason": "a\ud800b"})["result"]["verdict"]["reason"]
    assert reason == "a?b"


def test_thousands_of_checks_stay_within_limits_and_failures_go_first():
    checks = [
        {"name": f"test_{n}" * 200, "verdict": verdict, "duration_s": 0, "detail": "d" * 16_000}
        for n in range(1500)
        for verdict in [
            {"outcome": "failed", "cause": "checks", "reason": "r"} if n % 3 == 2 else {"outcome": "passed"}
        ]
    ]
    [step] = sent(steps=[{**record()["steps"][0], "checks": checks}])["result"]["steps"]
    assert len(step["checks"]) == 1000
    assert sum(check["verdict"]["kind"] == "failed" for check in step["checks"]) == 500
    assert len(json.dumps(step)) < 4_000_000
    assert max(len(check["name"]) for check in step["checks"]) == 500


def test_a_long_name_is_cut_as_the_backend_counts_and_never_in_half():
    checks = [{**record()["steps"][0]["checks"][0], "name": "x" + "😀" * 300}]
    [step] = sent(steps=[{**record()["steps"][0], "checks": checks}])["result"]["steps"]
    assert step["checks"][0]["name"] == "x" + "😀" * 249


def test_an_archive_is_the_same_whatever_the_order_and_fits():
    files = {"b.ts": b"2", "a.ts": "ü".encode(), "c.bin": b"\xff"}
    data = archive(files)
    assert data == archive(dict(reversed(files.items())))
    assert [file["path"] for file in json.loads(data)["files"]] == ["a.ts", "b.ts", "c.bin"]
    assert json.loads(data)["files"][2]["base64"] == "/w=="
    limit = 500_000
    many = {f"{n}.ts": b"x" * (n * 10) for n in range(1000)}
    cut = archive(many, limit)
    assert len(cut) <= limit
    told = json.loads(cut)
    assert len(told["files"]) + told["omittedCount"] == 1000
    assert min(one["bytes"] for one in told["omitted"]) > max(len(one["text"]) for one in told["files"])


def test_without_files_the_answer_is_kept(tmp_path):
    assert output_archive(tmp_path) is None
    (tmp_path / "answer.md").write_text("I cannot help with that.")
    data = output_archive(tmp_path)
    assert data is not None
    assert json.loads(data)["files"] == [{"path": "answer.md", "text": "I cannot help with that."}]


def test_a_journal_is_read_as_it_grows_and_torn_lines_wait(tmp_path):
    journal = tmp_path / "journal.jsonl"
    backlog = Backlog("run", journal)
    assert not backlog.read()
    journal.write_bytes(b'{"event": "run_sta')
    assert not backlog.read()
    with journal.open("ab") as stream:
        stream.write(b'rted"}\n{"event": "run_fin')
    assert backlog.read()
    assert not backlog.finished
    with journal.open("ab") as stream:
        stream.write(b'\n{"event": "run_finished"}\n{"event": "resume_started"}\n')
    backlog.read()
    assert not backlog.finished


def test_verdicts_from_before_the_suite_was_described_are_counted(tmp_path):
    journal = tmp_path / "journal.jsonl"
    old = {"event": "cell_finished", "record": {**record(), "model": "gpt-5", "experiment": "default"}}
    journal.write_text(json.dumps(old) + "\n")
    backlog = Backlog("run", journal)
    backlog.read()
    assert (backlog.unknown, backlog.results) == (1, {})
