// The leaderboard, materialised: a row per model, experiment and suite, which says how new its suite is, and one over all suites.
import { v } from "convex/values";
import { internal } from "./_generated/api";
import type { Doc, Id } from "./_generated/dataModel";
import { internalMutation, query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { findVersion, newestVersion, versionOf } from "./benchmarkVersions";
import { DEFAULT_EXPERIMENT, findExperiment } from "./experiments";
import { MAX_ROWS, MINT_BATCH, RANKED_RUNS } from "./limits";
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
    return;
  }
  const row = { ...key, ...score, ...(key.suiteId === null ? {} : await ageOf(ctx, key.suiteId)) };
  if (known === null) await ctx.db.insert("modelScores", row);
  else await ctx.db.replace(known._id, row);
}

/** Which suite a score is for, and its place among suites and versions. */
export async function ageOf(ctx: QueryCtx, suiteId: Id<"suites">): Promise<Pick<Doc<"modelScores">, "fingerprint" | "suiteAt" | "mintedAt">> {
  const suite = await ctx.db.get(suiteId);
  const version = await versionOf(ctx, suiteId);
  return { fingerprint: suite?.fingerprint, suiteAt: suite?._creationTime, mintedAt: version?._creationTime };
}

/** A suite has become a version: its scores say so, a batch at once, the others soon. */
export async function markMinted(ctx: MutationCtx, versionId: Id<"benchmarkVersions">): Promise<void> {
  const version = await ctx.db.get(versionId);
  if (version === null) return;
  const unmarked = await ctx.db
    .query("modelScores")
    .withIndex("by_minted", (q) => q.eq("suiteId", version.suiteId).eq("mintedAt", undefined))
    .take(MINT_BATCH);
  for (const { _id } of unmarked) await ctx.db.patch(_id, { mintedAt: version._creationTime });
  if (unmarked.length === MINT_BATCH) await ctx.scheduler.runAfter(0, internal.modelScores.markMore, { versionId });
}

export const markMore = internalMutation({
  args: { versionId: v.id("benchmarkVersions") },
  returns: v.null(),
  handler: async (ctx, { versionId }) => {
    await markMinted(ctx, versionId);
    return null;
  },
});

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

type Place = { suiteId: Id<"suites">; name: string | null; fingerprint: string };
type Score = Doc<"modelScores">;

/** The newest version; while there is none, the newest suite that has scores. */
async function newestPlace(ctx: QueryCtx, experimentId: Id<"experiments">): Promise<{ place: Place | null; minted: boolean }> {
  const version = await newestVersion(ctx);
  if (version !== null) return { place: version, minted: true };
  const newest = await ctx.db
    .query("modelScores")
    .withIndex("by_newest_suite", (q) => q.eq("experimentId", experimentId).gt("suiteAt", undefined))
    .order("desc")
    .first();
  if (newest === null || newest.suiteId === null || newest.fingerprint === undefined) return { place: null, minted: false };
  return { place: { suiteId: newest.suiteId, name: null, fingerprint: newest.fingerprint }, minted: false };
}

/** Best first; one more than is shown, so that one knows. */
function scoresOf(ctx: QueryCtx, experimentId: Id<"experiments">, suiteId: Id<"suites"> | null): Promise<Score[]> {
  return ctx.db
    .query("modelScores")
    .withIndex("by_suite", (q) => q.eq("experimentId", experimentId).eq("suiteId", suiteId))
    .order("desc")
    .take(MAX_ROWS + 1);
}

/** The newest score of a model for a version, or for a suite while there are no versions. */
function newestScore(ctx: QueryCtx, { modelId, experimentId }: Score, minted: boolean): Promise<Score | null> {
  const scores = ctx.db.query("modelScores");
  const byAge = minted
    ? scores.withIndex("by_model_version", (q) => q.eq("modelId", modelId).eq("experimentId", experimentId).gt("mintedAt", undefined))
    : scores.withIndex("by_model_suite", (q) => q.eq("modelId", modelId).eq("experimentId", experimentId).gt("suiteAt", undefined));
  return byAge.order("desc").first();
}

/** Of models that are known and not on the board, the best first. The score over all suites says which models there are. */
async function olderScores(ctx: QueryCtx, known: Score[], onBoard: Set<Id<"models">>, minted: boolean): Promise<Score[]> {
  const missing = known.slice(0, MAX_ROWS).filter(({ modelId }) => !onBoard.has(modelId));
  const found = await Promise.all(missing.map((score) => newestScore(ctx, score, minted)));
  return found.filter((score) => score !== null).sort((a, b) => b.score - a.score);
}

/** What is shown of a score; null when its model is gone. */
async function viewScore(ctx: QueryCtx, score: Score, place: Pick<Place, "name" | "fingerprint"> | null, outdated: boolean) {
  const { _id, _creationTime, modelId, experimentId, suiteId, fingerprint, suiteAt, mintedAt, ...shown } = score;
  const model = await ctx.db.get(modelId);
  const version = place && { name: place.name, fingerprint: place.fingerprint };
  return model && { model: viewModel(model), version, outdated, ...shown };
}

async function boardOf(ctx: QueryCtx, experiment: string, experimentId: Id<"experiments"> | undefined, place: Place | null) {
  const scores = experimentId === undefined ? [] : await scoresOf(ctx, experimentId, place?.suiteId ?? null);
  const rows = [];
  for (const score of scores.slice(0, MAX_ROWS)) {
    const shown = await viewScore(ctx, score, place, false);
    if (shown !== null) rows.push(shown);
  }
  const version = place && { name: place.name, fingerprint: place.fingerprint };
  const models = new Set(scores.map(({ modelId }) => modelId));
  return { board: { version, experiment, rows, truncated: scores.length > MAX_ROWS }, models };
}

/** One version: the newest, or the one asked for. Models without a score for the newest show their newest older one. */
export const leaderboard = query({
  args: { experiment: v.optional(v.string()), version: v.optional(v.string()) },
  returns: board,
  handler: async (ctx, { experiment = DEFAULT_EXPERIMENT, version: asked }) => {
    const experimentId = (await findExperiment(ctx, experiment))?._id;
    const nothing = { version: null, experiment, rows: [], truncated: false };
    if (asked !== undefined) {
      const place = await findVersion(ctx, asked);
      return place === null ? nothing : (await boardOf(ctx, experiment, experimentId, place)).board;
    }
    if (experimentId === undefined) {
      const version = await newestVersion(ctx);
      return { ...nothing, version: version && { name: version.name, fingerprint: version.fingerprint } };
    }
    const { place, minted } = await newestPlace(ctx, experimentId);
    if (place === null) return nothing;
    const { board: newest, models } = await boardOf(ctx, experiment, experimentId, place);
    const known = await scoresOf(ctx, experimentId, null);
    const older = [];
    for (const score of await olderScores(ctx, known, models, minted)) {
      const version = minted && score.suiteId !== null ? await versionOf(ctx, score.suiteId) : null;
      const shown = await viewScore(ctx, score, { name: version?.name ?? null, fingerprint: score.fingerprint ?? "" }, true);
      if (shown !== null) older.push(shown);
    }
    return { ...newest, rows: [...newest.rows, ...older], truncated: newest.truncated || known.length > MAX_ROWS };
  },
});

/** All versions together. */
export const pooled = query({
  args: { experiment: v.optional(v.string()) },
  returns: board,
  handler: async (ctx, { experiment = DEFAULT_EXPERIMENT }) =>
    (await boardOf(ctx, experiment, (await findExperiment(ctx, experiment))?._id, null)).board,
});
