"""`convex-evals import`: what a suite in the vitest layout has, and what would not work here."""

from pathlib import Path

import pytest

from pytest_convex_evals.cli.main import main
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.fingerprint import eval_fingerprint
from pytest_convex_evals.suite.vitest import asks_for_reference, grader_sources
from tests.support.suites import write_tree
from tests.support.vitest_suites import HOME, copy_suite, static_eval

TEST = 'import { test } from "vitest";\n'


def test_a_suite_that_works_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(HOME / "suite")]) == 0
    said = capsys.readouterr().out
    assert "14 evals, 0 that would not work" in said
    assert "eslint.config.mjs: replaces our rules for convex/" in said
    assert "grader/judge.ts): calls a model: graders have no keys" in said
    assert [line.split()[1:] for line in said.splitlines() if line.startswith("000-basics/001")] == [
        ["full", "grader.test.ts", "yes", "yes"]
    ]


def test_what_would_not_work_is_told_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    static_eval(
        tmp_path, "000-packages", TEST + 'import x from "nobody-has-this";\nimport type { y } from "types-only";\n'
    )
    static_eval(tmp_path, "001-shared", TEST + 'import { client } from "../../../grader";\n')
    static_eval(tmp_path, "002-variables", TEST + "process.env.OPENAI_API_KEY;\nprocess.env.CONVEX_PORT;\n")
    static_eval(tmp_path, "003-push", TEST, answer={"package.json": "{}\n"}, pipeline="full")
    static_eval(tmp_path, "004-json", TEST, pipeline="full")
    (tmp_path / "evals/000-bad/004-json/eval.json").write_text("{ no")
    (tmp_path / "vitest.config.ts").write_text("export default {};\n")
    assert main(["import", str(tmp_path / "evals")]) == 1
    said = capsys.readouterr().out
    for words in (
        "imports nobody-has-this, which nobody has: run npm install in the suite",
        "imports ../../../grader, which is not there",
        "reads the variable OPENAI_API_KEY, which is not set here",
        "reads the variable CONVEX_PORT, which is not set for static evals",
        "no package.json that asks for convex",
        "eval.json: is not JSON",
        "vitest.config.ts: is not read",
        "5 evals, 4 that would not work",
    ):
        assert words in said
    assert "types-only" not in said


def test_a_folder_without_a_suite_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path)]) == 1
    assert "name the folder that holds evals/" in capsys.readouterr().err


def test_the_reference_submits_typescript_and_package_json_only() -> None:
    item = load_eval(HOME / "suite/evals/004-clients/000-use_query/TASK.txt")
    assert set(item.answer_files()) == {"package.json", "convex/notes.ts", "convex/schema.ts", "src/texts.ts"}
    malformed = load_eval(HOME / "suite/evals/000-basics/001-live_counter/TASK.txt")
    assert set(malformed.answer_files()) == {"package.json", "convex/counter.ts", "convex/schema.ts"}


def test_helpers_are_followed_to_what_they_ask_for(tmp_path: Path) -> None:
    static_eval(tmp_path, "000-direct", TEST + "process.env.CONVEX_ANSWER_PORT;\n", pipeline="full")
    static_eval(tmp_path, "001-through", TEST + 'export { a } from "../../../grader/one.js";\n', pipeline="full")
    static_eval(tmp_path, "002-never", TEST + 'import "./answer/convex/main";\n', pipeline="full")
    write_tree(
        tmp_path / "grader", {"one.ts": 'export * from "./two";\n', "two/index.ts": "process.env.CONVEX_ANSWER_PORT;\n"}
    )
    items = [load_eval(task) for task in sorted(tmp_path.glob("evals/*/*/TASK.txt"))]
    suites = [item.vitest for item in items]
    assert [asks_for_reference(item.grader, suite) for item, suite in zip(items, suites, strict=True) if suite] == [
        True,
        True,
        False,
    ]
    assert suites[2] is not None
    assert [path.name for path, _ in grader_sources(items[2].grader, suites[2])] == ["grader.test.ts", "main.ts"]


def test_what_graders_share_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    item = load_eval(copy_suite(tmp_path / "suite") / "000-basics/000-notes/TASK.txt")
    before = eval_fingerprint(item)
    (tmp_path / "suite/grader/index.ts").write_text("export {};\n")
    between = eval_fingerprint(item)
    (tmp_path / "suite/eslint.config.mjs").write_text("export default [];\n")
    assert len({before, between, eval_fingerprint(item)}) == 3
