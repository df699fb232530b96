import { TableAggregate } from "@convex-dev/aggregate";
import { v } from "convex/values";
import { components } from "./_generated/api";
import type { DataModel, Doc } from "./_generated/dataModel";
import { mutation, query, type MutationCtx, type QueryCtx } from "./_generated/server";

function scoreOf(ctx: QueryCtx, player: string) {
  return ctx.db
    .query("scores")
    .withIndex("by_player", (q) => q.eq("player", player))
    .unique();
}

const byPoints = new TableAggregate<{
  Key: number;
  DataModel: DataModel;
  TableName: "scores";
}>(components.aggregate, { sortKey: (score) => score.points });

export async function countAhead(ctx: QueryCtx, points: number) {
  return await byPoints.count(ctx, { bounds: { lower: { key: points, inclusive: false } } });
}

export async function keepInStep(ctx: MutationCtx, before: Doc<"scores"> | null, after: Doc<"scores"> | null) {
  if (before && after) await byPoints.replace(ctx, before, after);
  else if (after) await byPoints.insert(ctx, after);
  else if (before) await byPoints.delete(ctx, before);
}

export const submitScore = mutation({
  args: { player: v.string(), points: v.number() },
  returns: v.null(),
  handler: async (ctx, { player, points }) => {
    const before = await scoreOf(ctx, player);
    if (before === null) await ctx.db.insert("scores", { player, points });
    else await ctx.db.patch(before._id, { points });
    return null;
  },
});

export const removePlayer = mutation({
  args: { player: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { player }) => {
    const score = await scoreOf(ctx, player);
    if (score === null) return false;
    await ctx.db.delete(score._id);
    return true;
  },
});

export const rankOf = query({
  args: { player: v.string() },
  returns: v.union(v.number(), v.null()),
  handler: async (ctx, { player }) => {
    const score = await scoreOf(ctx, player);
    if (score === null) return null;
    const all = await ctx.db.query("scores").collect();
    return all.filter((other) => other.points > score.points).length + 1;
  },
});

export const playerCount = query({
  args: {},
  returns: v.number(),
  handler: async (ctx) => (await ctx.db.query("scores").collect()).length,
});
