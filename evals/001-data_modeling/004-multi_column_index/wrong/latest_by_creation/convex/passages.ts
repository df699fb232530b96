import { v } from "convex/values";
import { query } from "./_generated/server";

export const between = query({
  args: { stop: v.string(), from: v.number(), until: v.number() },
  handler: async (ctx, { stop, from, until }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_stop_and_passedAt", (q) => q.eq("stop", stop).gte("passedAt", from).lt("passedAt", until))
      .collect(),
});

export const latest = query({
  args: { stop: v.string(), count: v.number() },
  handler: async (ctx, { stop, count }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_stop", (q) => q.eq("stop", stop))
      .order("desc")
      .take(count),
});

export const lastBefore = query({
  args: { stop: v.string(), time: v.number() },
  handler: async (ctx, { stop, time }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_stop_and_passedAt", (q) => q.eq("stop", stop).lt("passedAt", time))
      .order("desc")
      .first(),
});
