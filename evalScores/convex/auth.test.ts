import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { api, internal } from "./_generated/api";
import { addToken, backend, emptyBackend, only, refused, rows, runStart } from "./test.setup";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const model = { slug: "m", displayName: "M", provider: "p" };

test("a token is looked up by its hash and never stored", async () => {
  const t = emptyBackend();
  await addToken(t, "secret", ["report"]);
  await t.mutation(api.admin.ensureModel, { token: "secret", ...model });
  const stored = await only(rows(t, "authTokens"));
  expect(stored.hash).toBe("2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
  expect(await refused(t.mutation(api.admin.ensureModel, { token: stored.hash, ...model }))).toMatchObject({ reason: "unknown" });
});

test("wrong, expired, revoked and under-scoped tokens are refused, each with its reason", async () => {
  const t = emptyBackend();
  await addToken(t, "short", ["report"], Date.now() + 1_000);
  await addToken(t, "gone", ["report"]);
  await addToken(t, "narrow", ["report"]);
  await t.mutation(internal.auth.revokeToken, { name: "gone" });
  await t.mutation(api.admin.ensureModel, { token: "short", ...model });
  vi.advanceTimersByTime(1_000);
  for (const [token, reason] of [
    ["wrong", "unknown"],
    ["", "unknown"],
    ["short", "expired"],
    ["gone", "revoked"],
  ] as const) {
    expect(await refused(t.mutation(api.admin.ensureModel, { token, ...model }))).toMatchObject({ code: "unauthorized", reason });
    expect(await refused(t.query(api.admin.checkToken, { token }))).toMatchObject({ code: "unauthorized", reason });
  }
  const token = "narrow";
  const narrow = [
    t.mutation(api.admin.deleteRun, { token, runKey: "r", reason: "" }),
    t.mutation(api.admin.mintVersion, { token, fingerprint: "f", name: "v1" }),
    t.query(api.admin.previewVersion, { token, fingerprint: "f" }),
  ];
  for (const call of narrow) expect(await refused(call)).toMatchObject({ code: "unauthorized", reason: "scope" });
  expect(await t.query(api.admin.checkToken, { token })).toEqual({ name: "narrow", scopes: ["report"], expiresAt: null });
});

test("every function of admin asks for a token before it does anything", async () => {
  const t = await backend();
  const cell = { evalPath: "a/b", repeat: 1, attempt: 1 };
  const token = "wrong";
  const usage = { inputTokens: 1, outputTokens: 1, reasoningTokens: 1, cachedTokens: 1, costUsd: 1 };
  const result = { verdict: { kind: "passed" as const }, steps: [], usage, generationMs: 1, gradingMs: 1, startedAt: 1 };
  const storageId = await t.action((ctx) => ctx.storage.store(new Blob(["x"])));
  const calls = {
    checkToken: t.query(api.admin.checkToken, { token }),
    ensureModel: t.mutation(api.admin.ensureModel, { token, ...model }),
    ensureSuite: t.mutation(api.admin.ensureSuite, { token, fingerprint: "f", evals: [], parts: [] }),
    startRun: t.mutation(api.admin.startRun, { token, run: runStart("r") }),
    heartbeat: t.mutation(api.admin.heartbeat, { token, runKey: "r", sentAt: 1 }),
    startEval: t.mutation(api.admin.startEval, { token, runKey: "r", cell }),
    reportStep: t.mutation(api.admin.reportStep, {
      ...{ token, runKey: "r", cell },
      step: { name: "tsc", verdict: { kind: "passed" }, durationMs: 1, checks: [] },
    }),
    finishEval: t.mutation(api.admin.finishEval, { token, runKey: "r", cell, result }),
    completeRun: t.mutation(api.admin.completeRun, { token, runKey: "r", endedAt: 1 }),
    prepareUpload: t.mutation(api.admin.prepareUpload, { token, sha256: "x", size: 1 }),
    registerAsset: t.mutation(api.admin.registerAsset, { token, sha256: "x", storageId }),
    getRun: t.query(api.admin.getRun, { token, runKey: "r" }),
    deleteRun: t.mutation(api.admin.deleteRun, { token, runKey: "r", reason: "" }),
    previewVersion: t.query(api.admin.previewVersion, { token, fingerprint: "f" }),
    mintVersion: t.mutation(api.admin.mintVersion, { token, fingerprint: "f", name: "v" }),
  };
  for (const call of Object.values(calls)) expect(await refused(call)).toMatchObject({ code: "unauthorized", reason: "unknown" });
  expect(Object.keys(calls).sort()).toEqual(Object.keys(await import("./admin")).sort());
});

test("the last use of a token is written once an hour", async () => {
  const t = emptyBackend();
  await addToken(t, "secret", ["report"]);
  const use = async () => {
    await t.mutation(api.admin.ensureModel, { token: "secret", ...model });
    return (await only(rows(t, "authTokens"))).lastUsedAt;
  };
  const first = await use();
  expect(first).toBe(Date.now());
  vi.advanceTimersByTime(59 * 60_000);
  expect(await use()).toBe(first);
  vi.advanceTimersByTime(60_000);
  expect(await use()).toBe(Date.now());
});

test("tokens are listed without their hashes; a name is used once; a repeated creation changes nothing", async () => {
  const t = emptyBackend();
  await addToken(t, "one", ["report", "report"]);
  await addToken(t, "one", ["report"]);
  expect(await refused(t.mutation(internal.auth.createToken, { name: "one", hash: "0".repeat(64), scopes: ["mint"] }))).toMatchObject({
    code: "conflict",
  });
  expect(await refused(t.mutation(internal.auth.createToken, { name: "two", hash: "the token itself", scopes: ["mint"] }))).toMatchObject({
    code: "invalid",
  });
  expect(await refused(t.mutation(internal.auth.createToken, { name: "two", hash: "0".repeat(64), scopes: [] }))).toMatchObject({
    code: "invalid",
  });
  const [listed, ...rest] = await t.query(internal.auth.listTokens, {});
  expect(rest).toEqual([]);
  expect(Object.keys(listed ?? {}).sort()).toEqual(["createdAt", "expiresAt", "lastUsedAt", "name", "revokedAt", "scopes"]);
  expect(listed?.scopes).toEqual(["report"]);
  await t.mutation(internal.auth.revokeToken, { name: "one" });
  expect((await t.query(internal.auth.listTokens, {}))[0]?.revokedAt).toBe(Date.now());
  expect(await refused(t.mutation(internal.auth.revokeToken, { name: "nobody" }))).toMatchObject({ code: "invalid" });
});
