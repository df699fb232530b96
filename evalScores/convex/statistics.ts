// Scores from runs: pure functions with known answers in their tests.
import type { Doc } from "./_generated/dataModel";

const Z95 = 1.959963984540054;
const NANO = 1e9;

export function mean(values: number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * The Wilson score interval (95 %) of a rate seen in so many trials, which need not be a whole number. Repeats of one eval count as
 * trials of their own: evals differ more than repeats do, so that for this suite the interval is rather too wide than too narrow.
 */
export function wilson(rate: number, trials: number): { low: number; high: number } {
  if (trials === 0) return { low: 0, high: 1 };
  const z2 = Z95 ** 2 / trials;
  const centre = (rate + z2 / 2) / (1 + z2);
  const half = (Z95 / (1 + z2)) * Math.sqrt((rate * (1 - rate)) / trials + z2 / (4 * trials));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

export type RankedRun = Pick<Doc<"runs">, "counts" | "categories" | "totals" | "startedAt">;
export type Score = Omit<Doc<"modelScores">, "_id" | "_creationTime" | "modelId" | "experimentId" | "suiteId">;
type Trials = { passed: number; failed: number };

/** The score that complete runs make together; null without a trial. */
export function scoreOf(runs: RankedRun[]): Score | null {
  const overall = rateOver(runs.map((run) => run.counts));
  if (overall === null) return null;
  const names = [...new Set(runs.flatMap((run) => run.categories.map(({ category }) => category)))].sort();
  const known = runs.filter((run) => run.totals.unknownCosts === 0);
  const timed = runs.filter((run) => run.totals.unknownGenerations === 0);
  return {
    runs: runs.length,
    score: overall.score,
    trials: overall.trials,
    interval: wilson(overall.score, overall.effective),
    categories: names.flatMap((category) => {
      const rate = rateOver(runs.flatMap((run) => run.categories.filter((counts) => counts.category === category)));
      return rate === null ? [] : [{ category, score: rate.score, trials: rate.trials }];
    }),
    meanCostUsd: mean(known.map((run) => run.totals.costNanoUsd / NANO)),
    meanGenerationMs: mean(timed.map((run) => run.totals.generationMs / (run.counts.passed + run.counts.failed))),
    newestRunAt: Math.max(...runs.map((run) => run.startedAt)),
  };
}

/**
 * The mean of the runs' rates, and how many trials are behind it. A mean in which k runs of n₁, n₂, … trials weigh the same varies like
 * the rate of k² / (1/n₁ + 1/n₂ + …) trials: the sum of them where runs are alike, less where a short run weighs as much as a long one.
 */
function rateOver(counts: Trials[]): { score: number; trials: number; effective: number } | null {
  const tried = counts.map(({ passed, failed }) => ({ passed, trials: passed + failed })).filter(({ trials }) => trials > 0);
  const score = mean(tried.map(({ passed, trials }) => passed / trials));
  if (score === null) return null;
  const sum = (terms: number[]) => terms.reduce((total, term) => total + term, 0);
  return {
    score,
    trials: sum(tried.map(({ trials }) => trials)),
    effective: tried.length ** 2 / sum(tried.map(({ trials }) => 1 / trials)),
  };
}

export function nanoUsd(usd: number): number {
  return Math.round(usd * NANO);
}
