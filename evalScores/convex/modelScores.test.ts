import { expect, test } from "vitest";
import { api } from "./_generated/api";
import { addSuite, backend, EVALS, FAILED, finish, only, PASSED, result, rows } from "./test.setup";
import { startRun, token, upload, wholeRun, type Backend } from "./test.setup";

const ALL = [PASSED, PASSED, PASSED, PASSED];
const HALF = [PASSED, FAILED, PASSED, FAILED];
const board = async (t: Backend, args: { experiment?: string; version?: string } = {}) => t.query(api.modelScores.leaderboard, args);

async function addModel(t: Backend, slug: string): Promise<void> {
  await t.mutation(api.admin.ensureModel, { token, slug, displayName: slug.toUpperCase(), provider: "p" });
}

async function mint(t: Backend, fingerprint: string, name: string): Promise<void> {
  await addSuite(t, fingerprint);
  await t.mutation(api.admin.mintVersion, { token, fingerprint, name });
}

test("models are ranked by the mean of their complete runs", async () => {
  const t = await backend();
  await addModel(t, "o3");
  await wholeRun(t, "a", HALF);
  await wholeRun(t, "b", ALL);
  await wholeRun(t, "incomplete", [FAILED]);
  await wholeRun(t, "c", ALL, { model: "o3" }, { usage: { ...result(PASSED).usage, costUsd: null } });
  const { rows: found, version } = await board(t);
  expect(version).toEqual({ name: null, fingerprint: "f1" });
  expect(found.map(({ model, score, runs, trials }) => [model.slug, score, runs, trials])).toEqual([
    ["o3", 1, 1, 4],
    ["gpt-5", 0.75, 2, 8],
  ]);
  expect(found[0]?.meanCostUsd).toBeNull();
  expect(found[1]?.meanCostUsd).toBeCloseTo(0.4, 9);
  expect(found[1]).toMatchObject({ meanGenerationMs: 2_000, outdated: false });
  expect(found[1]?.categories).toEqual([
    { category: "000-basics", score: 0.75, trials: 4 },
    { category: "001-queries", score: 0.75, trials: 4 },
  ]);
});

test("only the newest ten complete runs count, and a deleted one makes room", async () => {
  const t = await backend();
  await wholeRun(t, "oldest", HALF, { startedAt: 1 });
  for (let n = 0; n < 10; n++) await wholeRun(t, `r${n}`, ALL, { startedAt: 100 + n });
  await wholeRun(t, "uploaded late", HALF, { startedAt: 2 });
  expect((await board(t)).rows[0]).toMatchObject({ score: 1, runs: 10, newestRunAt: 109 });
  await t.mutation(api.admin.deleteRun, { token, runKey: "r9", reason: "test" });
  expect((await board(t)).rows[0]).toMatchObject({ score: 0.95, runs: 10, newestRunAt: 108 });
});

test("a regraded cell changes the score", async () => {
  const t = await backend();
  await wholeRun(t, "a", HALF);
  await finish(t, "a", EVALS[1] ?? "", result(PASSED), 1, 2);
  expect((await board(t)).rows[0]?.score).toBe(0.75);
  await finish(t, "a", EVALS[1] ?? "", result({ kind: "error", cause: "backend", reason: "died" }), 1, 3);
  expect(await rows(t, "modelScores")).toEqual([]);
});

test("versions are an archive; a model without a score for the newest shows its newest older one", async () => {
  const t = await backend();
  await addModel(t, "o3");
  for (const [fingerprint, name] of [
    ["f1", "v1"],
    ["f2", "v2"],
    ["f3", "v3"],
  ] as const)
    await mint(t, fingerprint, name);
  await addSuite(t, "unminted");
  await wholeRun(t, "o1", HALF, { model: "o3" });
  await wholeRun(t, "o2", ALL, { model: "o3", fingerprint: "f2" });
  await wholeRun(t, "o4", HALF, { model: "o3", fingerprint: "unminted" });
  await wholeRun(t, "g1", ALL);
  await wholeRun(t, "g3", HALF, { fingerprint: "f3" });
  const view = async (version?: string) =>
    (await board(t, { version })).rows.map((row) => [row.model.slug, row.score, row.version?.name, row.outdated]);
  expect(await view()).toEqual([
    ["gpt-5", 0.5, "v3", false],
    ["o3", 1, "v2", true],
  ]);
  expect(await view("v2")).toEqual([["o3", 1, "v2", false]]);
  expect(await view("v1")).toEqual([
    ["gpt-5", 1, "v1", false],
    ["o3", 0.5, "v1", false],
  ]);
  expect(await board(t, { version: "v9" })).toEqual({ version: null, experiment: "default", rows: [], truncated: false });
  const pooled = await t.query(api.modelScores.pooled, {});
  expect(pooled.rows.map((row) => [row.model.slug, row.runs, row.version])).toEqual([
    ["gpt-5", 2, null],
    ["o3", 3, null],
  ]);
});

test("a model keeps its newest older score, however many versions follow", async () => {
  const t = await backend();
  await wholeRun(t, "o1", HALF);
  await mint(t, "f1", "v1");
  for (let n = 2; n < 10; n++) {
    await mint(t, `f${n}`, `v${n}`);
    const { version, rows: found } = await board(t);
    expect([version?.name, ...found.map((row) => [row.model.slug, row.version?.name, row.outdated])]).toEqual([
      `v${n}`,
      ["gpt-5", "v1", true],
    ]);
  }
  await wholeRun(t, "o2", ALL, { fingerprint: "f4" });
  expect((await board(t)).rows.map((row) => [row.version?.name, row.score, row.outdated])).toEqual([["v4", 1, true]]);
  await t.mutation(api.admin.deleteRun, { token, runKey: "o2", reason: "test" });
  expect((await board(t)).rows.map((row) => [row.version?.name, row.outdated])).toEqual([["v1", true]]);
});

test("before anything is minted, only suites with scores stand in for versions", async () => {
  const t = await backend();
  await addModel(t, "o3");
  await wholeRun(t, "o1", HALF, { model: "o3" });
  for (let n = 2; n < 10; n++) await addSuite(t, `f${n}`);
  expect((await board(t)).version).toEqual({ name: null, fingerprint: "f1" });
  await wholeRun(t, "g1", ALL, { fingerprint: "f4" });
  const view = async () => {
    const { version, rows: found } = await board(t);
    return [version?.fingerprint, ...found.map((row) => [row.model.slug, row.version?.fingerprint, row.outdated])];
  };
  expect(await view()).toEqual(["f4", ["gpt-5", "f4", false], ["o3", "f1", true]]);
  await wholeRun(t, "partial", [PASSED], { fingerprint: "f9" });
  expect(await view()).toEqual(["f4", ["gpt-5", "f4", false], ["o3", "f1", true]]);
  expect((await board(t, { experiment: "no_guidelines" })).version).toBeNull();
});

test("experiments have boards of their own", async () => {
  const t = await backend();
  await wholeRun(t, "a", HALF, { experiment: "no_guidelines" });
  expect((await board(t)).rows).toEqual([]);
  expect((await board(t, { experiment: "no_guidelines" })).rows).toHaveLength(1);
  expect((await board(t, { experiment: "unheard of" })).rows).toEqual([]);
  const { page } = await t.query(api.experiments.list, { paginationOpts: { numItems: 5, cursor: null } });
  expect(page).toEqual([{ name: "no_guidelines" }]);
});

test("the leaderboard as JSON, with caching and for pages of any origin", async () => {
  const t = await backend();
  await wholeRun(t, "a", HALF);
  const answer = await t.fetch("/leaderboard?experiment=default");
  expect(answer.status).toBe(200);
  expect(answer.headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(answer.headers.get("Cache-Control")).toContain("max-age=60");
  expect(await answer.json()).toEqual(await board(t));
  const etag = answer.headers.get("ETag") ?? "";
  expect((await t.fetch("/leaderboard", { headers: { "If-None-Match": etag } })).status).toBe(304);
  await wholeRun(t, "b", ALL);
  expect((await t.fetch("/leaderboard", { headers: { "If-None-Match": etag } })).status).toBe(200);
  expect(await (await t.fetch("/leaderboard?pooled=1")).json()).toEqual(await t.query(api.modelScores.pooled, {}));
  expect((await t.fetch("/leaderboard?version=v9")).status).toBe(404);
  expect((await t.fetch("/leaderboard", { method: "OPTIONS" })).status).toBe(204);
});

test("public queries show neither tokens nor files", async () => {
  const t = await backend();
  const runId = await startRun(t, "r");
  const output = await upload(t, [{ path: "a.ts", text: "a" }]);
  const evalId = await finish(t, "r", EVALS[0] ?? "", result(PASSED, { output, source: output }));
  const { storageId } = await only(rows(t, "assets"));
  const paginationOpts = { numItems: 5, cursor: null };
  const shown = JSON.stringify([
    await t.query(api.runs.get, { runId }),
    await t.query(api.runs.list, { paginationOpts }),
    await t.query(api.evals.get, { evalId }),
    await t.query(api.evals.listForRun, { runId, paginationOpts }),
  ]);
  for (const secret of ["hash", "digest", "storageId", "outputId", "sourceId", storageId, output]) expect(shown).not.toContain(secret);
});
