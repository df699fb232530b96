import { v } from "convex/values";
import { query as publicQuery } from "./_generated/server";
import { mutation, scores } from "./functions";

export const submitScore = mutation({
  args: { player: v.string(), points: v.number() },
  handler: async (ctx, args) => {
    const old = await ctx.db
      .query("scores")
      .withIndex("by_player", (q) => q.eq("player", args.player))
      .first();
    if (old) await ctx.db.patch(old._id, { points: args.points });
    else await ctx.db.insert("scores", args);
    return null;
  },
});

export const removePlayer = mutation({
  args: { player: v.string() },
  handler: async (ctx, args) => {
    const old = await ctx.db
      .query("scores")
      .withIndex("by_player", (q) => q.eq("player", args.player))
      .first();
    if (!old) return false;
    await ctx.db.delete(old._id);
    return true;
  },
});

export const rankOf = publicQuery({
  args: { player: v.string() },
  handler: async (ctx, args) => {
    const mine = await ctx.db
      .query("scores")
      .withIndex("by_player", (q) => q.eq("player", args.player))
      .first();
    return mine === null ? null : (await scores.indexOf(ctx, -mine.points)) + 1;
  },
});

export const playerCount = publicQuery({
  args: {},
  handler: (ctx) => scores.count(ctx),
});
