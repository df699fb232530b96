// Score runs: their start, signs of life, end and removal. What a run is worth follows from its cells: see `settle`.
import { paginationOptsValidator, paginationResultValidator } from "convex/server";
import { v } from "convex/values";
import { internal } from "./_generated/api";
import type { Doc, Id } from "./_generated/dataModel";
import { internalMutation, query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { findSuite, versionOf } from "./benchmarkVersions";
import { refusal } from "./errors";
import { deleteRows, endRunningCells } from "./evals";
import { ensureExperiment } from "./experiments";
import { checkAmount, checkCount, checkName, checkSize, checkUnique, cut, digest } from "./input";
import { HEARTBEAT_LIMIT, MAX_CELLS } from "./limits";
import { findModel, refuseBuiltIn } from "./models";
import { refreshScores } from "./modelScores";
import { leaveSample, NO_ANSWERS } from "./samples";
import { hasEnded, settle } from "./settle";
import { backend, counts, status, type RunStart } from "./validators";

const ABANDON_BATCH = 100;

export function runOf(ctx: QueryCtx, key: string): Promise<Doc<"runs"> | null> {
  return ctx.db
    .query("runs")
    .withIndex("by_key", (q) => q.eq("key", key))
    .unique();
}

function tombstoneOf(ctx: QueryCtx, key: string): Promise<Doc<"deletedRuns"> | null> {
  return ctx.db
    .query("deletedRuns")
    .withIndex("by_key", (q) => q.eq("key", key))
    .unique();
}

export async function findRun(ctx: QueryCtx, key: string): Promise<Doc<"runs">> {
  const run = await runOf(ctx, key);
  if (run !== null) return run;
  await refuseDeleted(ctx, key);
  throw refusal("unknown_run", `There is no run ${key}. Send it with startRun first.`);
}

async function refuseDeleted(ctx: QueryCtx, key: string): Promise<void> {
  const tombstone = await tombstoneOf(ctx, key);
  if (tombstone !== null) throw refusal("run_deleted", `The run ${key} has been deleted: ${tombstone.reason}`);
}

export async function startRun(ctx: MutationCtx, start: RunStart): Promise<Id<"runs">> {
  checkStart(start);
  const { fingerprint, model: slug, experiment, ...described } = start;
  const model = await findModel(ctx, slug);
  if (model === null) throw refusal("unknown_model", `The model ${slug} is unknown. Send it with ensureModel first.`);
  const suite = await findSuite(ctx, fingerprint);
  await refuseDeleted(ctx, start.key);
  const { plannedEvals, repeats, ...settings } = start;
  // Which version of a backend grades is known with the first result, not with the start.
  const digestOf = (version: string) => digest({ ...settings, backend: { ...settings.backend, version }, model: model._id });
  const sent = await digestOf("");
  const known = await runOf(ctx, start.key);
  const inSuite = new Set(suite.evals);
  const strange = plannedEvals.find((path) => !inSuite.has(path));
  if (known !== null && known.digest !== sent && known.digest !== (await digestOf(known.backend.version)))
    throw refusal("conflict", `The run ${start.key} was started with other settings. Use another key.`);
  if (strange !== undefined) throw refusal("unplanned_eval", `The suite ${fingerprint} has no eval ${strange}.`);
  if (known !== null) {
    await growPlan(ctx, known, start, suite);
    return known._id;
  }
  const now = Date.now();
  return await ctx.db.insert("runs", {
    ...described,
    plannedEvals: plannedEvals.toSorted(),
    modelId: model._id,
    experimentId: await ensureExperiment(ctx, experiment),
    suiteId: suite._id,
    startedAt: Math.min(start.startedAt, now),
    digest: sent,
    heartbeatAt: now,
    coversSuite: plannedEvals.length === suite.evals.length,
    status: { kind: "pending" },
    complete: false,
    counts: { planned: plannedEvals.length * repeats, running: 0, passed: 0, failed: 0, error: 0 },
    categories: [],
    totals: { costNanoUsd: 0, unknownCosts: 0, generationMs: 0, unknownGenerations: 0 },
    answers: NO_ANSWERS,
  });
}

/** A session that goes on with a run may plan more and say which backend grades; nothing is ever taken out. */
async function growPlan(ctx: MutationCtx, known: Doc<"runs">, start: RunStart, suite: Doc<"suites">): Promise<void> {
  const plannedEvals = [...new Set([...known.plannedEvals, ...start.plannedEvals])].sort();
  const repeats = Math.max(known.repeats, start.repeats);
  if (known.backend.version === "" && start.backend.version !== "") await ctx.db.patch(known._id, { backend: start.backend });
  if (plannedEvals.length === known.plannedEvals.length && repeats === known.repeats) return;
  checkPlan(start.key, plannedEvals, repeats);
  const counts = { ...known.counts, planned: plannedEvals.length * repeats };
  await settle(ctx, known, { plannedEvals, repeats, counts, coversSuite: plannedEvals.length === suite.evals.length });
}

function checkPlan(key: string, plannedEvals: string[], repeats: number): void {
  const cells = plannedEvals.length * repeats;
  if (cells > MAX_CELLS) throw refusal("too_large", `The run ${key} has ${cells} cells; at most ${MAX_CELLS} are allowed.`);
}

function checkStart(start: RunStart): void {
  checkName("key of the run", start.key);
  refuseBuiltIn(start.model);
  checkCount("number of repeats", start.repeats, 1);
  checkAmount("start of the run", start.startedAt);
  if (start.plannedEvals.length === 0) throw refusal("invalid", `The run ${start.key} plans no eval.`);
  checkUnique("planned evals", start.plannedEvals);
  checkPlan(start.key, start.plannedEvals, start.repeats);
  checkSize("description of the run", start);
}

/** A newer heartbeat also revives a run that was given up. */
export async function heartbeat(ctx: MutationCtx, run: Doc<"runs">, sentAt: number): Promise<void> {
  checkAmount("time of the heartbeat", sentAt);
  const heartbeatAt = Date.now();
  // A clock that runs ahead must not silence the heartbeats that come when it has been set right.
  const heartbeatSentAt = Math.min(sentAt, heartbeatAt);
  if (run.endedAt !== undefined || heartbeatSentAt <= (run.heartbeatSentAt ?? 0)) return;
  await settle(ctx, run, { heartbeatSentAt, heartbeatAt, abandonedAt: undefined });
}

export async function completeRun(ctx: MutationCtx, run: Doc<"runs">, endedAt: number): Promise<void> {
  checkAmount("end of the run", endedAt);
  if (run.endedAt === undefined) await endRun(ctx, run, { endedAt, abandonedAt: undefined });
}

/** A run ends with the cells that are still running: a batch at once, the others soon. */
async function endRun(ctx: MutationCtx, run: Doc<"runs">, changes: Pick<Doc<"runs">, "endedAt" | "abandonedAt">): Promise<void> {
  const { tally, more } = await endRunningCells(ctx, run);
  await settle(ctx, run, { ...tally, ...changes });
  if (more) await ctx.scheduler.runAfter(0, internal.runs.endStuckCells, { runId: run._id });
}

export const endStuckCells = internalMutation({
  args: { runId: v.id("runs") },
  returns: v.null(),
  handler: async (ctx, { runId }) => {
    const run = await ctx.db.get(runId);
    if (run !== null && hasEnded(run)) await endRun(ctx, run, {});
    return null;
  },
});

/** The run goes at once; what belongs to it follows in batches. */
export async function deleteRun(ctx: MutationCtx, key: string, reason: string, deletedBy: string): Promise<void> {
  const tombstone = await tombstoneOf(ctx, key);
  if (tombstone !== null) {
    // Asked again, it goes on where a cascade has ended too early.
    if (tombstone.runId !== undefined) await ctx.scheduler.runAfter(0, internal.runs.deleteRest, { runId: tombstone.runId });
    return;
  }
  const run = await findRun(ctx, key);
  const { _id: runId, modelId, experimentId, startedAt } = run;
  await ctx.db.insert("deletedRuns", { key, runId, modelId, experimentId, startedAt, reason: cut(reason), deletedBy });
  await ctx.db.delete(run._id);
  await leaveSample(ctx, run, run.sample);
  if (run.complete) await refreshScores(ctx, run);
  await ctx.scheduler.runAfter(0, internal.runs.deleteRest, { runId });
}

export const deleteRest = internalMutation({
  args: { runId: v.id("runs") },
  returns: v.null(),
  handler: async (ctx, { runId }) => {
    if (await deleteRows(ctx, runId)) await ctx.scheduler.runAfter(0, internal.runs.deleteRest, { runId });
    return null;
  },
});

/** Finds runs, of any age, that have been silent for too long. */
export const abandonSilentRuns = internalMutation({
  args: {},
  returns: v.null(),
  handler: async (ctx) => {
    const limit = Date.now() - HEARTBEAT_LIMIT;
    for (const kind of ["pending", "running"] as const) {
      const silent = await ctx.db
        .query("runs")
        .withIndex("by_status", (q) => q.eq("status.kind", kind).lt("heartbeatAt", limit))
        .take(ABANDON_BATCH);
      for (const run of silent) await ctx.scheduler.runAfter(0, internal.runs.abandonRun, { runId: run._id });
    }
    return null;
  },
});

export const abandonRun = internalMutation({
  args: { runId: v.id("runs") },
  returns: v.null(),
  handler: async (ctx, { runId }) => {
    const run = await ctx.db.get(runId);
    if (run === null || hasEnded(run) || run.heartbeatAt >= Date.now() - HEARTBEAT_LIMIT) return null;
    await endRun(ctx, run, { abandonedAt: Date.now() });
    return null;
  },
});

export const runView = v.object({
  _id: v.id("runs"),
  key: v.string(),
  model: v.union(v.string(), v.null()),
  experiment: v.union(v.string(), v.null()),
  fingerprint: v.union(v.string(), v.null()),
  version: v.union(v.string(), v.null()),
  plannedEvals: v.array(v.string()),
  repeats: v.number(),
  backend,
  gitCommit: v.optional(v.string()),
  ciUrl: v.optional(v.string()),
  startedAt: v.number(),
  endedAt: v.optional(v.number()),
  status,
  complete: v.boolean(),
  duplicate: v.boolean(),
  counts,
});

export async function viewRun(ctx: QueryCtx, run: Doc<"runs">) {
  const { _id, key, plannedEvals, repeats, gitCommit, ciUrl, startedAt, endedAt, complete } = run;
  const version = await versionOf(ctx, run.suiteId);
  return {
    ...{ _id, key, plannedEvals, repeats, gitCommit, ciUrl, startedAt, endedAt, complete },
    model: (await ctx.db.get(run.modelId))?.slug ?? null,
    experiment: (await ctx.db.get(run.experimentId))?.name ?? null,
    fingerprint: version?.fingerprint ?? (await ctx.db.get(run.suiteId))?.fingerprint ?? null,
    version: version?.name ?? null,
    backend: run.backend,
    duplicate: run.duplicate ?? false,
    status: run.status,
    counts: run.counts,
  };
}

export const get = query({
  args: { runId: v.id("runs") },
  returns: v.union(runView, v.null()),
  handler: async (ctx, { runId }) => {
    const run = await ctx.db.get(runId);
    return run && (await viewRun(ctx, run));
  },
});

export const list = query({
  args: { paginationOpts: paginationOptsValidator, model: v.optional(v.string()) },
  returns: paginationResultValidator(runView),
  handler: async (ctx, { paginationOpts, model: slug }) => {
    const model = slug === undefined ? null : await findModel(ctx, slug);
    if (slug !== undefined && model === null) throw refusal("unknown_model", `The model ${slug} is unknown.`);
    const all = ctx.db.query("runs");
    const asked = model === null ? all : all.withIndex("by_model", (q) => q.eq("modelId", model._id));
    const runs = await asked.order("desc").paginate(paginationOpts);
    return { ...runs, page: await Promise.all(runs.page.map((run) => viewRun(ctx, run))) };
  },
});
