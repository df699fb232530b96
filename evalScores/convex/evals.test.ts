import { expect, test } from "vitest";
import { api, internal } from "./_generated/api";
import {
  backend,
  ERROR,
  EVALS,
  FAILED,
  finish,
  only,
  PASSED,
  refused,
  result,
  rows,
  runStart,
  startRun,
  testsStep,
  token,
} from "./test.setup";
import { addSuite, snapshot, upload, type Backend } from "./test.setup";
import type { Step } from "./validators";

const PATH = EVALS[0] ?? "";
const cell = { evalPath: PATH, repeat: 1, attempt: 1 };

test("a result is kept with its steps and checks, and counted", async () => {
  const t = await backend();
  await startRun(t, "r");
  const evalId = await finish(t, "r", PATH, result(FAILED));
  const found = await t.query(api.evals.get, { evalId });
  expect(found).toMatchObject({ evalPath: PATH, category: "000-basics", name: "000-empty", status: FAILED });
  expect(found?.steps.map(({ name, checks }) => [name, checks.map((check) => [check.name, check.verdict.kind])])).toEqual([
    ["deploy", []],
    [
      "tests",
      [
        ["test_schema", "passed"],
        ["test_answer", "failed"],
      ],
    ],
  ]);
  const { counts, categories, totals } = await only(rows(t, "runs"));
  expect(counts).toEqual({ planned: 4, running: 0, passed: 0, failed: 1, error: 0 });
  expect(categories).toEqual([{ category: "000-basics", passed: 0, failed: 1 }]);
  expect(totals).toEqual({ costNanoUsd: 1e8, unknownCosts: 0, generationMs: 2_000, unknownGenerations: 0 });
});

test("a step for a finished cell changes nothing", async () => {
  const t = await backend();
  await startRun(t, "r");
  await t.mutation(api.admin.reportStep, { token, runKey: "r", cell, step: testsStep(FAILED) });
  expect(await rows(t, "checks")).toHaveLength(2);
  await finish(t, "r", PATH, result(PASSED));
  const finished = await snapshot(t);
  expect(finished["steps"]).toHaveLength(2);
  await t.mutation(api.admin.reportStep, { token, runKey: "r", cell, step: testsStep(FAILED) });
  await t.mutation(api.admin.startEval, { token, runKey: "r", cell });
  await t.mutation(api.admin.startEval, { token, runKey: "r", cell: { ...cell, attempt: 2 } });
  expect(await snapshot(t)).toEqual(finished);
});

test("a step that is reported again is the same or refused", async () => {
  const t = await backend();
  await startRun(t, "r");
  const send = (step: Step) => t.mutation(api.admin.reportStep, { token, runKey: "r", cell, step });
  await send(testsStep(FAILED));
  const before = await snapshot(t);
  await send(testsStep(FAILED));
  expect((await refused(send(testsStep(PASSED)))).code).toBe("conflict");
  expect((await refused(send({ ...testsStep(FAILED), checks: [] }))).code).toBe("conflict");
  expect(await snapshot(t)).toEqual(before);
});

test("a higher attempt replaces a lower one, whichever comes first", async () => {
  const t = await backend();
  const output = await upload(t, [{ path: "a.ts", text: "first" }]);
  const source = await upload(t, [{ path: "TASK.txt", text: "Write it" }]);
  await startRun(t, "r");
  await finish(t, "r", PATH, result(ERROR, { output, source }));
  await finish(t, "r", PATH, result(PASSED), 1, 3);
  await finish(t, "r", PATH, result(FAILED), 1, 2);
  expect(await only(rows(t, "evals"))).toMatchObject({ attempt: 3, status: PASSED });
  expect((await only(rows(t, "runs"))).counts).toMatchObject({ passed: 1, failed: 0, error: 0 });
  expect(await rows(t, "checks")).toHaveLength(2);
  expect(await rows(t, "assets")).toEqual([]);
});

test("another result under the same key is refused", async () => {
  const t = await backend();
  await startRun(t, "r");
  await finish(t, "r", PATH, result(PASSED));
  expect((await refused(finish(t, "r", PATH, result(FAILED)))).code).toBe("conflict");
  expect((await only(rows(t, "evals"))).status).toEqual(PASSED);
});

test("cells outside the plan, unknown files and broken numbers are refused", async () => {
  const t = await backend();
  await startRun(t, "r", { plannedEvals: EVALS.slice(0, 2) });
  const before = await snapshot(t);
  expect((await refused(finish(t, "r", EVALS[3] ?? "", result(PASSED)))).code).toBe("unplanned_eval");
  expect((await refused(finish(t, "r", PATH, result(PASSED), 2))).code).toBe("unplanned_eval");
  expect((await refused(finish(t, "r", PATH, result(PASSED), 1, 0))).code).toBe("invalid");
  expect((await refused(finish(t, "r", PATH, result(PASSED, { output: "0".repeat(64) })))).code).toBe("unknown_asset");
  expect((await refused(finish(t, "r", PATH, result(PASSED, { gradingMs: -1 })))).code).toBe("invalid");
  const twice = [testsStep(PASSED), testsStep(PASSED)];
  expect((await refused(finish(t, "r", PATH, result(PASSED, { steps: twice })))).code).toBe("invalid");
  const many = Array.from({ length: 1_001 }, (_, n) => ({ name: `t${n}`, verdict: PASSED, durationMs: 1, detail: "" }));
  expect((await refused(finish(t, "r", PATH, result(PASSED, { steps: [{ ...testsStep(PASSED), checks: many }] })))).code).toBe("too_large");
  expect(await snapshot(t)).toEqual(before);
});

test("a huge failure text is cut, says so, and does not cost the verdict", async () => {
  const t = await backend();
  await startRun(t, "r");
  const reason = "x".repeat(15_999) + "😀".repeat(500_000);
  const checks = Array.from({ length: 300 }, (_, n) => ({
    name: `t${n}`,
    verdict: { ...FAILED, reason },
    durationMs: 1,
    detail: "d".repeat(20_000),
  }));
  const failed = { kind: "failed" as const, cause: "checks", reason };
  await finish(t, "r", PATH, result(failed, { steps: [{ name: "tests", verdict: failed, durationMs: 1, checks: checks.slice(0, 3) }] }));
  const { status } = await only(rows(t, "evals"));
  expect("reason" in status && status.reason).toBe("x".repeat(15_999) + "\n… 1000000 more characters");
  const short = checks.map((check) => ({ ...check, verdict: FAILED }));
  await finish(t, "r", PATH, result(failed, { steps: [{ name: "tests", verdict: FAILED, durationMs: 1, checks: short }] }), 1, 2);
  const kept = await rows(t, "checks");
  expect(kept).toHaveLength(300);
  expect(kept.reduce((sum, check) => sum + check.detail.length, 0)).toBeLessThan(2_100_000);
  expect(kept.at(-1)?.detail).toBe("\n… 20000 more characters");
});

/** The calls of a whole upload, each a key of its own. */
function uploadCalls(t: Backend, outputs: string[]): (() => Promise<unknown>)[] {
  const verdicts = [PASSED, FAILED, PASSED, ERROR, FAILED, PASSED, PASSED, PASSED];
  const cells = EVALS.flatMap((evalPath) => [1, 2].map((repeat) => ({ evalPath, repeat, attempt: 1 })));
  const usage = (n: number) => ({ ...result(PASSED).usage, costUsd: n === 5 ? null : 0.1 * n + 0.01 });
  const finished = cells.map((done, n) => ({
    cell: done,
    result: result(verdicts[n] ?? PASSED, { usage: usage(n), generationMs: 1000 / (n + 3), output: outputs[n % outputs.length] }),
  }));
  const regraded = { cell: { ...finished[3]!.cell, attempt: 2 }, result: result(PASSED, { usage: usage(3) }) };
  return [
    ...finished.map(
      ({ cell: begun }) =>
        () =>
          t.mutation(api.admin.startEval, { token, runKey: "r", cell: begun }),
    ),
    ...finished.map(
      ({ cell: begun }) =>
        () =>
          t.mutation(api.admin.reportStep, { token, runKey: "r", cell: begun, step: testsStep(FAILED) }),
    ),
    ...[...finished, regraded].map((sent) => () => t.mutation(api.admin.finishEval, { token, runKey: "r", ...sent })),
    ...[1, 2, 3].map((sentAt) => () => t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt })),
    () => t.mutation(api.admin.completeRun, { token, runKey: "r", endedAt: 9 }),
    () => t.mutation(api.admin.startRun, { token, run: runStart("r", { repeats: 2 }) }),
    () => t.mutation(api.admin.ensureModel, { token, slug: "gpt-5", displayName: "GPT-5", provider: "openai" }),
    () => addSuite(t, "f1"),
  ];
}

function shuffled<Item>(items: Item[], seed: number): Item[] {
  let state = seed;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

test("a whole upload delivered three times in any order makes the same database", async () => {
  const databases = [];
  for (const seed of [0, 1, 22, 333]) {
    const t = await backend();
    const outputs = [await upload(t, [{ path: "a.ts", text: "a" }]), await upload(t, [{ path: "a.ts", text: "b" }])];
    await startRun(t, "r", { repeats: 2 });
    const calls = uploadCalls(t, outputs);
    const delivered = seed === 0 ? calls : shuffled([...calls, ...calls, ...calls], seed);
    for (const call of delivered) await call();
    databases.push(await snapshot(t));
  }
  expect(databases[0]?.["evals"]).toHaveLength(8);
  expect(databases[0]?.["modelScores"]).toHaveLength(2);
  for (const database of databases) expect(database).toEqual(databases[0]);
});

test("failures of a run and everything about one of them, for analysis", async () => {
  const t = await backend();
  const source = await upload(t, [
    { path: "TASK.txt", text: "Write a backend" },
    { path: "grader.py", text: "pass" },
  ]);
  const output = await upload(t, [{ path: "convex/a.ts", text: "export {}" }]);
  const runId = await startRun(t, "r");
  const evalId = await finish(t, "r", PATH, result(FAILED, { source, output }));
  await finish(t, "r", EVALS[1] ?? "", result(PASSED));
  await finish(t, "r", EVALS[2] ?? "", result(ERROR));
  const failures = await t.query(internal.debugQueries.getFailedEvalsForRun, { runId });
  expect(failures).toMatchObject({ run: { key: "r", model: "gpt-5" }, totalEvals: 4, passedCount: 1, failedCount: 1, isTruncated: false });
  expect(failures.failedEvals).toEqual([
    { _id: evalId, evalPath: PATH, category: "000-basics", name: "000-empty", failureReason: "1 of 2 checks failed", failedStep: "tests" },
  ]);
  await t.run((ctx) => ctx.db.patch(evalId, { failedStep: undefined }));
  expect(await t.query(internal.debugQueries.getFailedEvalsForRun, { runId })).toEqual(failures);
  const info = await t.action(internal.debug.getEvalDebugInfo, { evalId });
  expect(info).toMatchObject({ eval: { _id: evalId, task: "Write a backend" }, outputFiles: [{ path: "convex/a.ts", text: "export {}" }] });
  expect(info.eval.steps[1]?.checks).toHaveLength(2);
  expect(info.evalSourceFiles.map(({ path }) => path)).toEqual(["TASK.txt", "grader.py"]);
});
