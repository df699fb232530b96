// What the tests share: a backend with tokens, and a run to report.
import migrations from "@convex-dev/migrations/test";
import { convexTest } from "convex-test";
import { ConvexError } from "convex/values";
import { expect } from "vitest";
import { api, internal } from "./_generated/api";
import type { Id, TableNames } from "./_generated/dataModel";
import { sha256Hex } from "./input";
import schema from "./schema";
import type { Result, RunStart, Scope, Step, Verdict } from "./validators";

const modules = import.meta.glob(["./**/*.ts", "./**/*.js", "!./**/*.test.ts", "!./**/*.d.ts", "!./test.setup.ts"]);
export type Backend = ReturnType<typeof emptyBackend>;

export const EVALS = ["000-basics/000-empty", "000-basics/001-schema", "001-queries/000-index", "001-queries/001-join"];
export const token = "token with every scope";

export function emptyBackend() {
  const t = convexTest({ schema, modules });
  migrations.register(t);
  return t;
}

export async function addToken(t: Backend, text: string, scopes: Scope[], expiresAt?: number): Promise<void> {
  await t.mutation(internal.auth.createToken, { name: text, hash: await sha256Hex(text), scopes, expiresAt });
}

/** A backend that knows a model, a suite and a token. */
export async function backend(): Promise<Backend> {
  const t = emptyBackend();
  await addToken(t, token, ["report", "maintain", "mint"]);
  await t.mutation(api.admin.ensureModel, { token, slug: "gpt-5", displayName: "GPT-5", provider: "openai" });
  await addSuite(t, "f1");
  return t;
}

export async function addSuite(t: Backend, fingerprint: string, evals = EVALS, parts = [{ name: "prompt", hash: "1" }]) {
  await t.mutation(api.admin.ensureSuite, { token, fingerprint, evals, parts });
}

export function runStart(key: string, changes: Partial<RunStart> = {}): RunStart {
  return {
    key,
    model: "gpt-5",
    experiment: "default",
    fingerprint: "f1",
    plannedEvals: EVALS,
    repeats: 1,
    backend: { kind: "embedded", version: "1" },
    startedAt: 1_000,
    ...changes,
  };
}

export async function startRun(t: Backend, key: string, changes: Partial<RunStart> = {}): Promise<Id<"runs">> {
  return (await t.mutation(api.admin.startRun, { token, run: runStart(key, changes) })).runId;
}

export const PASSED: Verdict = { kind: "passed" };
export const FAILED: Verdict = { kind: "failed", cause: "checks", reason: "1 of 2 checks failed" };
export const ERROR: Verdict = { kind: "error", cause: "backend", reason: "the backend died" };

export function testsStep(verdict: Verdict): Step {
  const checks = [
    { name: "test_schema", verdict: PASSED, durationMs: 5, detail: "" },
    { name: "test_answer", verdict, durationMs: 7, detail: verdict.kind === "passed" ? "" : "assert 1 == 2" },
  ];
  return { name: "tests", verdict, durationMs: 12, checks };
}

export function result(verdict: Verdict, changes: Partial<Result> = {}): Result {
  return {
    verdict,
    steps: [{ name: "deploy", verdict: PASSED, durationMs: 40, checks: [] }, testsStep(verdict)],
    usage: { inputTokens: 100, outputTokens: 50, reasoningTokens: null, cachedTokens: 0, costUsd: 0.1 },
    generationMs: 2_000,
    gradingMs: 300,
    startedAt: 2_000,
    ...changes,
  };
}

export async function finish(t: Backend, runKey: string, evalPath: string, sent: Result, repeat = 1, attempt = 1): Promise<Id<"evals">> {
  return (await t.mutation(api.admin.finishEval, { token, runKey, cell: { evalPath, repeat, attempt }, result: sent })).evalId;
}

/** A run of the whole suite with these verdicts. */
export async function wholeRun(t: Backend, key: string, verdicts: Verdict[], changes: Partial<RunStart> = {}, sent: Partial<Result> = {}) {
  const runId = await startRun(t, key, changes);
  for (const [index, verdict] of verdicts.entries()) await finish(t, key, EVALS[index] ?? "", result(verdict, sent));
  await t.mutation(api.admin.completeRun, { token, runKey: key, endedAt: 9_000 });
  return runId;
}

/** Uploads and registers an archive, as the reporter does. */
export async function upload(t: Backend, files: { path: string; text: string }[]): Promise<string> {
  const text = JSON.stringify({ version: 1, files });
  const sha256 = await sha256Hex(text);
  const storageId = await store(t, text);
  await t.mutation(api.admin.registerAsset, { token, sha256, storageId });
  return sha256;
}

export function store(t: Backend, text: string): Promise<Id<"_storage">> {
  return t.action((ctx) => ctx.storage.store(new Blob([text])));
}

export function rows<Table extends TableNames>(t: Backend, table: Table) {
  return t.run((ctx) => ctx.db.query(table).collect());
}

export async function only<Row>(found: Promise<Row[]>): Promise<Row> {
  const [row, ...rest] = await found;
  expect(rest).toEqual([]);
  if (row === undefined) throw new Error("there is no row");
  return row;
}

/** Every row of every table, without ids and times and in an order of its own. */
export async function snapshot(t: Backend): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {};
  for (const table of Object.keys(schema.tables) as TableNames[]) {
    found[table] = (await rows(t, table)).map((row) => JSON.stringify(row, withoutIds)).sort();
  }
  return found;
}

function withoutIds(key: string, value: unknown): unknown {
  return /^_|Ids?$|At$/.test(key) ? undefined : value;
}

/** The data of the refusal that a call must end with. */
export async function refused(call: Promise<unknown>): Promise<{ code: string; reason?: string; message: string }> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ConvexError) return typeof error.data === "string" ? JSON.parse(error.data) : error.data;
    throw error;
  }
  throw new Error("the call was not refused");
}
