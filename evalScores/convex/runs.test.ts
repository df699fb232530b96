import { afterEach, beforeEach, expect, test, vi } from "vitest";
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
  token,
  wholeRun,
} from "./test.setup";
import { addSuite, snapshot, upload } from "./test.setup";

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const HOUR = 3_600_000;
const kindOf = async (t: Awaited<ReturnType<typeof backend>>) => (await only(rows(t, "runs"))).status;

test("a run goes from pending over running to its verdict", async () => {
  const t = await backend();
  await startRun(t, "r");
  expect(await kindOf(t)).toEqual({ kind: "pending" });
  await t.mutation(api.admin.startEval, { token, runKey: "r", cell: { evalPath: EVALS[0] ?? "", repeat: 1, attempt: 1 } });
  expect(await kindOf(t)).toEqual({ kind: "running" });
  for (const path of EVALS) await finish(t, "r", path, result(PASSED));
  expect(await kindOf(t)).toEqual({ kind: "running" });
  await t.mutation(api.admin.completeRun, { token, runKey: "r", endedAt: 5 });
  expect(await kindOf(t)).toEqual({ kind: "passed" });
});

test("a run with a failure has failed, one without a verdict for each eval is an error and incomplete", async () => {
  const t = await backend();
  await wholeRun(t, "failed", [PASSED, FAILED, PASSED, FAILED]);
  await wholeRun(t, "error", [PASSED, ERROR, PASSED, PASSED]);
  await wholeRun(t, "short", [PASSED]);
  await wholeRun(t, "part", [PASSED], { plannedEvals: EVALS.slice(0, 1) });
  const found = (await rows(t, "runs")).map(({ key, complete, status }) => [
    key,
    complete,
    status.kind,
    "reason" in status ? status.reason : "",
  ]);
  expect(found).toEqual([
    ["failed", true, "failed", "2 of 4 evals failed"],
    ["error", false, "error", "1 of 4 evals have no verdict"],
    ["short", false, "error", "3 of 4 evals have no verdict"],
    ["part", false, "passed", ""],
  ]);
  expect((await rows(t, "modelScores")).map(({ runs, score }) => [runs, score])).toEqual([
    [1, 0.5],
    [1, 0.5],
  ]);
});

test("every repeat needs a verdict", async () => {
  const t = await backend();
  await startRun(t, "r", { repeats: 2 });
  for (const path of EVALS) await finish(t, "r", path, result(PASSED));
  expect((await only(rows(t, "runs"))).complete).toBe(false);
  for (const path of EVALS) await finish(t, "r", path, result(FAILED), 2);
  expect(await only(rows(t, "runs"))).toMatchObject({ complete: true, counts: { planned: 8, passed: 4, failed: 4 } });
});

test("what a run refers to must be there, and a refusal leaves nothing", async () => {
  const t = await backend();
  const before = await snapshot(t);
  const start = (changes: Partial<ReturnType<typeof runStart>>) =>
    refused(t.mutation(api.admin.startRun, { token, run: runStart("r", changes) }));
  expect((await start({ model: "unheard-of" })).code).toBe("unknown_model");
  expect((await start({ fingerprint: "unheard-of" })).code).toBe("unknown_suite");
  expect((await start({ plannedEvals: ["a/b"] })).code).toBe("unplanned_eval");
  expect((await start({ plannedEvals: [] })).code).toBe("invalid");
  expect((await start({ plannedEvals: [EVALS[0] ?? "", EVALS[0] ?? ""] })).code).toBe("invalid");
  expect((await start({ repeats: 0.5 })).code).toBe("invalid");
  expect((await start({ repeats: 1e9 })).code).toBe("too_large");
  expect((await start({ startedAt: Number.NaN })).code).toBe("invalid");
  expect((await start({ key: "k".repeat(501) })).code).toBe("too_large");
  for (const model of ["reference", "wrong:slug", "empty:no-files", "replay:abc"])
    expect((await start({ model })).code).toBe("not_a_model");
  expect((await refused(t.mutation(api.admin.heartbeat, { token, runKey: "nowhere", sentAt: 1 }))).code).toBe("unknown_run");
  expect((await refused(finish(t, "nowhere", EVALS[0] ?? "", result(PASSED)))).code).toBe("unknown_run");
  expect(await snapshot(t)).toEqual(before);
});

test("two sessions may report the same run; other settings under its key are refused", async () => {
  const t = await backend();
  expect(await startRun(t, "r")).toBe(await startRun(t, "r"));
  expect((await refused(startRun(t, "r", { gitCommit: "abc" }))).code).toBe("conflict");
});

test("the version of the backend may follow, in any order, and the first one that is told stays", async () => {
  const versions = [{ backend: { kind: "embedded", version: "" } }, { backend: { kind: "embedded", version: "1.2.3" } }];
  const made = [];
  for (const order of [versions, versions.toReversed(), [...versions, ...versions]]) {
    const t = await backend();
    for (const version of order) await startRun(t, "r", version);
    await startRun(t, "r", { backend: { kind: "embedded", version: "1.2.4" } });
    expect((await only(rows(t, "runs"))).backend).toEqual({ kind: "embedded", version: "1.2.3" });
    expect((await refused(startRun(t, "r", { backend: { kind: "local", version: "1.2.3" } }))).code).toBe("conflict");
    made.push(await snapshot(t));
  }
  expect(made[1]).toEqual(made[0]);
  expect(made[2]).toEqual(made[0]);
});

test("a session that goes on with a run may plan more, in any order, and nothing is taken out", async () => {
  const [first = "", ...others] = EVALS;
  const plans = [{ plannedEvals: [first] }, { plannedEvals: others, repeats: 2 }, { plannedEvals: [first, ...others] }];
  const made = [];
  for (const order of [plans, plans.toReversed(), [...plans, ...plans]]) {
    const t = await backend();
    for (const plan of order) await startRun(t, "r", plan);
    for (const path of EVALS) await finish(t, "r", path, result(PASSED));
    expect(await only(rows(t, "runs"))).toMatchObject({ complete: false, repeats: 2, counts: { planned: 8, passed: 4 } });
    for (const path of EVALS) await finish(t, "r", path, result(FAILED), 2);
    expect((await only(rows(t, "runs"))).complete).toBe(true);
    made.push(await snapshot(t));
  }
  expect(made[1]).toEqual(made[0]);
  expect(made[2]).toEqual(made[0]);
});

test("a complete run whose plan grows leaves the ranking until it is whole again", async () => {
  const t = await backend();
  await wholeRun(t, "r", [PASSED, PASSED, PASSED, PASSED]);
  expect(await rows(t, "modelScores")).toHaveLength(2);
  await startRun(t, "r", { repeats: 2 });
  expect(await rows(t, "modelScores")).toHaveLength(0);
  for (const path of EVALS) await finish(t, "r", path, result(FAILED), 2);
  expect((await rows(t, "modelScores")).map(({ score }) => score)).toEqual([0.5, 0.5]);
});

test("a clock that runs ahead does not make a run the newest for ever", async () => {
  const t = await backend();
  await startRun(t, "r", { startedAt: Date.UTC(2099, 0, 1) });
  expect((await only(rows(t, "runs"))).startedAt).toBe(Date.now());
});

test("a run that has been silent for three hours ends, of whatever age, with its stuck cells", async () => {
  const t = await backend();
  await startRun(t, "old");
  const cell = { evalPath: EVALS[0] ?? "", repeat: 1, attempt: 1 };
  await t.mutation(api.admin.startEval, { token, runKey: "old", cell });
  vi.advanceTimersByTime(400 * 24 * HOUR);
  await startRun(t, "alive");
  vi.advanceTimersByTime(2 * HOUR);
  await t.mutation(api.admin.heartbeat, { token, runKey: "alive", sentAt: 7 });
  vi.advanceTimersByTime(2 * HOUR);
  await t.mutation(internal.runs.abandonSilentRuns, {});
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  const [old, alive] = await rows(t, "runs");
  expect(old).toMatchObject({ status: { kind: "error", cause: "abandoned" }, counts: { running: 0, error: 1 } });
  expect(await only(rows(t, "evals"))).toMatchObject({ status: { kind: "error", cause: "unfinished" } });
  expect(alive?.status).toEqual({ kind: "pending" });
});

test("cells that are running end with their run, whichever comes first, in batches", async () => {
  const t = await backend();
  const runId = await startRun(t, "r", { repeats: 200 });
  const cells = EVALS.slice(0, 3).flatMap((evalPath) => Array.from({ length: 150 }, (_, n) => ({ evalPath, repeat: n + 1, attempt: 1 })));
  for (const cell of cells) await t.mutation(api.admin.startEval, { token, runKey: "r", cell });
  await t.mutation(api.admin.completeRun, { token, runKey: "r", endedAt: 5 });
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  await t.mutation(api.admin.startEval, { token, runKey: "r", cell: { evalPath: EVALS[3] ?? "", repeat: 1, attempt: 1 } });
  expect((await t.query(api.runs.get, { runId }))?.counts).toEqual({ planned: 800, running: 0, passed: 0, failed: 0, error: 451 });
  for (const { status } of await rows(t, "evals")) expect(status).toMatchObject({ kind: "error", cause: "unfinished" });
});

test("an abandoned run takes late results, and a newer heartbeat revives it", async () => {
  const t = await backend();
  await startRun(t, "r");
  await t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt: 10 });
  vi.advanceTimersByTime(4 * HOUR);
  await t.mutation(internal.runs.abandonSilentRuns, {});
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  await t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt: 10 });
  expect((await kindOf(t)).kind).toBe("error");
  await t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt: 11 });
  expect(await kindOf(t)).toEqual({ kind: "pending" });
  vi.advanceTimersByTime(4 * HOUR);
  await t.mutation(internal.runs.abandonSilentRuns, {});
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  for (const path of EVALS) await finish(t, "r", path, result(PASSED));
  expect(await only(rows(t, "runs"))).toMatchObject({ status: { kind: "passed" }, complete: true });
});

test("a heartbeat from the future does not silence those that come later", async () => {
  const t = await backend();
  await startRun(t, "r");
  const beat = (sentAt: number) => t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt });
  await beat(Date.now() + 24 * HOUR);
  for (let hour = 0; hour < 5; hour++) {
    vi.advanceTimersByTime(HOUR);
    await beat(Date.now() - 1_000);
    await t.mutation(internal.runs.abandonSilentRuns, {});
    await t.finishAllScheduledFunctions(vi.runAllTimers);
    expect(await kindOf(t)).toEqual({ kind: "pending" });
  }
});

test("a deletion that ended too early goes on when it is asked for again", async () => {
  const t = await backend();
  const runId = await wholeRun(t, "gone", [PASSED, FAILED, PASSED, PASSED]);
  await t.run(async (ctx) => {
    const run = await ctx.db.get(runId);
    if (run === null) throw new Error("there is no run");
    const { key, modelId, experimentId, startedAt } = run;
    await ctx.db.insert("deletedRuns", { key, runId, modelId, experimentId, startedAt, reason: "test", deletedBy: "test" });
    await ctx.db.delete(runId);
  });
  await t.mutation(api.admin.deleteRun, { token, runKey: "gone", reason: "test" });
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  for (const table of ["evals", "steps", "checks"] as const) expect(await rows(t, table)).toEqual([]);
});

test("a deleted run takes everything with it but shared files, and does not come back", async () => {
  const t = await backend();
  const shared = await upload(t, [{ path: "TASK.txt", text: "Write it" }]);
  const common = await upload(t, [{ path: "a.ts", text: "common" }]);
  const own = await upload(t, [{ path: "a.ts", text: "own" }]);
  await startRun(t, "kept");
  await finish(t, "kept", EVALS[0] ?? "", result(PASSED, { source: shared, output: common }));
  const before = await snapshot(t);
  await wholeRun(t, "gone", [PASSED, FAILED, PASSED]);
  await finish(t, "gone", EVALS[3] ?? "", result(PASSED, { source: shared, output: own }));
  await finish(t, "gone", EVALS[2] ?? "", result(PASSED, { source: shared, output: common }), 1, 2);
  expect(await rows(t, "modelScores")).toHaveLength(2);
  for (let time = 0; time < 2; time++) await t.mutation(api.admin.deleteRun, { token, runKey: "gone", reason: "a broken grader" });
  expect(await rows(t, "modelScores")).toEqual([]);
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  const { deletedRuns, assets, ...rest } = await snapshot(t);
  expect(deletedRuns).toHaveLength(1);
  expect(assets).toEqual(before["assets"]?.filter((row) => !row.includes(own)));
  expect(rest).toEqual(Object.fromEntries(Object.entries(before).filter(([table]) => table in rest)));
  const files = await t.run((ctx) => ctx.db.system.query("_storage").collect());
  expect(files).toHaveLength(2);
  expect((await refused(startRun(t, "gone"))).code).toBe("run_deleted");
  expect((await refused(finish(t, "gone", EVALS[0] ?? "", result(PASSED)))).code).toBe("run_deleted");
});

test("runs are listed with what people know them by", async () => {
  const t = await backend();
  await addSuite(t, "f2", EVALS, [{ name: "prompt", hash: "2" }]);
  await t.mutation(api.admin.mintVersion, { token, fingerprint: "f2", name: "v2" });
  await startRun(t, "first");
  const second = await startRun(t, "second", { fingerprint: "f2" });
  const paginationOpts = { numItems: 10, cursor: null };
  const { page } = await t.query(api.runs.list, { paginationOpts, model: "gpt-5" });
  expect(page.map(({ key, model, version, fingerprint }) => [key, model, version, fingerprint])).toEqual([
    ["second", "gpt-5", "v2", "f2"],
    ["first", "gpt-5", null, "f1"],
  ]);
  expect(await t.query(api.runs.get, { runId: second })).toEqual(page[0]);
  expect((await refused(t.query(api.runs.list, { paginationOpts, model: "nobody" }))).code).toBe("unknown_model");
});
