import { TableAggregate } from "@convex-dev/aggregate";
import { v } from "convex/values";
import { components } from "./_generated/api";
import type { DataModel } from "./_generated/dataModel";
import { mutation, query, type QueryCtx } from "./_generated/server";

const byPoints = new TableAggregate<{
  Key: number;
  DataModel: DataModel;
  TableName: "scores";
}>(components.aggregate, { sortKey: (score) => score.points });

function scoreOf(ctx: QueryCtx, player: string) {
  return ctx.db
    .query("scores")
    .withIndex("by_player", (q) => q.eq("player", player))
    .unique();
}

export const submitScore = mutation({
  args: { player: v.string(), points: v.number() },
  returns: v.null(),
  handler: async (ctx, { player, points }) => {
    const before = await scoreOf(ctx, player);
    if (before === null) {
      const id = await ctx.db.insert("scores", { player, points });
      const created = await ctx.db.get(id);
      await byPoints.insert(ctx, created!, { async: true });
    } else {
      await ctx.db.patch(before._id, { points });
      await byPoints.replace(ctx, before, { ...before, points }, { async: true });
    }
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
    await byPoints.delete(ctx, score, { async: true });
    return true;
  },
});

export const rankOf = query({
  args: { player: v.string() },
  returns: v.union(v.number(), v.null()),
  handler: async (ctx, { player }) => {
    const score = await scoreOf(ctx, player);
    if (score === null) return null;
    const ahead = await byPoints.count(ctx, {
      bounds: { lower: { key: score.points, inclusive: false } },
      stale: true,
    });
    return ahead + 1;
  },
});

export const playerCount = query({
  args: {},
  returns: v.number(),
  handler: async (ctx) => byPoints.count(ctx, { stale: true }),
});
