import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalQuery, mutation, query, type QueryCtx } from "./_generated/server";
import { leaderboard } from "./lib";

const find = (ctx: QueryCtx, player: string) =>
  ctx.db.query("scores").withIndex("by_player", (q) => q.eq("player", player)).unique();

export const submitScore = mutation({
  args: { player: v.string(), points: v.number() },
  handler: async (ctx, after) => {
    const before = await find(ctx, after.player);
    await Promise.all([
      before ? ctx.db.replace(before._id, after) : ctx.db.insert("scores", after),
      leaderboard.put(ctx, before, after),
    ]);
    return null;
  },
});

export const removePlayer = mutation({
  args: { player: v.string() },
  handler: async (ctx, { player }) => {
    const before = await find(ctx, player);
    if (!before) return false;
    await ctx.db.delete(before._id);
    await leaderboard.put(ctx, before, null);
    return true;
  },
});

export const ahead = internalQuery({
  args: { points: v.number() },
  handler: async (ctx, { points }) => await leaderboard.ahead(ctx, points),
});

export const rankOf = query({
  args: { player: v.string() },
  handler: async (ctx, { player }): Promise<number | null> => {
    const score = await find(ctx, player);
    if (score === null) return null;
    let rank = 1;
    rank += await ctx.runQuery(internal.leaderboard.ahead, { points: score.points });
    return rank;
  },
});

export const playerCount = query({
  args: {},
  handler: async (ctx) => {
    const size = await leaderboard.size(ctx);
    return size;
  },
});
