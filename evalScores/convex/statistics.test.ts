import { expect, test } from "vitest";
import { mean, scoreOf, wilson, type RankedRun } from "./statistics";

// The two rates q with (rate - q)² = z²·q·(1 - q)/trials: roots of a quadratic, computed apart from the code under test.
test.each([
  [0.5, 10, 0.236593, 0.763407],
  [0.8, 10, 0.490162, 0.943318],
  [0, 10, 0, 0.277533],
  [1, 10, 0.722467, 1],
  [0.25, 72, 0.164391, 0.360935],
])("the interval of %d in %d trials", (rate, trials, low, high) => {
  expect(wilson(rate, trials).low).toBeCloseTo(low, 5);
  expect(wilson(rate, trials).high).toBeCloseTo(high, 5);
});

test("without trials nothing is known", () => {
  expect(wilson(0, 0)).toEqual({ low: 0, high: 1 });
  expect(mean([])).toBeNull();
  expect(scoreOf([])).toBeNull();
});

function run(passed: number, failed: number, changes: Partial<RankedRun> = {}): RankedRun {
  return {
    counts: { planned: passed + failed, running: 0, passed, failed, error: 0 },
    categories: [{ category: "a", passed, failed }],
    totals: { costNanoUsd: 1e9, unknownCosts: 0, generationMs: (passed + failed) * 500, unknownGenerations: 0 },
    startedAt: passed,
    ...changes,
  };
}

test("a score is the mean of the runs' rates, not the middle of the extremes", () => {
  const score = scoreOf([run(10, 0), run(10, 0), run(10, 0), run(2, 8)]);
  expect(score?.score).toBeCloseTo(0.8, 12);
  expect(score).toMatchObject({ runs: 4, trials: 40, newestRunAt: 10, meanCostUsd: 1, meanGenerationMs: 500 });
  expect(score?.interval).toEqual(wilson(0.8, 40));
});

test("each run weighs the same, whatever its repeats", () => {
  expect(scoreOf([run(1, 0), run(0, 9)])).toMatchObject({ score: 0.5, trials: 10 });
});

// Of 4²/(1/10 + 1/10 + 1/10 + 1/100) = 51.6129 and 2²/(1/4 + 1/36) = 14.4 trials, by the same quadratic as above.
test.each([
  [[run(5, 5), run(5, 5), run(5, 5), run(50, 50)], 130, 0.368402, 0.631598],
  [[run(3, 1), run(27, 9)], 40, 0.491787, 0.902918],
])("runs of different length make the interval of their effective number of trials (%#)", (runs, trials, low, high) => {
  const score = scoreOf(runs);
  expect(score?.trials).toBe(trials);
  expect(score?.interval.low).toBeCloseTo(low, 5);
  expect(score?.interval.high).toBeCloseTo(high, 5);
});

test("categories have their own means", () => {
  const first = run(3, 1, {
    categories: [
      { category: "b", passed: 1, failed: 1 },
      { category: "a", passed: 2, failed: 0 },
    ],
  });
  const second = run(1, 3, {
    categories: [
      { category: "b", passed: 1, failed: 1 },
      { category: "a", passed: 0, failed: 2 },
    ],
  });
  expect(scoreOf([first, second])?.categories).toEqual([
    { category: "a", score: 0.5, trials: 4 },
    { category: "b", score: 0.5, trials: 4 },
  ]);
});

test("an unknown cost is unknown, not zero", () => {
  const unknown = run(1, 0, { totals: { costNanoUsd: 0, unknownCosts: 1, generationMs: 0, unknownGenerations: 1 } });
  expect(scoreOf([unknown])).toMatchObject({ meanCostUsd: null, meanGenerationMs: null });
  expect(scoreOf([unknown, run(1, 0)])).toMatchObject({ meanCostUsd: 1, meanGenerationMs: 500 });
});
