"""Run folders and journals: names, formats, and what can be read back after a crash."""

import json
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.files import write_atomically, write_json
from pytest_convex_evals.records import Errored, Failed, Passed
from pytest_convex_evals.store.journal import Journal, read_events, read_records
from pytest_convex_evals.store.runs import (
    FORMAT,
    RunFolder,
    check_format,
    create_run,
    find_run,
    list_runs,
    new_run_id,
)
from tests.support.verdicts import record

CELL = Cell("000-fundamentals", "003-crons", "openai/gpt-5", "default", 2)


def make_run(store, run_id):
    create_run(RunFolder.of(run_id, str(store), ""), {"run_id": run_id})


def test_run_ids_start_with_eight_random_characters_and_then_the_time():
    ids = {new_run_id() for _ in range(200)}
    assert len({run_id[:8] for run_id in ids}) == 200
    assert all(re.fullmatch(r"[a-z0-9]{8}-\d{8}T\d{6}Z", run_id) for run_id in ids)


def test_the_places_of_a_run(tmp_path):
    run = RunFolder.of("id", str(tmp_path), "")
    assert run.journal == tmp_path / "runs/id/journal.jsonl"
    assert run.generations == tmp_path / "generations"
    assert run.cell(CELL) == tmp_path / "runs/id/cells/000-fundamentals/003-crons/openai%2Fgpt-5/2"
    assert run.answer(CELL) == run.cell(CELL) / "answer.json"
    elsewhere = RunFolder.of("id", str(tmp_path), "/elsewhere")
    assert elsewhere.path == tmp_path / "runs/id"
    assert str(elsewhere.cell(CELL)) == "/elsewhere/id/cells/000-fundamentals/003-crons/openai%2Fgpt-5/2"


def test_attempts_are_numbered_and_never_reused(tmp_path):
    run = RunFolder.of("id", str(tmp_path), "")
    assert [run.new_attempt(CELL)[0] for _ in range(3)] == [1, 2, 3]
    (run.cell(CELL) / "2").rmdir()
    write_atomically(run.answer(CELL), "{}")
    number, folder = run.new_attempt(CELL)
    assert (number, folder.is_dir(), list(folder.iterdir())) == (4, True, [])


def test_a_new_store_has_a_format_and_stays_out_of_git(tmp_path):
    make_run(tmp_path / "s", "a")
    assert json.loads((tmp_path / "s/format.json").read_text()) == {"format": FORMAT}
    assert (tmp_path / "s/.gitignore").read_text() == "*\n"
    check_format(tmp_path / "s")


def test_a_store_that_is_not_there_yet_is_fine(tmp_path):
    check_format(tmp_path / "none")
    (tmp_path / "file").write_text("")
    check_format(tmp_path / "file")


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_another_format_is_refused(version, tmp_path):
    (tmp_path / "format.json").write_text(json.dumps({"format": version}))
    with pytest.raises(SettingsError) as caught:
        check_format(tmp_path)
    assert str(caught.value) == (
        f"the run store {tmp_path} has format {version}; this version reads format 1.\n"
        "  what to do: choose another store with --evals-dir DIR, or use the version that wrote it"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b"3"])
def test_a_damaged_format_is_refused(content, tmp_path):
    (tmp_path / "format.json").write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        check_format(tmp_path)
    assert str(caught.value) == (
        f"the run store {tmp_path} cannot be read: format.json is damaged.\n"
        "  what to do: choose another store with --evals-dir DIR"
    )


def test_runs_are_listed_from_the_oldest_to_the_newest(tmp_path):
    for run_id in ("zzzz0000-20250101T000000Z", "mmmm0000-20250201T000000Z", "aaaa0000-20250301T000000Z"):
        make_run(tmp_path, run_id)
    (tmp_path / "runs/half-made").mkdir()
    (tmp_path / "runs/file").write_text("")
    assert [run_id[:4] for run_id in list_runs(tmp_path)] == ["zzzz", "mmmm", "aaaa"]
    assert find_run(tmp_path, "latest").startswith("aaaa")


def test_the_latest_run_is_the_one_made_last_even_when_the_clock_was_set_back(tmp_path):
    make_run(tmp_path, "aaaa0000-20250101T000000Z")
    old = tmp_path / "runs/aaaa0000-20250101T000000Z/run.json"
    old.write_text("{}")  # as it was made before runs had numbers
    make_run(tmp_path, "bbbb0000-20260101T000000Z")
    make_run(tmp_path, "cccc0000-20200101T000000Z")
    assert [run_id[:4] for run_id in list_runs(tmp_path)] == ["aaaa", "bbbb", "cccc"]
    assert find_run(tmp_path, "latest").startswith("cccc")


def test_a_run_is_found_by_the_start_of_its_id(tmp_path):
    for run_id in ("abcd0000-20250101T000000Z", "abce0000-20250102T000000Z"):
        make_run(tmp_path, run_id)
    assert find_run(tmp_path, "abcd") == "abcd0000-20250101T000000Z"
    assert find_run(tmp_path, "abcd0000-20250101T000000Z") == "abcd0000-20250101T000000Z"
    both = "abcd0000-20250101T000000Z, abce0000-20250102T000000Z"
    with pytest.raises(SettingsError) as caught:
        find_run(tmp_path, "abc")
    assert str(caught.value) == f"2 runs start with 'abc' in {tmp_path}.\n  what to do: choose one, for example {both}"
    with pytest.raises(SettingsError) as caught:
        find_run(tmp_path, "xyz")
    assert str(caught.value) == f"no run starts with 'xyz' in {tmp_path}.\n  what to do: choose one, for example {both}"


def test_a_store_without_runs_says_how_to_make_one(tmp_path):
    with pytest.raises(SettingsError, match=r"there are no runs in .*\n  what to do: `pytest evals` makes one"):
        find_run(tmp_path, "latest")


def journal_of(path, *events):
    journal = Journal(path)
    for name, fields in events:
        journal.append(name, **fields)
    journal.close()


@pytest.mark.parametrize("torn", [b'{"event": "cell_fin', b"\0\0\0\0", b'{"event": "x", "text": "\xc3', b"{", b"3"])
def test_a_torn_last_line_is_skipped_and_later_events_are_not_lost(torn, tmp_path):
    path = tmp_path / "journal.jsonl"
    journal_of(path, ("one", {}), ("two", {"n": 2}))
    with path.open("ab") as stream:
        stream.write(torn)
    assert [event["event"] for event in read_events(path)] == ["one", "two"]
    journal_of(path, ("three", {"text": "ä\u2028\n"}), ("four", {}))
    events = list(read_events(path))
    assert [event["event"] for event in events] == ["one", "two", "three", "four"]
    assert events[2]["text"] == "ä\u2028\n"


def test_a_journal_that_is_not_there_has_no_events(tmp_path):
    assert list(read_events(tmp_path / "none.jsonl")) == []


def test_numbers_that_json_does_not_have_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal_of(tmp_path / "journal.jsonl", ("x", {"n": float("nan")}))


def test_the_last_verdict_on_a_cell_counts_in_the_order_of_the_first(tmp_path):
    path = tmp_path / "journal.jsonl"
    verdicts = [
        record(Errored(cause="toolchain", reason="died"), name="a"),
        record(Passed(), name="b"),
        record(Passed(), name="a", attempt=2),
        record(Failed(cause="checks", reason="x"), name="b", repeat=2),
        record(Passed(), name="b", experiment="no_guidelines"),
    ]
    events = [("cell_finished", {"record": entry.model_dump(mode="json")}) for entry in verdicts]
    journal_of(path, ("run_started", {"cells": []}), *events, ("run_finished", {}))
    assert read_records(path) == [verdicts[2], verdicts[1], verdicts[3], verdicts[4]]


@pytest.mark.parametrize("fields", [{}, {"record": None}, {"record": {"eval": "x"}}])
def test_a_verdict_that_cannot_be_read_is_named(fields, tmp_path):
    path = tmp_path / "journal.jsonl"
    journal_of(path, ("cell_finished", fields))
    with pytest.raises(SettingsError) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path} holds a verdict that cannot be read: ")


# Writes the same file again and again, alternating between two contents.
_WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from pytest_convex_evals.files import write_atomically
    path = Path(sys.argv[1])
    contents = [letter * 300_000 for letter in "ab"]
    write_atomically(path, contents[0], durable=False)
    print("started", flush=True)
    while True:
        for content in contents:
            write_atomically(path, content, durable=False)
""")


def test_a_killed_writer_never_leaves_a_torn_file(tmp_path):
    path = tmp_path / "file"
    for _ in range(12):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(20):
            assert path.read_text() in {"a" * 300_000, "b" * 300_000}
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert path.read_text() in {"a" * 300_000, "b" * 300_000}


# Appends events until it is killed, saying which ones are on disk.
_JOURNALIST = textwrap.dedent("""
    import sys
    from pathlib import Path
    from pytest_convex_evals.store.journal import Journal
    journal = Journal(Path(sys.argv[1]))
    for number in range(1_000_000):
        journal.append("n", number=number, text="x" * 5_000)
        print(number, flush=True)
""")


def test_events_that_were_written_survive_the_death_of_the_writer(tmp_path):
    path, expected = tmp_path / "journal.jsonl", []
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", _JOURNALIST, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        while int(writer.stdout.readline()) < 20:
            pass
        writer.send_signal(signal.SIGKILL)
        acknowledged = 20 + len(writer.stdout.read().split())
        writer.wait()
        writer.stdout.close()
        expected += range(acknowledged + 1)
        numbers = [event["number"] for event in read_events(path)]
        assert numbers[: len(expected)] == expected
        expected = numbers


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("inf")})
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", "text")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file.json", "folder"]
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_write_without_space_leaves_no_part_behind(tmp_path):
    program = textwrap.dedent("""
        import errno, resource, sys
        from pathlib import Path
        from pytest_convex_evals.files import write_atomically
        from pytest_convex_evals.store.journal import Journal

        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
        folder = Path(sys.argv[1])
        write_atomically(folder / "file", "old")
        journal = Journal(folder / "journal.jsonl")
        journal.append("first")
        for attempt in (lambda: write_atomically(folder / "file", "n" * 5_000), lambda: journal.append("x" * 5_000)):
            try:
                attempt()
            except OSError as error:
                assert error.errno == errno.EFBIG
            else:
                raise AssertionError("there was space")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
    """)
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60, check=True)
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "journal.jsonl"]
    journal_of(tmp_path / "journal.jsonl", ("second", {}))
    assert [event["event"] for event in read_events(tmp_path / "journal.jsonl")] == ["first", "second"]
