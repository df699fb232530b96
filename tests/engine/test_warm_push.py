"""What the toolchain worker pushes is what the Convex CLI pushes: files, requests, messages and verdict.

By default one project per feature is pushed both ways; with `DIFFERENTIAL=1` (`make differential`) also every eval with
its wrong submissions, every project of the engine's tests, and every minor version of `convex`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.suite.wrong import load_wrong, wrong_slugs

from .support.push_projects import ACCEPTED, LEFT_TO_THE_CLI, PLAIN, REFUSED, SERVER, with_convex
from .support.two_ways import Outcome, TwoWays

REPOSITORY = Path(__file__).parents[2]
WHOLE = os.environ.get("DIFFERENTIAL") == "1"
OFTEN = ("components of the project", "http, crons and auth", "unresolved import", "throws at import")
OLDER = ("1.31.2", "1.41.0")
EVERY_MINOR = (
    *("1.31.0", "1.31.7", "1.32.0", "1.33.1", "1.34.1", "1.35.1", "1.36.1", "1.37.0", "1.38.0", "1.39.1"),
    *("1.40.0", "1.42.3", "1.43.0", "1.44.0", "1.45.0", "1.46.0"),
)


@pytest.fixture(scope="module")
def two_ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWays]:
    running = TwoWays(tmp_path_factory.mktemp("two-ways"))
    yield running
    running.close()


def agreed(outcomes: tuple[Outcome, Outcome]) -> Outcome:
    cli, worker = outcomes
    assert worker.said == cli.said
    assert worker.accepted == cli.accepted
    assert worker.files == cli.files
    assert worker.requests == cli.requests
    assert worker.deployment == cli.deployment
    return worker


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_project_leaves_the_same_behind(name: str, two_ways: TwoWays):
    outcome = agreed(two_ways.push(with_convex(ACCEPTED[name])))
    assert outcome.accepted
    assert outcome.requests[-1]["what"] == "POST /api/deploy2/finish_push"
    assert any("_generated/" in path for path in outcome.files)
    assert outcome.deployment


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_project_is_refused_in_the_same_words(name: str, two_ways: TwoWays):
    outcome = agreed(two_ways.push(with_convex(REFUSED[name])))
    assert not outcome.accepted
    assert outcome.said


@pytest.mark.parametrize("name", LEFT_TO_THE_CLI)
def test_what_convex_dev_looks_at_before_it_pushes_is_left_to_it(name: str, two_ways: TwoWays):
    why, project = LEFT_TO_THE_CLI[name]
    assert two_ways.reason_for_cli(with_convex(project)) == why


@pytest.mark.parametrize("version", OLDER + EVERY_MINOR if WHOLE else OLDER)
def test_each_version_pushes_as_its_own_cli_does(version: str, two_ways: TwoWays):
    names = [*ACCEPTED, *REFUSED] if WHOLE else ["schema and functions", "unresolved import"]
    for name in names:
        agreed(two_ways.push(with_convex({**ACCEPTED, **REFUSED}[name], version)))


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED] if WHOLE else OFTEN)
def test_a_project_of_the_same_names_is_the_same_when_it_was_built_before(name: str, two_ways: TwoWays):
    project = {**ACCEPTED, **REFUSED}[name]
    for number in range(3):
        agreed(two_ways.push(with_convex({path: _marked(path, text, number) for path, text in project.items()})))
    assert list(two_ways.replicas().iterdir())


def test_a_package_that_is_no_module_is_bundled_alike_every_time(two_ways: TwoWays):
    source = f'{SERVER} import Socket from "ws"; export const kind = query({{ handler: () => typeof Socket }});'
    for number in range(3):
        assert agreed(two_ways.push(with_convex({"convex/socket.ts": f"{source} // {number}"}))).accepted


def _marked(path: str, text: str, number: int) -> str:
    return f"{text}\n// {number}\n" if path.endswith((".ts", ".tsx", ".js")) else text


def test_a_component_from_a_package_is_the_same_when_it_is_pushed_again(two_ways: TwoWays):
    answer = load_eval(REPOSITORY / "evals" / "007-components" / "004-choose_aggregate" / "TASK.txt").answer_files()
    first, second = (agreed(two_ways.push(answer)) for _ in range(2))
    assert first.accepted
    assert second.requests == first.requests


def test_a_remembered_build_serves_only_where_nothing_that_decides_it_has_changed(two_ways: TwoWays):
    first = {
        "convex/schema.ts": 'import { defineSchema } from "convex/server"; import { tables } from "./tables"; '
        'import { more } from "more"; export default defineSchema({ ...tables, ...more });',
        "convex/tables/index.ts": _tables("tables", "folder"),
        "convex/one.ts": _tables("more", "one"),
        "convex/two.ts": _tables("more", "two"),
        "tsconfig.json": _mapping("one"),
    }
    changes: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["folder", "one"]),
        ({"convex/notes.ts": PLAIN["convex/notes.ts"]}, ["folder", "one"]),
        ({"convex/tables/index.ts": _tables("tables", "changed")}, ["changed", "one"]),
        ({"convex/tables.ts": _tables("tables", "file")}, ["file", "one"]),
        ({"tsconfig.json": _mapping("two")}, ["folder", "two"]),
        ({}, ["folder", "one"]),
    ]
    for change, expected in changes:
        schema = agreed(two_ways.push(with_convex({**first, **change}))).deployment[""]["schema"]
        assert sorted(table["tableName"] for table in schema["tables"]) == expected


def _mapping(module: str) -> str:
    return json.dumps({"compilerOptions": {"paths": {"more": [f"./convex/{module}.ts"]}}})


def _tables(variable: str, name: str) -> str:
    return f'import {{ defineTable }} from "convex/server"; export const {variable} = {{ {name}: defineTable({{}}) }};'


def test_packages_outside_the_bundle_are_named_alike(two_ways: TwoWays):
    project = {
        "package.json": json.dumps({"dependencies": {"convex": "1.48.0", "typescript": "5.9.3"}}),
        "convex.json": json.dumps({"node": {"externalPackages": ["*"]}}),
        "convex/n.ts": '"use node";\nimport ts from "typescript"; import { action } from "./_generated/server"; '
        "export const version = action({ args: {}, handler: async () => ts.version });",
        **PLAIN,
    }
    outcome = agreed(two_ways.push(project))
    started = next(one for one in outcome.requests if one["what"].endswith("start_push"))
    assert started["body"]["nodeDependencies"] == [{"name": "typescript", "version": "5.9.3"}]


if WHOLE:
    EVALS = sorted((REPOSITORY / "evals").glob("*/*/TASK.txt"))

    @pytest.mark.parametrize("task", EVALS, ids=lambda task: task.parent.name)
    def test_every_eval(task: Path, two_ways: TwoWays):
        item = load_eval(task)
        assert agreed(two_ways.push(item.answer_files())).accepted
        for slug in wrong_slugs(item.root):
            agreed(two_ways.push(load_wrong(item, slug).files))

    def test_every_project_of_the_engine_tests(tmp_path: Path):
        command = [sys.executable, "-m", "pytest", "tests/engine", "-q", "-n", "2", "-p", "no:cacheprovider"]
        environment = {**os.environ, "DIFFERENTIAL": "0", "RECORD_PROJECTS": str(tmp_path)}
        ignored = [f"--ignore={Path(__file__).relative_to(REPOSITORY)}", "--ignore=tests/engine/fuzz"]
        done = subprocess.run([*command, *ignored], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:]
        recorded = sorted(tmp_path.glob("*.json"))
        assert len(recorded) > 100
        with ThreadPoolExecutor(2) as threads:
            shares = threads.map(_differences, (recorded[::2], recorded[1::2]), (tmp_path / "a", tmp_path / "b"))
            assert [one for share in shares for one in share] == []

    def _differences(recorded: list[Path], folder: Path) -> list[tuple[str, list[str], str]]:
        found = []
        two_ways = TwoWays(folder)
        try:
            for path in recorded:
                files = {f"convex/{name}": text for name, text in json.loads(path.read_text()).items()}
                try:
                    agreed(two_ways.push(with_convex(files)))
                except AssertionError as difference:
                    found.append((path.name, sorted(files), str(difference)[:2000]))
        finally:
            two_ways.close()
        return found
