"""Fingerprints change with each thing that decides a verdict, and with nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_convex_evals
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.fingerprint import cell_fingerprint, digest, eval_fingerprint
from pytest_convex_evals.suite.version import suite_version
from tests.support.suites import EXPECT, Suite, write_tree

NAME = "000-fundamentals/003-crons"


@pytest.fixture
def root(tmp_path):
    return Suite(tmp_path / "evals").add(NAME, wrong={"slug": EXPECT})


def fingerprint(root: Path) -> str:
    return eval_fingerprint(load_eval(root / "TASK.txt"))


@pytest.mark.parametrize(
    "path", ["TASK.txt", "grader.py", "eval.toml", "answer/convex/main.ts", "answer/package.json", "answer/new.ts"]
)
def test_it_changes_with_everything_that_decides(path, root):
    before = fingerprint(root)
    target = root / path
    text = target.read_text(encoding="utf-8") if target.exists() else ""
    target.write_text(f"{text}# more\n", encoding="utf-8")
    assert fingerprint(root) != before


def test_it_changes_when_a_file_of_the_answer_is_renamed_or_removed(root):
    before = fingerprint(root)
    (root / "answer/convex/main.ts").rename(root / "answer/convex/other.ts")
    renamed = fingerprint(root)
    (root / "answer/convex/other.ts").unlink()
    assert len({before, renamed, fingerprint(root)}) == 3


@pytest.mark.parametrize(
    "path",
    [
        "wrong/slug/convex/main.ts",
        "wrong/new/expect.toml",
        "__pycache__/grader.cpython-311.pyc",
        "answer/node_modules/x/index.js",
        "answer/convex/_generated/api.ts",
        "NOTES.md",
    ],
)
def test_it_does_not_change_with_what_decides_nothing(path, root):
    before = fingerprint(root)
    write_tree(root, {path: "something new\n"})
    assert fingerprint(root) == before


def test_it_does_not_depend_on_where_the_suite_is(root, tmp_path):
    copy = tmp_path / "elsewhere" / "000-fundamentals" / "003-crons"
    shutil.copytree(root, copy)
    assert fingerprint(copy) == fingerprint(root)


def test_the_guidelines_are_part_of_a_cells_fingerprint(root):
    item = load_eval(root / "TASK.txt")
    prints = [cell_fingerprint(item, guidelines) for guidelines in ("", "be brief", "be brief")]
    assert prints[0] != prints[1] == prints[2]
    assert all(len(text) == 16 and int(text, 16) >= 0 for text in prints)


def test_contents_cannot_be_moved_between_names_unnoticed():
    cuts = [[("a", b"bc")], [("ab", b"c")], [("a", b"b"), ("c", b"")], [("a", b"bc"), ("", b"")], [("", b"abc")]]
    assert len({digest(parts) for parts in cuts}) == len(cuts)


PARTS = [
    "prompts/guidelines.md",
    "prompts/system.md.j2",
    "grading/paths.py",
    "engine/package-lock.json",
    "engine/src/x.ts",
]


def test_a_change_of_the_package_changes_every_fingerprint(tmp_path):
    """Of a copy, so that nobody's files are touched."""
    copy = tmp_path / "pytest_convex_evals"
    ignored = shutil.ignore_patterns("node_modules", "__pycache__", "src")
    shutil.copytree(Path(pytest_convex_evals.__file__).parent, copy, ignore=ignored)

    def harness() -> str:
        program = "from pytest_convex_evals.suite.fingerprint import harness_fingerprint as f; print(f())"
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    prints = [harness(), harness()]
    assert prints[0] == prints[1]
    for path in PARTS:
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as stream:
            stream.write("\n# more\n")
        prints.append(harness())
    write_tree(copy, {"grading/__pycache__/x.pyc": "x", "engine/node_modules/x.js": "x", "cli/new.py": ""})
    assert harness() == prints[-1]
    assert len(set(prints)) == 1 + len(PARTS)


def test_a_suite_has_a_fingerprint_by_parts(tmp_path):
    suite = Suite(tmp_path / "evals")
    root = suite.add(NAME)
    suite.add("001-other/000-broken", grader=None)
    before = suite_version([suite.root])
    assert before.evals == (NAME, "001-other/000-broken")
    assert before == suite_version([suite.root])
    assert set(before.parts) == {
        f"eval {NAME}",
        "eval 001-other/000-broken",
        "engine",
        "grading",
        "guidelines",
        "lint and type configs",
        "prompts",
        "tool versions",
        "version",
    }
    (root / "TASK.txt").write_text("another task\n", encoding="utf-8")
    after = suite_version([suite.root])
    assert after.fingerprint != before.fingerprint
    assert {name for name in after.parts if after.parts[name] != before.parts[name]} == {f"eval {NAME}"}
    custom = suite_version([suite.root], "be brief")
    assert {name for name in after.parts if after.parts[name] != custom.parts[name]} == {"guidelines"}
