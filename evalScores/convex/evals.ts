// Cells of a run: which eval, which repeat, how it ended.
import { paginationOptsValidator, paginationResultValidator } from "convex/server";
import { getConvexSize, v } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { findAsset, releaseAsset } from "./assets";
import { checksOf } from "./checks";
import { refusal } from "./errors";
import { checkAmount, checkCount, digest, splitEvalPath, TextBudget } from "./input";
import { BATCH_BYTES, CELL_BATCH, DELETE_BATCH, READ_CHUNK } from "./limits";
import { checkAnswer } from "./samples";
import { hasEnded, settle, tallyAfter, type Tally } from "./settle";
import { acceptSteps, addStep, clearSteps, failedStep, hasChanged, stepsOf } from "./steps";
import { checkVerdict, status, stepName, usage, verdict, type Cell, type Result, type Step } from "./validators";

const RUNNING = { kind: "running" as const };
const UNFINISHED = { kind: "error" as const, cause: "unfinished", reason: "its run ended before there was a verdict" };

async function findCell(ctx: QueryCtx, run: Doc<"runs">, cell: Cell): Promise<Doc<"evals"> | null> {
  if (!run.plannedEvals.includes(cell.evalPath))
    throw refusal("unplanned_eval", `The run ${run.key} does not plan the eval ${cell.evalPath}.`);
  checkCount("repeat", cell.repeat, 1);
  checkCount("attempt", cell.attempt, 1);
  if (cell.repeat > run.repeats) throw refusal("unplanned_eval", `The run ${run.key} plans ${run.repeats} repeats, not ${cell.repeat}.`);
  return await ctx.db
    .query("evals")
    .withIndex("by_cell", (q) => q.eq("runId", run._id).eq("evalPath", cell.evalPath).eq("repeat", cell.repeat))
    .unique();
}

/** A cell begins. What is finished, or has begun, is left alone. */
export async function startEval(ctx: MutationCtx, run: Doc<"runs">, cell: Cell): Promise<void> {
  await openCell(ctx, run, cell, await findCell(ctx, run, cell));
}

/** The cell as this attempt may write to it; null when nothing is to be written. */
async function openCell(ctx: MutationCtx, run: Doc<"runs">, cell: Cell, known: Doc<"evals"> | null): Promise<Doc<"evals"> | null> {
  if (known !== null && (known.digest !== undefined || known.attempt > cell.attempt)) return null;
  if (known?.attempt === cell.attempt) return known;
  const begun = hasEnded(run) ? UNFINISHED : RUNNING;
  if (known !== null) {
    await clearSteps(ctx, known._id);
    await ctx.db.patch(known._id, { attempt: cell.attempt, status: begun });
  }
  const evalId = known?._id ?? (await ctx.db.insert("evals", { runId: run._id, ...splitEvalPath(cell.evalPath), ...cell, status: begun }));
  const opened = await ctx.db.get(evalId);
  await settle(ctx, run, { ...tallyAfter(run, known, opened), heartbeatAt: Date.now() });
  return opened;
}

/** A step of a cell that is still running, for those who watch. */
export async function reportStep(ctx: MutationCtx, run: Doc<"runs">, cell: Cell, step: Step): Promise<void> {
  const [accepted] = acceptSteps([step], new TextBudget());
  const open = await openCell(ctx, run, cell, await findCell(ctx, run, cell));
  if (open === null || accepted === undefined) return;
  const known = (await stepsOf(ctx, open._id)).find(({ name }) => name === step.name);
  if (known === undefined) await addStep(ctx, open, accepted);
  else if (await hasChanged(ctx, known, accepted))
    throw refusal("conflict", `The step ${step.name} of ${cell.evalPath} was reported with another content.`);
}

/** The verdict on a cell with everything that belongs to it. */
export async function finishEval(ctx: MutationCtx, run: Doc<"runs">, cell: Cell, sent: Result): Promise<Id<"evals">> {
  checkResult(sent);
  const known = await findCell(ctx, run, cell);
  const { answer, ...said } = sent;
  const sentDigest = await digest(said);
  if (known?.digest !== undefined) {
    if (known.attempt > cell.attempt) return known._id;
    if (known.attempt === cell.attempt) {
      if (known.digest === sentDigest) return known._id;
      throw refusal("conflict", `Attempt ${cell.attempt} of ${cell.evalPath} has another result. A new result needs a higher attempt.`);
    }
  }
  const { verdict: sentVerdict, steps: sentSteps, output, source, ...measured } = said;
  const budget = new TextBudget();
  const row = {
    runId: run._id,
    ...splitEvalPath(cell.evalPath),
    ...cell,
    ...measured,
    status: budget.cutReason(sentVerdict),
    digest: sentDigest,
    answer,
    failedStep: failedStep(sentSteps),
    outputId: output === undefined ? undefined : await findAsset(ctx, output),
    sourceId: source === undefined ? undefined : await findAsset(ctx, source),
  };
  const steps = acceptSteps(sentSteps, budget);
  if (known !== null) {
    await clearSteps(ctx, known._id);
    await ctx.db.replace(known._id, row);
    for (const [before, after] of [
      [known.outputId, row.outputId],
      [known.sourceId, row.sourceId],
    ]) {
      if (before !== undefined && before !== after) await releaseAsset(ctx, before);
    }
  }
  const evalId = known?._id ?? (await ctx.db.insert("evals", row));
  const finished = await ctx.db.get(evalId);
  if (finished !== null) for (const step of steps) await addStep(ctx, finished, step);
  await settle(ctx, run, { ...tallyAfter(run, known, row), heartbeatAt: Date.now() });
  return evalId;
}

function checkResult({ generationMs, gradingMs, startedAt, usage: used, answer }: Result): void {
  checkAnswer(answer);
  for (const [what, value] of Object.entries({ generationMs, gradingMs, startedAt, ...used })) checkAmount(what, value);
}

/** Ends a batch of the cells that are still running when their run ends. */
export async function endRunningCells(ctx: MutationCtx, run: Doc<"runs">): Promise<{ tally: Tally; more: boolean }> {
  const stuck = await ctx.db
    .query("evals")
    .withIndex("by_status", (q) => q.eq("runId", run._id).eq("status.kind", "running"))
    .take(CELL_BATCH);
  let tally: Tally = { counts: run.counts, categories: run.categories, totals: run.totals, answers: run.answers };
  for (const cell of stuck) {
    await ctx.db.patch(cell._id, { status: UNFINISHED });
    tally = tallyAfter(tally, cell, { ...cell, status: UNFINISHED });
  }
  return { tally, more: stuck.length === CELL_BATCH };
}

/** Deletes a batch of what belonged to a run, by rows and by bytes; true when there may be more. */
export async function deleteRows(ctx: MutationCtx, runId: Id<"runs">): Promise<boolean> {
  let [count, bytes] = [0, 0];
  while (count < DELETE_BATCH && bytes < BATCH_BYTES) {
    const rows = await someRows(ctx, runId);
    if (rows.length === 0) return false;
    for (const row of rows) {
      await ctx.db.delete(row._id);
      bytes += getConvexSize(row);
      if ("outputId" in row && row.outputId !== undefined) await releaseAsset(ctx, row.outputId);
      if ("sourceId" in row && row.sourceId !== undefined) await releaseAsset(ctx, row.sourceId);
    }
    count += rows.length;
  }
  return true;
}

/** A few rows of a run, its cells last: through them the others are known. */
async function someRows(ctx: QueryCtx, runId: Id<"runs">): Promise<Doc<"checks" | "steps" | "evals">[]> {
  for (const table of ["checks", "steps"] as const) {
    const rows = await ctx.db
      .query(table)
      .withIndex("by_run", (q) => q.eq("runId", runId))
      .take(READ_CHUNK);
    if (rows.length > 0) return rows;
  }
  return await ctx.db
    .query("evals")
    .withIndex("by_cell", (q) => q.eq("runId", runId))
    .take(READ_CHUNK);
}

export const cellView = v.object({
  _id: v.id("evals"),
  evalPath: v.string(),
  category: v.string(),
  name: v.string(),
  repeat: v.number(),
  attempt: v.number(),
  status,
  usage: v.optional(usage),
  generationMs: v.optional(v.union(v.number(), v.null())),
  gradingMs: v.optional(v.number()),
});

export function viewCell({ _id, evalPath, category, name, repeat, attempt, generationMs, gradingMs, ...cell }: Doc<"evals">) {
  return { _id, evalPath, category, name, repeat, attempt, generationMs, gradingMs, status: cell.status, usage: cell.usage };
}

export const stepView = v.object({
  name: stepName,
  verdict,
  durationMs: v.number(),
  checks: v.array(v.object({ name: v.string(), verdict: checkVerdict, durationMs: v.number(), detail: v.string() })),
});

export async function viewSteps(ctx: QueryCtx, evalId: Id<"evals">) {
  const checks = await checksOf(ctx, evalId);
  return (await stepsOf(ctx, evalId)).map((step) => ({
    name: step.name,
    verdict: step.verdict,
    durationMs: step.durationMs,
    checks: checks
      .filter((check) => check.step === step.name)
      .map(({ name, durationMs, detail, ...check }) => ({ name, durationMs, detail, verdict: check.verdict })),
  }));
}

export const listForRun = query({
  args: { runId: v.id("runs"), paginationOpts: paginationOptsValidator },
  returns: paginationResultValidator(cellView),
  handler: async (ctx, { runId, paginationOpts }) => {
    const run = await ctx.db.get(runId);
    if (run === null) throw refusal("unknown_run", `There is no run ${runId}.`);
    const cells = await ctx.db
      .query("evals")
      .withIndex("by_cell", (q) => q.eq("runId", runId))
      .paginate(paginationOpts);
    return { ...cells, page: cells.page.map(viewCell) };
  },
});

export const get = query({
  args: { evalId: v.id("evals") },
  returns: v.union(v.object({ ...cellView.fields, steps: v.array(stepView) }), v.null()),
  handler: async (ctx, { evalId }) => {
    const cell = await ctx.db.get(evalId);
    if (cell === null || (await ctx.db.get(cell.runId)) === null) return null;
    return { ...viewCell(cell), steps: await viewSteps(ctx, evalId) };
  },
});
