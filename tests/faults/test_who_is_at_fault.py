"""One test per row of the table of faults that grading decides; the rows of model calls are in tests/plugin."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from pytest_convex_evals.records import CellRecord, Errored, Failed
from tests.faults.conftest import ANSWER, GRADER, Bench
from tests.support.npm_registry import NpmRegistry

NOTES = ANSWER["convex/notes.ts"]


def outcome(record: CellRecord) -> tuple[str, str]:
    verdict = record.verdict
    return verdict.outcome, verdict.cause if isinstance(verdict, Failed | Errored) else ""


def steps(record: CellRecord) -> dict[str, str]:
    return {step.name: step.verdict.outcome for step in record.steps}


def package_json(**dependencies: str) -> str:
    return json.dumps({"name": "x", "dependencies": {"convex": "1.48.0", **dependencies}})


@pytest.fixture
def registry_of(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Point npm at an address, with an empty package store and an empty npm cache."""
    monkeypatch.setattr(bench.tools, "cache", tmp_path / "cache")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    return lambda address: monkeypatch.setenv("npm_config_registry", address)


def test_the_answer_passes_every_step(bench):
    record = bench.grade()
    assert outcome(record) == ("passed", "")
    assert list(steps(record)) == ["filesystem", "install", "deploy", "tsc", "eslint", "tests"]
    assert (record.backend, record.sandbox) == ("embedded", bench.tools.cage().level)


def test_a_path_outside_the_project_fails_at_filesystem(bench):
    record = bench.grade({"../outside.ts": "export {};"})
    assert outcome(record) == ("failed", "path")
    assert steps(record) == {"filesystem": "failed"}


@pytest.mark.parametrize(
    "version",
    [
        "github:somebody/something",
        "git+ssh://git@127.0.0.1/x.git",
        "file:../other",
        "link:../other",
        "http://127.0.0.1:1/archive",
        "workspace:*",
        "npm:convex@1.48.0",
        "somebody/something",
    ],
)
def test_a_version_that_is_not_of_the_registry_fails_at_install(bench, version):
    record = bench.grade({"package.json": package_json(other=version)})
    assert outcome(record) == ("failed", "package")
    assert steps(record) == {"filesystem": "passed", "install": "failed"}


@pytest.mark.parametrize("text", ["{", "[]", '{"dependencies": 5}', '{"dependencies": {"UPPER CASE": "1"}}'])
def test_a_package_json_that_makes_no_sense_fails_at_install(bench, text):
    assert outcome(bench.grade({"package.json": text})) == ("failed", "package")


def test_no_package_json_fails_at_install(bench):
    assert outcome(bench.grade(without=("package.json",))) == ("failed", "package")


def test_a_package_that_does_not_exist_is_theirs(bench, registry_of):
    with NpmRegistry() as registry:
        registry_of(registry.url)
        record = bench.grade({"package.json": package_json(nobody_has_this="1.0.0")})
    assert outcome(record) == ("failed", "package")
    assert "E404" in record.verdict.reason
    assert registry.asked


def test_a_version_that_does_not_exist_is_theirs(bench, registry_of):
    with NpmRegistry({"convex": ["1.0.0"]}) as registry:
        registry_of(registry.url)
        record = bench.grade()
    assert outcome(record) == ("failed", "package")
    assert "ETARGET" in record.verdict.reason


def test_a_registry_that_cannot_be_reached_is_ours(bench, registry_of):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listening
        registry_of(f"http://127.0.0.1:{closed.getsockname()[1]}/")
        record = bench.grade()
    assert outcome(record) == ("error", "registry")
    assert steps(record) == {"filesystem": "passed", "install": "error"}


def test_a_registry_that_is_down_is_ours(bench, registry_of):
    with NpmRegistry(status=503) as registry:
        registry_of(registry.url)
        assert outcome(bench.grade()) == ("error", "registry")


def test_a_project_without_convex_folder_fails_at_deploy(bench):
    record = bench.grade(without=("convex/schema.ts", "convex/notes.ts"))
    assert outcome(record) == ("failed", "push")
    assert steps(record)["deploy"] == "failed"


def test_a_push_that_the_backend_refuses_fails_at_deploy(bench):
    broken = ANSWER["convex/schema.ts"].replace("v.string() })", 'v.string() }).index("by_id", ["text"])')
    record = bench.grade({"convex/schema.ts": broken})
    assert outcome(record) == ("failed", "push")
    assert "by_id" in record.verdict.reason


def test_code_that_throws_at_import_fails_at_deploy(bench):
    record = bench.grade({"convex/notes.ts": NOTES + '\nthrow new Error("at import");\n'})
    assert outcome(record) == ("failed", "push")
    assert "at import" in record.verdict.reason


def test_code_that_cannot_be_bundled_fails_at_deploy(bench):
    record = bench.grade({"convex/more.ts": 'import { x } from "not-installed";\nexport const y = x;\n'})
    assert outcome(record) == ("failed", "push")


def test_a_type_error_fails_at_tsc_and_the_others_report_too(bench):
    record = bench.grade({"convex/notes.ts": NOTES + '\nexport const wrong: number = "text";\n'})
    assert outcome(record) == ("failed", "types")
    assert steps(record) | {"tsc": "failed", "tests": "passed"} == steps(record)
    assert re.search(r"convex/notes\.ts:\d+:\d+ TS2322", record.verdict.reason)


def test_a_floating_promise_fails_at_eslint_and_the_others_report_too(bench):
    floating = NOTES.replace(
        'await ctx.db.insert("notes", args)', '{ ctx.db.insert("notes", args); return await Promise.resolve(null); }'
    )
    record = bench.grade({"convex/notes.ts": floating})
    assert outcome(record) == ("failed", "lint")
    assert steps(record)["tsc"] == "passed"
    assert "no-floating-promises" in record.verdict.reason


@pytest.mark.parametrize(
    "switch",
    ["// @ts-nocheck\n", "/* eslint-disable */\n", "/* @ts-nocheck */\n"],
)
def test_comments_do_not_switch_checks_off(bench, switch):
    bad = switch + NOTES + '\n// @ts-ignore\nexport const wrong: number = "text";\nexport const loose: any = 1;\n'
    record = bench.grade({"convex/notes.ts": bad})
    assert {"tsc": "failed", "eslint": "failed"}.items() <= steps(record).items()


def test_a_tsconfig_above_the_run_store_decides_nothing(bench):
    paths = {"convex/server": ["./another.ts"], "convex/values": ["./another.ts"]}
    (bench.root / "tsconfig.json").write_text(json.dumps({"compilerOptions": {"paths": paths}}))
    (bench.root / "another.ts").write_text('throw new Error("from above");\n')
    assert outcome(bench.grade()) == ("passed", "")


def test_a_tsconfig_does_not_switch_checks_off(bench):
    config = json.dumps({"compilerOptions": {"strict": False, "noImplicitAny": False}, "include": []})
    loose = NOTES + "\nexport const loose = (x) => x;\n"
    record = bench.grade({"convex/tsconfig.json": config, "tsconfig.json": config, "convex/notes.ts": loose})
    assert outcome(record) == ("failed", "types")


def test_boilerplate_does_not_fail_types(bench):
    config = json.dumps({"compilerOptions": {"moduleResolution": "node10", "types": ["nobody"], "lib": ["es5"]}})
    uses = NOTES + '\nexport const where = process.env.PLACE ?? new URL("http://x.y").host;\n'
    record = bench.grade({"tsconfig.json": config, "convex/notes.ts": uses})
    assert outcome(record) == ("passed", "")


def test_an_exception_in_a_check_is_theirs(bench):
    record = bench.grade({"convex/notes.ts": NOTES.replace("take(100)", "take(0)")})
    assert outcome(record) == ("failed", "checks")
    assert [check.verdict.outcome for check in record.checks] == ["failed", "passed"]


def test_a_grader_that_does_not_import_is_ours(bench):
    record = bench.grade(grader="import nothing_of_this_name\n" + GRADER)
    assert outcome(record) == ("error", "grader")


def test_a_reference_that_does_not_deploy_is_ours(bench):
    asks = GRADER + "\n\ndef test_schema(app, reference):\n    assert app.schema() == reference.schema\n"
    record = bench.grade(grader=asks, answer={**ANSWER, "convex/notes.ts": 'throw new Error("x");\nexport {};\n'})
    assert outcome(record) == ("error", "reference")


def test_an_endless_loop_fails_its_check_and_no_other(bench):
    looping = NOTES.replace('await ctx.db.query("notes").take(100)', "{ for (;;) {} }")
    record = bench.grade({"convex/notes.ts": looping})
    assert outcome(record) == ("failed", "checks")
    assert [check.verdict.outcome for check in record.checks] == ["failed", "passed"]


def test_an_endless_loop_at_import_fails_at_deploy(bench):
    record = bench.grade({"convex/notes.ts": NOTES + "\nfor (;;) {}\n"})
    assert outcome(record) == ("failed", "push")


def test_a_submission_that_crashes_its_cage_twice_fails_as_crashed(bench):
    # A realm is no boundary: this is one of the known ways from a shared class to the process around it.
    shape = "{ constructor: (code: string) => () => { abort(): null } }"
    abort = f'(URL as unknown as {shape}).constructor("return process")().abort()'
    record = bench.grade({"convex/notes.ts": NOTES.replace('await ctx.db.query("notes").take(100)', abort)})
    assert {step.name: getattr(step.verdict, "cause", "") for step in record.steps}["tests"] == "crashed"
    assert outcome(record)[0] == "failed"
    assert record.attempt == 2
