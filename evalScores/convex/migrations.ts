// Changes of rows that are there already: loosen the schema, run these, tighten it (README.md).
import { Migrations } from "@convex-dev/migrations";
import { components, internal } from "./_generated/api";
import type { DataModel } from "./_generated/dataModel";
import { internalMutation } from "./_generated/server";
import { splitEvalPath } from "./input";
import { ageOf } from "./modelScores";

export const migrations = new Migrations<DataModel>(components.migrations, { internalMutation });

/** Cells once had only their path. */
export const fillEvalNames = migrations.define({
  table: "evals",
  migrateOne: (_ctx, { evalPath, category, name }: { evalPath: string; category?: string; name?: string }) =>
    category === undefined || name === undefined ? splitEvalPath(evalPath) : undefined,
});

/** Scores once did not say how new their suite is. */
export const fillScoreAges = migrations.define({
  table: "modelScores",
  migrateOne: async (ctx, { suiteId, suiteAt }) => (suiteId === null || suiteAt !== undefined ? undefined : await ageOf(ctx, suiteId)),
});

export const run = migrations.runner();
export const runAll = migrations.runner([internal.migrations.fillEvalNames, internal.migrations.fillScoreAges]);
