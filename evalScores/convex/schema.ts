// The tables. Every read has an index; every index has a read.
import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";
import { answers, backend, categoryCounts, counts, status, totals } from "./validators";
import { categoryScore, checkVerdict, interval, part, scope, stepName, usage, verdict } from "./validators";

export default defineSchema({
  authTokens: defineTable({
    name: v.string(),
    /** SHA-256 of the token; the token itself is never here. */
    hash: v.string(),
    scopes: v.array(scope),
    expiresAt: v.optional(v.number()),
    lastUsedAt: v.optional(v.number()),
    revokedAt: v.optional(v.number()),
  })
    .index("by_hash", ["hash"])
    .index("by_name", ["name"]),

  models: defineTable({ slug: v.string(), displayName: v.string(), provider: v.string(), firstSeenAt: v.number() }),
  /** Every slug a model has or had. */
  modelSlugs: defineTable({ slug: v.string(), modelId: v.id("models") }).index("by_slug", ["slug"]),
  experiments: defineTable({ name: v.string() }).index("by_name", ["name"]),

  /** What a fingerprint stands for. */
  suites: defineTable({ fingerprint: v.string(), evals: v.array(v.string()), parts: v.array(part) }).index("by_fingerprint", [
    "fingerprint",
  ]),
  /** Suites with a name. */
  benchmarkVersions: defineTable({
    name: v.string(),
    suiteId: v.id("suites"),
    fingerprint: v.string(),
    notes: v.optional(v.string()),
    mintedBy: v.string(),
  })
    .index("by_name", ["name"])
    .index("by_suite", ["suiteId"]),

  runs: defineTable({
    key: v.string(),
    modelId: v.id("models"),
    experimentId: v.id("experiments"),
    suiteId: v.id("suites"),
    plannedEvals: v.array(v.string()),
    repeats: v.number(),
    backend,
    gitCommit: v.optional(v.string()),
    ciUrl: v.optional(v.string()),
    startedAt: v.number(),
    /** Of everything above, as the client sent it. */
    digest: v.string(),
    /** By the server's clock. */
    heartbeatAt: v.number(),
    /** The newest heartbeat, by the client's clock; at most the server's. */
    heartbeatSentAt: v.optional(v.number()),
    endedAt: v.optional(v.number()),
    abandonedAt: v.optional(v.number()),
    /** The plan is the whole suite. */
    coversSuite: v.boolean(),
    /** Follow from the cells and the times above: see `settle`. */
    status,
    complete: v.boolean(),
    counts,
    categories: v.array(categoryCounts),
    totals,
    /** Absent in rows of earlier versions, whose answers nobody told. */
    answers: v.optional(answers),
    /** Which answers a complete run is about: see `samples`. */
    sample: v.optional(v.string()),
    /** A newer run has the same sample, and counts in place of this one. */
    duplicate: v.optional(v.literal(true)),
  })
    .index("by_key", ["key"])
    .index("by_model", ["modelId"])
    .index("by_status", ["status.kind", "heartbeatAt"])
    .index("by_version", ["modelId", "experimentId", "suiteId", "complete", "duplicate", "startedAt"])
    .index("by_experiment", ["modelId", "experimentId", "complete", "duplicate", "startedAt"])
    .index("by_sample", ["modelId", "experimentId", "suiteId", "sample", "startedAt"]),
  /** Keys that must not come back, and the evidence that there was a run. */
  deletedRuns: defineTable({
    key: v.string(),
    /** By which rows that are left are found; absent in rows of earlier versions. */
    runId: v.optional(v.id("runs")),
    modelId: v.id("models"),
    experimentId: v.id("experiments"),
    startedAt: v.number(),
    reason: v.string(),
    deletedBy: v.string(),
  }).index("by_key", ["key"]),

  evals: defineTable({
    runId: v.id("runs"),
    evalPath: v.string(),
    category: v.string(),
    name: v.string(),
    repeat: v.number(),
    attempt: v.number(),
    status,
    /** Of the result as it was sent; absent until there is one. */
    digest: v.optional(v.string()),
    answer: v.optional(v.string()),
    usage: v.optional(usage),
    generationMs: v.optional(v.union(v.number(), v.null())),
    gradingMs: v.optional(v.number()),
    startedAt: v.optional(v.number()),
    /** The first step that failed, null when none did; absent in rows of earlier versions. */
    failedStep: v.optional(v.union(stepName, v.null())),
    outputId: v.optional(v.id("assets")),
    sourceId: v.optional(v.id("assets")),
  })
    .index("by_cell", ["runId", "evalPath", "repeat"])
    .index("by_status", ["runId", "status.kind"])
    .index("by_output", ["outputId"])
    .index("by_source", ["sourceId"]),
  steps: defineTable({
    runId: v.id("runs"),
    evalId: v.id("evals"),
    position: v.number(),
    name: stepName,
    verdict,
    durationMs: v.number(),
  })
    .index("by_eval", ["evalId", "position"])
    .index("by_run", ["runId"]),
  checks: defineTable({
    runId: v.id("runs"),
    evalId: v.id("evals"),
    step: stepName,
    position: v.number(),
    name: v.string(),
    verdict: checkVerdict,
    durationMs: v.number(),
    detail: v.string(),
  })
    .index("by_eval", ["evalId", "step", "position"])
    .index("by_run", ["runId"]),
  /** Stored archives, one per content. */
  assets: defineTable({ sha256: v.string(), storageId: v.id("_storage"), size: v.number() })
    .index("by_sha256", ["sha256"])
    .index("by_storage", ["storageId"]),
  /** How far the search for files without an owner has come. */
  fileSweeps: defineTable({ sweptUntil: v.number() }),

  /** Materialised; `suiteId` is null in the score over all versions. */
  modelScores: defineTable({
    modelId: v.id("models"),
    experimentId: v.id("experiments"),
    suiteId: v.union(v.id("suites"), v.null()),
    runs: v.number(),
    score: v.number(),
    interval,
    trials: v.number(),
    categories: v.array(categoryScore),
    meanCostUsd: v.union(v.number(), v.null()),
    meanGenerationMs: v.union(v.number(), v.null()),
    newestRunAt: v.number(),
    /** Of the suite, so that no board has to read suites; absent over all suites. */
    fingerprint: v.optional(v.string()),
    suiteAt: v.optional(v.number()),
    /** When the suite became a version; absent while it is none. */
    mintedAt: v.optional(v.number()),
  })
    .index("by_suite", ["experimentId", "suiteId", "score"])
    .index("by_model", ["modelId", "experimentId", "suiteId"])
    .index("by_newest_suite", ["experimentId", "suiteAt"])
    .index("by_model_suite", ["modelId", "experimentId", "suiteAt"])
    .index("by_model_version", ["modelId", "experimentId", "mintedAt"])
    .index("by_minted", ["suiteId", "mintedAt"]),
});
