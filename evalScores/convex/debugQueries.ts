// Internal: what failed in a run, for analysis.
import { v } from "convex/values";
import type { Doc } from "./_generated/dataModel";
import { internalQuery, type QueryCtx } from "./_generated/server";
import { cellView, stepView, viewCell, viewSteps } from "./evals";
import { refusal } from "./errors";
import { runView, viewRun } from "./runs";
import { stepsOf } from "./steps";
import { stepName } from "./validators";

const MAX_FAILED = 1_000;

const failedEval = v.object({
  _id: v.id("evals"),
  evalPath: v.string(),
  category: v.string(),
  name: v.string(),
  failureReason: v.string(),
  failedStep: v.union(stepName, v.null()),
});

export const getFailedEvalsForRun = internalQuery({
  args: { runId: v.id("runs") },
  returns: v.object({
    run: runView,
    totalEvals: v.number(),
    passedCount: v.number(),
    failedCount: v.number(),
    failedEvals: v.array(failedEval),
  }),
  handler: async (ctx, { runId }) => {
    const run = await ctx.db.get(runId);
    if (run === null) throw refusal("unknown_run", `There is no run ${runId}.`);
    const failed = await ctx.db
      .query("evals")
      .withIndex("by_status", (q) => q.eq("runId", runId).eq("status.kind", "failed"))
      .take(MAX_FAILED);
    return {
      run: await viewRun(ctx, run),
      totalEvals: run.counts.planned,
      passedCount: run.counts.passed,
      failedCount: run.counts.failed,
      failedEvals: await Promise.all(failed.map((cell) => describe(ctx, cell))),
    };
  },
});

async function describe(ctx: QueryCtx, cell: Doc<"evals">) {
  const { _id, evalPath, category, name, status } = cell;
  const failed = (await stepsOf(ctx, _id)).find(({ verdict }) => verdict.kind === "failed");
  return { _id, evalPath, category, name, failureReason: "reason" in status ? status.reason : "", failedStep: failed?.name ?? null };
}

const file = v.union(v.id("_storage"), v.null());

/** What `debug:getEvalDebugInfo` reads; the files themselves are read by an action. */
export const getEval = internalQuery({
  args: { evalId: v.id("evals") },
  returns: v.object({ eval: v.object({ ...cellView.fields, steps: v.array(stepView) }), outputFile: file, sourceFile: file }),
  handler: async (ctx, { evalId }) => {
    const cell = await ctx.db.get(evalId);
    if (cell === null) throw refusal("invalid", `There is no eval ${evalId}.`);
    const output = cell.outputId && (await ctx.db.get(cell.outputId));
    const source = cell.sourceId && (await ctx.db.get(cell.sourceId));
    return {
      eval: { ...viewCell(cell), steps: await viewSteps(ctx, evalId) },
      outputFile: output?.storageId ?? null,
      sourceFile: source?.storageId ?? null,
    };
  },
});
