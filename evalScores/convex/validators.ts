// Shapes that tables, arguments and results share.
import { v, type Infer } from "convex/values";

export const scope = v.union(v.literal("report"), v.literal("maintain"), v.literal("mint"));
export type Scope = Infer<typeof scope>;

const passed = v.object({ kind: v.literal("passed") });
/** The submission's fault. */
const failed = v.object({ kind: v.literal("failed"), cause: v.string(), reason: v.string() });
/** Ours: infrastructure, grader, provider, budget. */
const error = v.object({ kind: v.literal("error"), cause: v.string(), reason: v.string() });
const pending = v.object({ kind: v.literal("pending") });
const running = v.object({ kind: v.literal("running") });
const notMade = v.object({ kind: v.literal("not_made"), reason: v.string() });

/** How a cell or a step ended. */
export const verdict = v.union(passed, failed, error);
export type Verdict = Infer<typeof verdict>;
/** How a check ended; `not_made`: the backend that graded cannot show what the check needs. */
export const checkVerdict = v.union(passed, failed, error, notMade);
export type CheckVerdict = Infer<typeof checkVerdict>;
/** Where a run or a cell is. */
export const status = v.union(pending, running, passed, failed, error);
export type Status = Infer<typeof status>;

export const stepName = v.union(
  v.literal("filesystem"),
  v.literal("install"),
  v.literal("deploy"),
  v.literal("tsc"),
  v.literal("eslint"),
  v.literal("tests"),
);

export const check = v.object({ name: v.string(), verdict: checkVerdict, durationMs: v.number(), detail: v.string() });
export type Check = Infer<typeof check>;
export const step = v.object({ name: stepName, verdict, durationMs: v.number(), checks: v.array(check) });
export type Step = Infer<typeof step>;

/** Null is unknown, which is not zero. */
const known = v.union(v.number(), v.null());
export const usage = v.object({
  inputTokens: known,
  outputTokens: known,
  reasoningTokens: known,
  cachedTokens: known,
  costUsd: known,
});

/** Which cell of a run; a higher attempt replaces a lower one. */
export const cell = v.object({ evalPath: v.string(), repeat: v.number(), attempt: v.number() });
export type Cell = Infer<typeof cell>;

export const result = v.object({
  verdict,
  steps: v.array(step),
  usage,
  generationMs: known,
  gradingMs: v.number(),
  startedAt: v.number(),
  output: v.optional(v.string()),
  source: v.optional(v.string()),
  /** SHA-256 of whatever makes the model's answer this one; the same when a paid answer is used again. */
  answer: v.optional(v.string()),
});
export type Result = Infer<typeof result>;

export const backend = v.object({ kind: v.string(), version: v.string() });
export const runStart = v.object({
  key: v.string(),
  model: v.string(),
  experiment: v.string(),
  fingerprint: v.string(),
  plannedEvals: v.array(v.string()),
  repeats: v.number(),
  backend,
  gitCommit: v.optional(v.string()),
  ciUrl: v.optional(v.string()),
  startedAt: v.number(),
});
export type RunStart = Infer<typeof runStart>;

/** Cells by status; the others of `planned` are pending. */
export const counts = v.object({ planned: v.number(), running: v.number(), passed: v.number(), failed: v.number(), error: v.number() });
export const categoryCounts = v.object({ category: v.string(), passed: v.number(), failed: v.number() });
/** Sums of integers, so that the order of arrival cannot change them. */
export const totals = v.object({
  costNanoUsd: v.number(),
  unknownCosts: v.number(),
  generationMs: v.number(),
  unknownGenerations: v.number(),
});

/** The answers behind the cells of a run: a sum of their hashes, and of how many. */
export const answers = v.object({ sum: v.string(), known: v.number() });
export type Answers = Infer<typeof answers>;

export const interval = v.object({ low: v.number(), high: v.number() });
export const categoryScore = v.object({ category: v.string(), score: v.number(), trials: v.number() });
export const part = v.object({ name: v.string(), hash: v.string() });
