// Experiments: the named conditions under which models are asked.
import { paginationOptsValidator, paginationResultValidator } from "convex/server";
import { v } from "convex/values";
import type { Doc, Id } from "./_generated/dataModel";
import { query, type MutationCtx, type QueryCtx } from "./_generated/server";
import { checkName } from "./input";

export const DEFAULT_EXPERIMENT = "default";

export function findExperiment(ctx: QueryCtx, name: string): Promise<Doc<"experiments"> | null> {
  return ctx.db
    .query("experiments")
    .withIndex("by_name", (q) => q.eq("name", name))
    .unique();
}

export async function ensureExperiment(ctx: MutationCtx, name: string): Promise<Id<"experiments">> {
  checkName("name of the experiment", name);
  return (await findExperiment(ctx, name))?._id ?? (await ctx.db.insert("experiments", { name }));
}

export const list = query({
  args: { paginationOpts: paginationOptsValidator },
  returns: paginationResultValidator(v.object({ name: v.string() })),
  handler: async (ctx, { paginationOpts }) => {
    const experiments = await ctx.db.query("experiments").paginate(paginationOpts);
    return { ...experiments, page: experiments.page.map(({ name }) => ({ name })) };
  },
});
