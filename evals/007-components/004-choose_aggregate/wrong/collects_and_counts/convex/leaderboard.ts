import { v } from "convex/values";
import { mutation, query, type QueryCtx } from "./_generated/server";

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
