// The leaderboard, materialised: a row per model, experiment and suite, and one over all suites.
import { v } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { findVersion, newestVersions } from "./benchmarkVersions";
import { DEFAULT_EXPERIMENT, findExperiment } from "./experiments";
import { MAX_ROWS, RANKED_RUNS, VERSIONS_BACK } from "./limits";
import { modelView, viewModel } from "./models";
import { withoutDuplicates } from "./samples";
import { scoreOf } from "./statistics";
import { categoryScore, interval } from "./validators";

type Ranked = Pick<Doc<"runs">, "modelId" | "experimentId" | "suiteId">;

/** Brings the scores that a run has a part in up to date. */
export async function refreshScores(ctx: MutationCtx, { modelId, experimentId, suiteId }: Ranked): Promise<void> {
  const ofVersion = await ctx.db
    .query("runs")
    .withIndex("by_version", (q) =>
      q.eq("modelId", modelId).eq("experimentId", experimentId).eq("suiteId", suiteId).eq("complete", true).eq("duplicate", undefined),
    )
    .order("desc")
    .take(RANKED_RUNS);
  await store(ctx, { modelId, experimentId, suiteId }, ofVersion);
  const ofAll = await ctx.db
    .query("runs")
    .withIndex("by_experiment", (q) =>
      q.eq("modelId", modelId).eq("experimentId", experimentId).eq("complete", true).eq("duplicate", undefined),
    )
    .order("desc")
    .take(RANKED_RUNS);
  await store(ctx, { modelId, experimentId, suiteId: null }, withoutDuplicates(ofAll));
}

type ScoreKey = Pick<Doc<"modelScores">, "modelId" | "experimentId" | "suiteId">;

async function store(ctx: MutationCtx, key: ScoreKey, runs: Doc<"runs">[]): Promise<void> {
  const score = scoreOf(runs);
  const known = await ctx.db
    .query("modelScores")
    .withIndex("by_model", (q) => q.eq("modelId", key.modelId).eq("experimentId", key.experimentId).eq("suiteId", key.suiteId))
    .unique();
  if (score === null) {
    if (known !== null) await ctx.db.delete(known._id);
  } else if (known === null) {
    await ctx.db.insert("modelScores", { ...key, ...score });
  } else {
    await ctx.db.replace(known._id, { ...key, ...score });
  }
}

const version = v.object({ name: v.union(v.string(), v.null()), fingerprint: v.string() });
const row = v.object({
  model: modelView,
  version: v.union(version, v.null()),
  outdated: v.boolean(),
  runs: v.number(),
  score: v.number(),
  interval,
  trials: v.number(),
  categories: v.array(categoryScore),
  meanCostUsd: v.union(v.number(), v.null()),
  meanGenerationMs: v.union(v.number(), v.null()),
  newestRunAt: v.number(),
});
const board = v.object({ version: v.union(version, v.null()), experiment: v.string(), rows: v.array(row), truncated: v.boolean() });

type Place = { suiteId: Id<"suites"> | null; name: string | null; fingerprint: string | null };

/** The suite asked for, or the newest, and behind it the older ones in which models without a score are looked for. */
async function places(ctx: QueryCtx, asked: string | undefined): Promise<Place[]> {
  if (asked !== undefined) {
    const found = await findVersion(ctx, asked);
    return found === null ? [] : [found];
  }
  const versions = await newestVersions(ctx, VERSIONS_BACK);
  if (versions.length > 0) return versions;
  const suites = await ctx.db.query("suites").order("desc").take(VERSIONS_BACK);
  return suites.map(({ _id, fingerprint }) => ({ suiteId: _id, name: null, fingerprint }));
}

async function boardOf(ctx: QueryCtx, experiment: string, searched: Place[]) {
  const experimentId = (await findExperiment(ctx, experiment))?._id;
  const rows = [];
  const seen = new Set<Id<"models">>();
  let truncated = false;
  for (const [age, { suiteId, name, fingerprint }] of searched.entries()) {
    if (experimentId === undefined) break;
    const scores = await ctx.db
      .query("modelScores")
      .withIndex("by_suite", (q) => q.eq("experimentId", experimentId).eq("suiteId", suiteId))
      .order("desc")
      .take(MAX_ROWS + 1);
    truncated ||= scores.length > MAX_ROWS;
    for (const { modelId, _id, _creationTime, experimentId: _experiment, suiteId: _suite, ...score } of scores.slice(0, MAX_ROWS)) {
      const model = seen.has(modelId) ? null : await ctx.db.get(modelId);
      if (model === null) continue;
      seen.add(modelId);
      rows.push({ model: viewModel(model), version: fingerprint === null ? null : { name, fingerprint }, outdated: age > 0, ...score });
    }
  }
  const [first] = searched;
  const shown = first?.fingerprint ? { name: first.name, fingerprint: first.fingerprint } : null;
  return { version: shown, experiment, rows, truncated };
}

/** One version: the newest, or the one asked for. Models without a score for the newest show their newest older one. */
export const leaderboard = query({
  args: { experiment: v.optional(v.string()), version: v.optional(v.string()) },
  returns: board,
  handler: async (ctx, { experiment, version: asked }) => boardOf(ctx, experiment ?? DEFAULT_EXPERIMENT, await places(ctx, asked)),
});

/** All versions together. */
export const pooled = query({
  args: { experiment: v.optional(v.string()) },
  returns: board,
  handler: (ctx, { experiment }) => boardOf(ctx, experiment ?? DEFAULT_EXPERIMENT, [{ suiteId: null, name: null, fingerprint: null }]),
});
