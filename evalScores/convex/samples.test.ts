import { expect, test } from "vitest";
import { api } from "./_generated/api";
import { sha256Hex } from "./input";
import { addAnswer, NO_ANSWERS } from "./samples";
import { addSuite, backend, EVALS, FAILED, finish, PASSED, refused, result, rows, startRun, token, type Backend } from "./test.setup";
import type { RunStart, Verdict } from "./validators";

/** A run of the whole suite whose answers have these names. */
async function answered(t: Backend, key: string, names: string[], changes: Partial<RunStart> = {}, verdict: Verdict = PASSED) {
  await startRun(t, key, changes);
  for (const [index, path] of EVALS.entries()) {
    const name = names[index];
    if (name !== undefined) await finish(t, key, path, result(verdict, { answer: await sha256Hex(name) }));
  }
}

const board = async (t: Backend) => (await t.query(api.modelScores.leaderboard, {})).rows.map(({ runs, trials, score }) => [runs, trials, score]);
const pooled = async (t: Backend) => (await t.query(api.modelScores.pooled, {})).rows.map(({ runs, trials, score }) => [runs, trials, score]);
const [OLD, NEW] = [
  ["a", "b", "c", "d"],
  ["a", "b", "c", "e"],
];

test("answers come and go in any order", async () => {
  const hashes = await Promise.all(["a", "b", "c"].map(sha256Hex));
  const sum = (order: string[]) => order.reduce((answers, hash) => addAnswer(answers, hash, 1), NO_ANSWERS);
  expect(sum(hashes.toReversed())).toEqual(sum(hashes));
  expect(sum(hashes).sum).toHaveLength(64);
  expect(hashes.reduce((answers, hash) => addAnswer(answers, hash, -1), sum(hashes))).toEqual(NO_ANSWERS);
});

test("the same answers graded again are one sample, of which the newest run counts", async () => {
  const t = await backend();
  await answered(t, "r1", OLD, { startedAt: 1 });
  await answered(t, "r3", OLD, { startedAt: 3 }, FAILED);
  await answered(t, "r2", OLD, { startedAt: 2 });
  expect(await board(t)).toEqual([[1, 4, 0]]);
  expect((await rows(t, "runs")).filter(({ duplicate }) => !duplicate).map(({ key }) => key)).toEqual(["r3"]);
  await answered(t, "r4", NEW, { startedAt: 4 });
  expect(await board(t)).toEqual([[2, 8, 0.5]]);
  await t.mutation(api.admin.deleteRun, { token, runKey: "r3", reason: "test" });
  expect(await board(t)).toEqual([[2, 8, 1]]);
  await t.mutation(api.admin.deleteRun, { token, runKey: "r1", reason: "test" });
  await t.mutation(api.admin.deleteRun, { token, runKey: "r2", reason: "test" });
  expect(await board(t)).toEqual([[1, 4, 1]]);
});

test("many runs of the same answers hide no other sample", async () => {
  const t = await backend();
  await answered(t, "other", NEW, { startedAt: 1 }, FAILED);
  for (let n = 0; n < 15; n++) await answered(t, `r${n}`, OLD, { startedAt: 10 + n });
  expect(await board(t)).toEqual([[2, 8, 0.5]]);
});

test("answers of a run that was never completed still count", async () => {
  const t = await backend();
  await answered(t, "killed", OLD.slice(0, 3));
  await answered(t, "whole", OLD);
  expect(await board(t)).toEqual([[1, 4, 1]]);
});

test("a run with other answers after all counts again", async () => {
  const t = await backend();
  await answered(t, "r1", OLD, { startedAt: 1 });
  await answered(t, "r2", OLD, { startedAt: 2 });
  expect(await board(t)).toEqual([[1, 4, 1]]);
  await finish(t, "r2", EVALS[3] ?? "", result(PASSED, { answer: await sha256Hex("e") }), 1, 2);
  expect(await board(t)).toEqual([[2, 8, 1]]);
  await finish(t, "r2", EVALS[3] ?? "", result(PASSED, { answer: await sha256Hex("d") }), 1, 3);
  expect(await board(t)).toEqual([[1, 4, 1]]);
});

test("versions have samples of their own; over all versions the same answers are one", async () => {
  const t = await backend();
  await addSuite(t, "f2");
  await answered(t, "r1", OLD, { startedAt: 1 });
  await answered(t, "r2", OLD, { startedAt: 2, fingerprint: "f2" });
  expect((await rows(t, "modelScores")).filter(({ suiteId }) => suiteId !== null)).toHaveLength(2);
  expect(await pooled(t)).toEqual([[1, 4, 1]]);
});

test("runs that do not say which answers they have count each", async () => {
  const t = await backend();
  for (const key of ["r1", "r2"]) {
    await startRun(t, key);
    for (const path of EVALS) await finish(t, key, path, result(PASSED));
  }
  expect(await board(t)).toEqual([[2, 8, 1]]);
  expect((await refused(finish(t, "r1", EVALS[0] ?? "", result(PASSED, { answer: "x" })))).code).toBe("invalid");
});
