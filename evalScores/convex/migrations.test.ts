import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { api, internal } from "./_generated/api";
import { backend, only, PASSED, rows, startRun, wholeRun } from "./test.setup";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a migration leaves rows alone that are as they should be", async () => {
  const t = await backend();
  const runId = await startRun(t, "r");
  const cell = { runId, evalPath: "a/b", category: "kept", name: "kept", repeat: 1, attempt: 1, status: { kind: "running" as const } };
  await t.run((ctx) => ctx.db.insert("evals", cell));
  await t.mutation(internal.migrations.runAll, {});
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  expect(await only(rows(t, "evals"))).toMatchObject(cell);
});

test("scores of an earlier version learn how new their suite is", async () => {
  const t = await backend();
  await wholeRun(t, "r", [PASSED, PASSED, PASSED, PASSED]);
  const before = await t.query(api.modelScores.leaderboard, {});
  const scores = await rows(t, "modelScores");
  await t.run(async (ctx) => {
    for (const { _id } of scores) await ctx.db.patch(_id, { fingerprint: undefined, suiteAt: undefined, mintedAt: undefined });
  });
  await t.mutation(internal.migrations.runAll, {});
  await t.finishAllScheduledFunctions(vi.runAllTimers);
  expect(await rows(t, "modelScores")).toEqual(scores);
  expect(await t.query(api.modelScores.leaderboard, {})).toEqual(before);
});
