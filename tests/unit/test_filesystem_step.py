"""The filesystem step: all paths are judged, then all files are written, inside the attempt and nowhere else."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.generation.answers import submission_from_text
from pytest_convex_evals.grading.steps import filesystem
from pytest_convex_evals.grading.steps.base import Bench
from pytest_convex_evals.grading.steps.filesystem import FilesystemStep
from pytest_convex_evals.records import Failed, Passed
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import Eval
from tests.support.nasty import NASTY


def bench_for(submission: Submission, folder: Path) -> Bench:
    item = Eval(folder, "000-fundamentals", "000-empty", folder / "grader.py")
    no_tools = object()  # the step needs none
    return Bench(item, submission, folder, no_tools)


def run(files: dict[str, str], folder: Path, **more):
    bench = bench_for(Submission(files, **more), folder)
    return FilesystemStep().run(bench), bench


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_files_are_written_below_the_project_folder(tmp_path):
    files = {"package.json": "{}\n", "./convex/a.ts": "export {};\r\n", "src/deep/er/b.ts": "ä\n"}
    result, bench = run(files, tmp_path)
    assert result.verdict == Passed()
    assert (tmp_path / "project/convex/a.ts").read_bytes() == b"export {};\r\n"
    assert sorted(tree(tmp_path)) == ["project/convex/a.ts", "project/package.json", "project/src/deep/er/b.ts"]
    assert bench.files == {"package.json": "{}\n", "convex/a.ts": "export {};\r\n", "src/deep/er/b.ts": "ä\n"}


def test_ignored_files_are_left_out_and_named(tmp_path):
    files = {"convex/a.ts": "", "node_modules/x/index.js": "evil", ".npmrc": "registry=x", "yarn.lock": ""}
    result, bench = run(files, tmp_path, notes=("convex/a.ts stands twice in the answer; the last one counts",))
    assert result.verdict == Passed()
    assert result.notes == (
        "convex/a.ts stands twice in the answer; the last one counts",
        "node_modules/x/index.js ignored: packages are installed by us",
        ".npmrc ignored: would configure npm",
        "yarn.lock ignored: versions are resolved by us",
    )
    assert list(tree(tmp_path)) == ["project/convex/a.ts"]
    assert list(bench.files) == ["convex/a.ts"]


REFUSED = {
    "a path that leaves": (["a.ts", "../b.ts"], "the path '../b.ts' leaves the project by .."),
    "an absolute path": (["/etc/cron.d/x"], "the path '/etc/cron.d/x' is absolute"),
    "case": (
        ["convex/a.ts", "convex/A.ts"],
        "the paths 'convex/a.ts' and 'convex/A.ts' are the same file on some systems",
    ),
    "spelling": (["a.ts", "./a.ts"], "the paths 'a.ts' and './a.ts' are the same file on some systems"),
    "Unicode": (["\u00e9.ts", "e\u0301.ts"], "the paths 'é.ts' and 'e\u0301.ts' are the same file on some systems"),
    "folders by case": (
        ["convex/a.ts", "Convex/b.ts"],
        "the folders 'convex' and 'Convex' are the same on some systems",
    ),
    "folders by Unicode": (["\u212a/a.ts", "k/b.ts"], "the folders 'K' and 'k' are the same on some systems"),
    "deep folders": (["x/Y/a.ts", "x/y/b.ts"], "the folders 'x/Y' and 'x/y' are the same on some systems"),
    "a file that is a folder": (["convex/a", "convex/a/b.ts"], "'convex/a' is a file and a folder"),
    "a folder that is a file": (["convex/a/b.ts", "convex/a"], "'convex/a' is a file and a folder"),
    "a folder by case": (["Convex", "convex/b.ts"], "'Convex' is a file and a folder"),
    "control characters": (["a\x1b[2J.ts"], r"the path 'a\x1b[2J.ts' has a control or invisible character"),
}


@pytest.mark.parametrize(("paths", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_one_refused_path_fails_the_step_and_nothing_is_written(paths, reason, tmp_path):
    result, bench = run(dict.fromkeys(paths, "x"), tmp_path)
    assert result.verdict == Failed(cause="path", reason=reason)
    assert list(tmp_path.iterdir()) == []
    assert bench.files == {}


def test_a_path_of_thousands_of_characters_is_not_repeated_in_full(tmp_path):
    result, _ = run({"a" * 100_000: ""}, tmp_path)
    assert len(result.verdict.reason) < 300


def test_an_ignored_file_collides_with_nothing(tmp_path):
    result, _ = run({".env": "", ".ENV": "", "node_modules/a": "", "node_modules/a/b": ""}, tmp_path)
    assert result.verdict == Passed()


LIMITS = {
    "number": ({f"f{i}.ts": "" for i in range(4)}, "4 files are more than 3"),
    "size": ({"a.ts": "ä" * 51}, "'a.ts' has 102 bytes, more than 100"),
    "total": ({"a.ts": "a" * 100, "b.ts": "b" * 51}, "all files together have more than 150 bytes"),
}


@pytest.mark.parametrize(("files", "reason"), LIMITS.values(), ids=LIMITS.keys())
def test_too_much_is_a_failure_by_limit(files, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(filesystem, "MAX_FILES", 3)
    monkeypatch.setattr(filesystem, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(filesystem, "MAX_TOTAL_BYTES", 150)
    result, _ = run(files, tmp_path)
    assert result.verdict == Failed(cause="limit", reason=reason)
    assert list(tmp_path.iterdir()) == []
    just_enough = {"a.ts": "a" * 100, "b.ts": "b" * 50, "c.ts": ""}
    assert run(just_enough, tmp_path)[0].verdict == Passed()


def test_the_limits_are_as_documented():
    assert (filesystem.MAX_FILES, filesystem.MAX_FILE_BYTES, filesystem.MAX_TOTAL_BYTES) == (2_000, 2 << 20, 16 << 20)


def test_an_answer_without_files_fails_with_its_own_cause(tmp_path):
    bench = bench_for(submission_from_text("No files here."), tmp_path)
    verdict = FilesystemStep().run(bench).verdict
    assert verdict == Failed(
        cause="no_files", reason="the answer holds no file: no heading with a path followed by a fenced block"
    )


def test_folders_of_a_submission_exist_even_when_empty(tmp_path):
    run({"package.json": "{}"}, tmp_path, folders=("convex",))
    assert (tmp_path / "project/convex").is_dir()


def test_text_that_is_no_unicode_is_written_with_replacements(tmp_path):
    result, _ = run({"a.ts": "x\ud800y"}, tmp_path)
    assert result.verdict == Passed()
    assert (tmp_path / "project/a.ts").read_bytes() == b"x?y"


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(paths=st.lists(NASTY, max_size=4))
def test_nothing_is_ever_written_outside_of_the_attempt(paths, tmp_path_factory):
    outside = tmp_path_factory.mktemp("machine", numbered=True)
    attempt = outside / "cells" / "1"
    attempt.mkdir(parents=True)
    result, bench = run(dict.fromkeys(paths, "content"), attempt)
    written = {path for path in outside.rglob("*") if not path.is_dir()}
    project = (attempt / "project").resolve()
    assert all(path.resolve().is_relative_to(project) and not path.is_symlink() for path in written)
    assert {path.relative_to(project).as_posix() for path in written} == set(bench.files)
    if isinstance(result.verdict, Failed):
        assert written == set()


def test_a_folder_that_cannot_be_written_is_our_trouble(tmp_path):
    (tmp_path / "project").write_text("a file where the folder should be")
    with pytest.raises(Trouble) as caught:
        run({"a.ts": ""}, tmp_path)
    assert caught.value.cause == "store_unwritable"
    assert caught.value.reason.startswith("the submission could not be written (")
    assert caught.value.remedy == "make the folder writable, or choose another one with --evals-dir DIR"


def test_a_full_disk_is_our_trouble(tmp_path):
    program = textwrap.dedent("""
        import json, resource, sys
        from pathlib import Path
        from pytest_convex_evals.errors import Trouble
        from tests.unit.test_filesystem_step import run

        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
        try:
            run({"small.ts": "a" * 900, "large.ts": "a" * 5_000}, Path(sys.argv[1]))
        except Trouble as trouble:
            print(json.dumps([trouble.cause, trouble.remedy]))
    """)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == ["disk_full", "free some space, then run the same command again"]


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root can mount a small disk")
def test_a_disk_without_space_is_our_trouble(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount")
    try:
        with pytest.raises(Trouble) as caught:
            run({f"f{i}.ts": "a" * 4_000 for i in range(30)}, tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert caught.value.cause == "disk_full"
