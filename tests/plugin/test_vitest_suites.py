"""Suites in the vitest layout: graded as they are, with the verdicts that Python graders of the same meaning give."""

from __future__ import annotations

import json

import pytest

from pytest_convex_evals.grading.steps import vitest as step
from pytest_convex_evals.records import CellRecord
from tests.support.cages import available, without_a_cage
from tests.support.sessions import Project
from tests.support.suites import write_tree
from tests.support.vitest_suites import EVERYTHING, HOME, TWIN, add_wrong, copy_suite, copy_twins, static_eval

QUICK = "000-notes or live_counter or 001-fetch or 002-static or node_sockets"
"""What `make test` has time for; `make vitest` grades all."""


def verdicts(record: CellRecord) -> dict[str, str]:
    return {one.name: one.verdict.outcome for one in record.steps}


def test_every_reference_and_every_wrong_submission_gets_the_verdict_of_its_twin(project: Project) -> None:
    """The suite beside its twin, in one session: all cells end as they must, and the steps agree."""
    theirs, ours = copy_suite(project.root / "theirs"), copy_twins(project.root / "ours" / "evals")
    add_wrong(theirs, "vitest")
    add_wrong(ours, "python", prefix=TWIN)
    (project.root / "theirs" / "eslint.config.mjs").unlink()
    chosen = [] if EVERYTHING else ["-k", QUICK]
    done = project.here(str(theirs), str(ours), "--models", "reference,wrong", "-q", *chosen)
    assert done.code == 0, done.output
    found = [event["record"] for event in done.events if event["event"] == "cell_finished"]
    graded = {(one["eval"], one["model"]): CellRecord.model_validate(one) for one in found}
    pairs = [(key, record) for key, record in graded.items() if not key[0].startswith(TWIN)]
    assert len({eval_id for (eval_id, _), _ in pairs}) >= (12 if EVERYTHING else 5)
    assert len(pairs) == len(graded) / 2
    for (eval_id, model), record in pairs:
        assert verdicts(record) == verdicts(graded[f"{TWIN}{eval_id}", model]), (eval_id, model)
    skipped = graded["002-static/000-choose_rate_limiter", "wrong:not_installed"].checks
    assert [(check.name, check.verdict.outcome) for check in skipped] == [
        ("nothing is deployed", "passed"),
        ("installs the component", "failed"),
        ("uses it", "failed"),
    ]
    notes = graded["000-basics/000-notes", "reference"].checks
    assert [check.name for check in notes][:2] == [
        "like the answer > compare schema",
        "like the answer > compare function spec",
    ]
    assert all(check.duration_s > 0 for check in notes)


BAD_GRADERS = {
    "does_not_compile": ('import { test } from "vitest";\ntest("a", () => {\n', "grader", "grader.test.ts"),
    "imports_what_nobody_has": (
        'import { test } from "vitest";\nimport "a-package-that-nobody-has";\ntest("a", () => {});\n',
        "grader",
        "a-package-that-nobody-has",
    ),
    "needs_the_shared_folder": (
        'import { test } from "vitest";\nimport { client } from "../../../grader";\ntest("a", () => client);\n',
        "grader",
        "../../../grader",
    ),
    "throws_at_the_top": (
        'import { test } from "vitest";\nthrow new Error("oh no");\ntest("a", () => {});\n',
        "grader",
        "oh no",
    ),
    "registers_no_test": ('import "vitest";\n', "grader", "registers no test"),
    "exits": ('import { test } from "vitest";\ntest("a", () => process.exit(3));\n', "grader", "process.exit(3)"),
    "exits_at_the_top": (
        'import { test } from "vitest";\nprocess.exit();\ntest("a", () => {});\n',
        "grader",
        "process.exit(0)",
    ),
    "aborts": ('import { test } from "vitest";\ntest("a", () => process.abort());\n', "grader", "SIGABRT"),
    "never_ends": (
        'import { test } from "vitest";\ntest("a", () => { for (;;); });\n',
        "grader_timeout",
        "did not end within",
    ),
}
GOOD_GRADERS = {
    "prints_a_megabyte": (
        'import { test } from "vitest";\n'
        'test("a", () => { for (let i = 0; i < 1024; i++) console.log("x".repeat(1024)); });\n',
        "passed",
        "",
    ),
    "hangs_in_a_test": (
        'import { test } from "vitest";\ntest("a", () => new Promise(() => {}), 200);\ntest("b", () => {});\n',
        "failed",
        "Test timed out in 200ms",
    ),
    "plans_only": ('import { test } from "vitest";\ntest("a", () => {});\ntest.todo("b");\n', "failed", "not passed"),
    "prepares_in_vain": (
        'import { beforeAll, test } from "vitest";\n'
        'beforeAll(() => { throw new Error("no data"); });\ntest("a", () => {});\n',
        "failed",
        "no data",
    ),
    "loads_what_is_wrong": (
        'import { test } from "vitest";\n'
        'await import(process.env.MODEL_OUTPUT_DIR + "/convex/wrong.ts");\ntest("a", () => {});\n',
        "failed",
        "a file of the submission",
    ),
    "leaves_things_behind": (
        'import { createServer } from "node:http";\nimport { test } from "vitest";\n'
        'createServer().listen(0);\nsetInterval(() => {}, 1000);\ntest("a", () => {});\ntest("a", () => {});\n',
        "passed",
        "",
    ),
}
ANSWER_WANTED = """\
import { test } from "vitest";
test.skipIf(!process.env.CONVEX_ANSWER_PORT)("a", () => {});
"""


def test_graders_that_cannot_be_used_are_errors_with_words_and_others_decide(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "STEP_S", 6.0)
    for name, (grader, *_) in (BAD_GRADERS | GOOD_GRADERS).items():
        static_eval(project.root, f"000-{name}", grader, answer={"convex/wrong.ts": "export const x: = 1;\n"})
    broken = {"convex/main.ts": 'export const x = ;\nimport "convex/server";\n'}
    static_eval(project.root, "001-answer_does_not_push", ANSWER_WANTED, answer=broken, pipeline="full")
    done = project.here("evals", "--models", "reference", "-q")
    found = {name.partition("[")[0][4:]: record for name, record in done.records.items()}
    for name, (_, cause, words) in BAD_GRADERS.items():
        verdict = found[name].verdict
        assert (verdict.outcome, getattr(verdict, "cause", "")) == ("error", cause), (name, verdict)
        assert words in verdict.reason, (name, verdict)
        assert verdict.remedy, name
    for name, (_, outcome, words) in GOOD_GRADERS.items():
        verdict = found[name].verdict
        assert verdict.outcome == outcome, (name, verdict)
        assert words in getattr(verdict, "reason", ""), (name, verdict)
    assert [check.name for check in found["leaves_things_behind"].checks] == ["a", "a (2)"]
    verdict = found["answer_does_not_push"].verdict
    assert (verdict.outcome, verdict.cause) == ("error", "reference"), verdict
    (log,) = project.store.glob("runs/*/cells/*/000-prints_a_megabyte/reference/1/1/tests.log")
    assert 2**15 < log.stat().st_size < 2**17


PRYING_GRADER = """\
import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import { anyApi } from "convex/server";
import { ConvexHttpClient } from "convex/browser";
import { expect, test } from "vitest";

const client = new ConvexHttpClient(`http://localhost:${process.env.CONVEX_PORT}`);

test("the environment is that of the layout", () => {
  const own = /^(VITEST.*|NODE_ENV|TEST|MODE|DEV|PROD|SSR|BASE_URL|TZ|PWD|_|SHLVL|OLDPWD)$/;
  expect(Object.keys(process.env).filter((name) => !own.test(name)).sort()).toEqual(
    ["CONVEX_ANSWER_PORT", "CONVEX_PORT", "CONVEX_SITE_PORT", "MODEL_OUTPUT_DIR"]);
});

test("there is nothing to read but what is needed", () => {
  expect(() => readdirSync("/root")).toThrow();
  expect(() => readdirSync("/home")).toThrow();
});

test("the reference is there for the grader", async () => {
  expect((await fetch(`http://localhost:${process.env.CONVEX_ANSWER_PORT}/version`)).status).toBe(200);
});

for (const way of ["fetched", "connected"]) {
  test(`the reference is not there for what is ${way}`, async () => {
    const port = Number(process.env.CONVEX_ANSWER_PORT);
    expect(await client.action(anyApi[way].reach, { port })).toBe("no");
    const server = createServer((_request, response) => response.end("hello"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    expect(await client.action(anyApi[way].reach, { port: (server.address() as { port: number }).port })).toBe("yes");
    server.close();
  });
}

test("nobody else can be seen, and the grader cannot be ended", async () => {
  expect(await client.action(anyApi.connected.pry, { pid: process.pid })).toEqual([]);
});
"""
PRYING = {
    "convex/fetched.ts": """\
import { v } from "convex/values";
import { action } from "./_generated/server";

export const reach = action({
  args: { port: v.number() },
  handler: async (_ctx, { port }): Promise<string> =>
    await fetch(`http://localhost:${port}/version`).then(() => "yes", () => "no"),
});
""",
    "convex/connected.ts": """\
"use node";

import { connect } from "node:net";
import { readdirSync } from "node:fs";
import { v } from "convex/values";
import { action } from "./_generated/server";

export const reach = action({
  args: { port: v.number() },
  handler: async (_ctx, { port }): Promise<string> =>
    await new Promise((resolve) => {
      const socket = connect({ port, host: "127.0.0.1" });
      socket.on("connect", () => resolve("yes"));
      socket.on("error", () => resolve("no"));
    }),
});

export const pry = action({
  args: { pid: v.number() },
  handler: async (): Promise<string[]> => {
    const seen: string[] = [];
    for (const folder of ["/proc", "/root", "/home", "/cage/answer", "/cage/ask"]) {
      try {
        seen.push(...readdirSync(folder).filter((name) => name !== "self"));
      } catch {
        // As it should be.
      }
    }
    for (let pid = 2; pid < 100; pid++) {
      try {
        process.kill(pid, "SIGKILL"); // Threads of this process have numbers, too; a first process ignores it.
      } catch {
        // Nobody there.
      }
    }
    return await Promise.resolve(seen);
  },
});
""",
}


@pytest.mark.skipif(without_a_cage(), reason="the loopback interface of the machine is shared")
@pytest.mark.parametrize("level", ["bwrap", "namespaces"] if EVERYTHING else available()[:1])
def test_submitted_code_meets_the_grader_only_on_its_loopback(project: Project, level: str) -> None:
    project.env(OPENAI_API_KEY="sk-must-not-be-seen")
    static_eval(project.root, "000-prying", PRYING_GRADER, answer=PRYING, pipeline="full")
    done = project.here("evals", "--models", "reference", "-q", "--evals-sandbox", level)
    (record,) = done.records.values()
    assert (record.verdict.outcome, record.sandbox) == ("passed", level), record.verdict


def test_a_fixture_is_reached_where_nothing_cuts_the_network(project: Project) -> None:
    copy_suite(project.root / "theirs")
    done = project.here("theirs/evals", "--models", "reference", "-q", "-k", "001-http", "--evals-sandbox", "node")
    assert done.code == 0, done.output
    assert {record.sandbox for record in done.records.values()} == {"node"}


def test_a_config_that_cannot_be_loaded_is_the_suites_trouble(project: Project) -> None:
    evals = copy_suite(project.root / "theirs")
    (evals.parent / "eslint.config.mjs").write_text('import "a-plugin-that-nobody-has";\nexport default [];\n')
    done = project.here("theirs/evals", "--models", "reference", "-q", "-k", "006-time and 001-crons")
    (record,) = done.records.values()
    assert (record.verdict.outcome, record.verdict.cause) == ("error", "eval")
    assert "a-plugin-that-nobody-has" in record.verdict.reason


def test_every_wrong_submission_names_checks_of_both_graders() -> None:
    for told in HOME.glob("wrong/*/*/*/why.json"):
        why = json.loads(told.read_text(encoding="utf-8"))
        assert (why["step"] == "tests") == bool(why["vitest"]) == bool(why["python"]), told


INSTALLED_GRADER = """\
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { z } from "zod";
import { own } from "own-package";
import old from "old-package";
import { linked } from "@scope/linked";
import { shared } from "../../../grader";
test("what is installed counts", () => {
  expect([own, old.value, linked, shared, z]).toEqual(["own", "old", "linked", "own", "the suite's zod"]);
  expect(createRequire(import.meta.url)("old-package").value).toBe("old");
});
test("what is not comes from the toolchain", async () => {
  expect(typeof (await import("convex/browser")).ConvexClient).toBe("function");
});
"""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in the suite", "linked to a folder elsewhere"])
def test_packages_that_the_suite_has_installed_come_before_ours(project: Project, elsewhere: bool) -> None:
    static_eval(project.root, "000-installed", INSTALLED_GRADER)
    packages = project.root / ("installed" if elsewhere else "node_modules")
    modern = '{ "name": "%s", "version": "1.0.0", "type": "module", "exports": "./index.js" }'
    hidden = ".bun/linked@1.0.0/node_modules/@scope/linked"
    files = {
        "own-package/package.json": modern % "own-package",
        "own-package/index.js": 'export const own = "own";\n',
        "old-package/package.json": '{ "name": "old-package", "version": "1.0.0", "main": "main.js" }',
        "old-package/main.js": 'exports.value = "old";\n',
        "zod/package.json": modern % "zod",
        "zod/index.js": 'export const z = "the suite\'s zod";\n',
        f"{hidden}/package.json": modern % "@scope/linked",
        f"{hidden}/index.js": 'export const linked = "linked";\n',
    }
    write_tree(packages, files)
    (packages / "@scope").mkdir()
    (packages / "@scope" / "linked").symlink_to(f"../{hidden}", target_is_directory=True)
    if elsewhere:
        (project.root / "node_modules").symlink_to(packages, target_is_directory=True)
    write_tree(
        project.root / "grader", {"index.ts": 'import { own } from "own-package";\nexport const shared = own;\n'}
    )
    done = project.here("evals", "--models", "reference", "-q")
    assert done.code == 0, done.output
