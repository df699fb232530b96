import { Migrations, runToCompletion as complete } from "@convex-dev/migrations";

import { components, internal } from "./_generated/api";
import type { DataModel } from "./_generated/dataModel";
import { internalMutation } from "./_generated/server";
import schema from "./schema";

export const migrations = new Migrations<DataModel, typeof schema>(components.migrations, { internalMutation, schema });
export const runToCompletion = complete;

export const double = migrations.define({ table: "notes", batchSize: 10, migrateOne: (_ctx, note) => ({ double: note.n * 2 }) });
export const tag = migrations.define({
  table: "notes",
  batchSize: 10,
  customRange: (query) => query.withIndex("by_n", (q) => q.gte("n", 20)),
  parallelize: true,
  migrateOne: async (ctx, note) => {
    await ctx.db.patch(note._id, { tag: "late" });
  },
});
export const fragile = migrations.define({
  table: "notes",
  batchSize: 10,
  migrateOne: (_ctx, note) => {
    if (note.n === 15 && note.tag !== "mended") throw new Error("note 15 is broken");
    return { tag: note.tag ?? "ok" };
  },
});
export const run = migrations.runner();
export const runDouble = migrations.runner(internal.project.double);
export const runSeries = migrations.runner([internal.project.double, internal.project.tag]);
