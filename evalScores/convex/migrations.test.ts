import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { internal } from "./_generated/api";
import { backend, only, rows, startRun } from "./test.setup";

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
