// The one place that decides what a run is worth: its counters follow each change of a cell, its status follows from them.
import type { WithoutSystemFields } from "convex/server";
import type { Doc } from "./_generated/dataModel";
import type { MutationCtx } from "./_generated/server";
import { refreshScores } from "./modelScores";
import { addAnswer, joinSample, leaveSample, sampleOf } from "./samples";
import { nanoUsd } from "./statistics";
import type { Status } from "./validators";

type Run = WithoutSystemFields<Doc<"runs">>;
/** What counts about a cell; null: there is none yet. */
export type Counted = Pick<Doc<"evals">, "category" | "status" | "usage" | "generationMs" | "answer"> | null;
export type Tally = Pick<Run, "counts" | "categories" | "totals" | "answers">;

/** The tally after a cell has changed. */
export function tallyAfter(tally: Tally, before: Counted, after: Counted): Tally {
  const { counts, categories, totals, answers } = tally;
  const changed = structuredClone({ counts, categories, totals, answers });
  count(changed, before, -1);
  count(changed, after, 1);
  changed.categories = changed.categories.filter(({ passed, failed }) => passed + failed > 0);
  changed.categories.sort((a, b) => (a.category < b.category ? -1 : 1));
  return changed;
}

function count(tally: Tally, cell: Counted, by: 1 | -1): void {
  if (cell === null) return;
  const { counts, categories, totals } = tally;
  if (tally.answers !== undefined && cell.answer !== undefined) tally.answers = addAnswer(tally.answers, cell.answer, by);
  const { kind } = cell.status;
  if (kind !== "pending") counts[kind] += by;
  if (kind === "passed" || kind === "failed") {
    let found = categories.find(({ category }) => category === cell.category);
    if (found === undefined) categories.push((found = { category: cell.category, passed: 0, failed: 0 }));
    found[kind] += by;
  }
  if (cell.usage === undefined) return;
  const { costUsd } = cell.usage;
  if (costUsd === null) totals.unknownCosts += by;
  else totals.costNanoUsd += by * nanoUsd(costUsd);
  if (cell.generationMs === null || cell.generationMs === undefined) totals.unknownGenerations += by;
  else totals.generationMs += by * Math.round(cell.generationMs);
}

/** Stores changes of a run with everything that follows from them, the scores of its model included. */
export async function settle(ctx: MutationCtx, before: Doc<"runs">, changes: Partial<Run>): Promise<void> {
  const run = { ...before, ...changes };
  const verdicts = run.counts.passed + run.counts.failed;
  const complete = run.coversSuite && verdicts === run.counts.planned;
  const sample = sampleOf(run, complete);
  const status = statusOf(run);
  if (sample === before.sample) {
    await ctx.db.patch(before._id, { ...changes, complete, status });
  } else {
    await ctx.db.patch(before._id, { ...changes, complete, status, sample, duplicate: undefined });
    await leaveSample(ctx, run, before.sample);
    await joinSample(ctx, run, sample);
  }
  const ranked = before.complete || complete;
  if (ranked && (before.complete !== complete || changes.counts !== undefined)) await refreshScores(ctx, run);
}

export function hasEnded({ endedAt, abandonedAt }: Pick<Run, "endedAt" | "abandonedAt">): boolean {
  return endedAt !== undefined || abandonedAt !== undefined;
}

function statusOf(run: Run): Status {
  const { counts, endedAt } = run;
  const { planned, passed, failed } = counts;
  if (!hasEnded(run)) {
    return { kind: passed + failed + counts.error + counts.running > 0 ? "running" : "pending" };
  }
  if (passed === planned) return { kind: "passed" };
  if (passed + failed === planned) return { kind: "failed", cause: "evals", reason: `${failed} of ${planned} evals failed` };
  const open = `${planned - passed - failed} of ${planned} evals have no verdict`;
  if (endedAt !== undefined) return { kind: "error", cause: "incomplete", reason: open };
  return { kind: "error", cause: "abandoned", reason: `no sign of life for three hours; ${open}` };
}
