// Internal: what failed in a run, for analysis.
import { getConvexSize, v, type Infer } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { internalQuery, type QueryCtx } from "./_generated/server";
import { cellView, stepView, viewCell, viewSteps } from "./evals";
import { refusal } from "./errors";
import { cut } from "./input";
import { READ_CHUNK } from "./limits";
import { runView, viewRun } from "./runs";
import { failedStep, stepsOf } from "./steps";
import { stepName, type Step } from "./validators";

const MAX_FAILED = 1_000;
/** Bytes of rows after which no more are read; the largest chunk with all steps has as many again. */
const FAILED_BYTES = 6 * 1024 * 1024;
/** Characters of a reason in the list; the whole one is with the eval. */
const SHORT_REASON = 2_000;

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
    /** There are more. */
    isTruncated: v.boolean(),
  }),
  handler: async (ctx, { runId }) => {
    const run = await ctx.db.get(runId);
    if (run === null) throw refusal("unknown_run", `There is no run ${runId}.`);
    return {
      run: await viewRun(ctx, run),
      totalEvals: run.counts.planned,
      passedCount: run.counts.passed,
      failedCount: run.counts.failed,
      ...(await failuresOf(ctx, runId)),
    };
  },
});

/** As many as fit the limits of one read, in the order in which they came. */
async function failuresOf(ctx: QueryCtx, runId: Id<"runs">): Promise<{ failedEvals: Infer<typeof failedEval>[]; isTruncated: boolean }> {
  const failedEvals: Infer<typeof failedEval>[] = [];
  let [bytes, after] = [0, 0];
  for (;;) {
    const cells = await ctx.db
      .query("evals")
      .withIndex("by_status", (q) => q.eq("runId", runId).eq("status.kind", "failed").gt("_creationTime", after))
      .take(READ_CHUNK);
    if (cells.length === 0) return { failedEvals, isTruncated: false };
    if (failedEvals.length >= MAX_FAILED || bytes >= FAILED_BYTES) return { failedEvals, isTruncated: true };
    for (const cell of cells) {
      // Rows of earlier versions do not say at which step they failed.
      const steps = cell.failedStep === undefined ? await stepsOf(ctx, cell._id) : [];
      failedEvals.push(describe(cell, cell.failedStep ?? failedStep(steps)));
      bytes += [cell, ...steps].reduce((sum, row) => sum + getConvexSize(row), 0);
      after = cell._creationTime;
    }
  }
}

function describe({ _id, evalPath, category, name, status }: Doc<"evals">, at: Step["name"] | null): Infer<typeof failedEval> {
  return { _id, evalPath, category, name, failureReason: "reason" in status ? cut(status.reason, SHORT_REASON) : "", failedStep: at };
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
