import { v } from "convex/values";
import { query } from "./_generated/server";

export const between = query({
  args: { stop: v.string(), from: v.number(), until: v.number() },
  handler: async (ctx, { stop, from, until }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_passedAt_and_stop", (q) => q.gte("passedAt", from).lt("passedAt", until))
      .filter((q) => q.eq(q.field("stop"), stop))
      .collect(),
});

export const latest = query({
  args: { stop: v.string(), count: v.number() },
  handler: async (ctx, { stop, count }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_passedAt_and_stop")
      .order("desc")
      .filter((q) => q.eq(q.field("stop"), stop))
      .take(count),
});

export const lastBefore = query({
  args: { stop: v.string(), time: v.number() },
  handler: async (ctx, { stop, time }) =>
    await ctx.db
      .query("passages")
      .withIndex("by_passedAt_and_stop", (q) => q.lt("passedAt", time))
      .order("desc")
      .filter((q) => q.eq(q.field("stop"), stop))
      .first(),
});
