// Every function that takes a token: what the reporter and the maintainers call. README.md has the rules.
import { v } from "convex/values";
import * as assets from "./assets";
import { maintainMutation, mintMutation, mintQuery, reportMutation, reportQuery, tokenQuery } from "./auth";
import * as versions from "./benchmarkVersions";
import * as evals from "./evals";
import * as models from "./models";
import { markMinted } from "./modelScores";
import * as runs from "./runs";
import { cell, counts, part, result, runStart, scope, status, step } from "./validators";

export const checkToken = tokenQuery({
  args: {},
  returns: v.object({ name: v.string(), scopes: v.array(scope), expiresAt: v.union(v.number(), v.null()) }),
  handler: async ({ caller: { name, scopes, expiresAt } }) => ({ name, scopes, expiresAt: expiresAt ?? null }),
});

export const ensureModel = reportMutation({
  args: { slug: v.string(), displayName: v.string(), provider: v.string(), formerSlugs: v.optional(v.array(v.string())) },
  returns: v.object({ modelId: v.id("models") }),
  handler: async (ctx, described) => ({ modelId: await models.ensureModel(ctx, described) }),
});

export const ensureSuite = reportMutation({
  args: { fingerprint: v.string(), evals: v.array(v.string()), parts: v.array(part) },
  returns: v.object({ suiteId: v.id("suites") }),
  handler: async (ctx, suite) => ({ suiteId: await versions.ensureSuite(ctx, suite) }),
});

export const startRun = reportMutation({
  args: { run: runStart },
  returns: v.object({ runId: v.id("runs") }),
  handler: async (ctx, { run }) => ({ runId: await runs.startRun(ctx, run) }),
});

export const heartbeat = reportMutation({
  args: { runKey: v.string(), sentAt: v.number() },
  returns: v.null(),
  handler: async (ctx, { runKey, sentAt }) => {
    await runs.heartbeat(ctx, await runs.findRun(ctx, runKey), sentAt);
    return null;
  },
});

export const startEval = reportMutation({
  args: { runKey: v.string(), cell },
  returns: v.null(),
  handler: async (ctx, { runKey, cell: started }) => {
    await evals.startEval(ctx, await runs.findRun(ctx, runKey), started);
    return null;
  },
});

export const reportStep = reportMutation({
  args: { runKey: v.string(), cell, step },
  returns: v.null(),
  handler: async (ctx, { runKey, cell: running, step: ended }) => {
    await evals.reportStep(ctx, await runs.findRun(ctx, runKey), running, ended);
    return null;
  },
});

export const finishEval = reportMutation({
  args: { runKey: v.string(), cell, result },
  returns: v.object({ evalId: v.id("evals") }),
  handler: async (ctx, { runKey, cell: finished, result: sent }) => ({
    evalId: await evals.finishEval(ctx, await runs.findRun(ctx, runKey), finished, sent),
  }),
});

export const completeRun = reportMutation({
  args: { runKey: v.string(), endedAt: v.number() },
  returns: v.null(),
  handler: async (ctx, { runKey, endedAt }) => {
    await runs.completeRun(ctx, await runs.findRun(ctx, runKey), endedAt);
    return null;
  },
});

export const prepareUpload = reportMutation({
  args: { sha256: v.string(), size: v.number() },
  returns: v.union(v.object({ stored: v.literal(true) }), v.object({ stored: v.literal(false), uploadUrl: v.string() })),
  handler: (ctx, { sha256, size }) => assets.prepareUpload(ctx, sha256, size),
});

export const registerAsset = reportMutation({
  args: { sha256: v.string(), storageId: v.id("_storage") },
  returns: v.null(),
  handler: async (ctx, { sha256, storageId }) => {
    await assets.registerAsset(ctx, sha256, storageId);
    return null;
  },
});

export const getRun = reportQuery({
  args: { runKey: v.string() },
  returns: v.union(v.object({ runId: v.id("runs"), status, complete: v.boolean(), counts }), v.null()),
  handler: async (ctx, { runKey }) => {
    const run = await runs.runOf(ctx, runKey);
    return run && { runId: run._id, status: run.status, complete: run.complete, counts: run.counts };
  },
});

export const deleteRun = maintainMutation({
  args: { runKey: v.string(), reason: v.string() },
  returns: v.null(),
  handler: async (ctx, { runKey, reason }) => {
    await runs.deleteRun(ctx, runKey, reason, ctx.caller);
    return null;
  },
});

export const previewVersion = mintQuery({
  args: { fingerprint: v.string(), parts: v.optional(v.array(part)) },
  returns: versions.versionChanges,
  handler: (ctx, suite) => versions.changesSinceLast(ctx, suite),
});

export const mintVersion = mintMutation({
  args: {
    fingerprint: v.string(),
    evals: v.optional(v.array(v.string())),
    parts: v.optional(v.array(part)),
    name: v.string(),
    notes: v.optional(v.string()),
  },
  returns: v.object({ versionId: v.id("benchmarkVersions") }),
  handler: async (ctx, asked) => {
    const versionId = await versions.mintVersion(ctx, { ...asked, mintedBy: ctx.caller });
    await markMinted(ctx, versionId);
    return { versionId };
  },
});
