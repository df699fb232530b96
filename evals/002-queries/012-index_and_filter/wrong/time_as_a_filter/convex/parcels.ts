import { v } from "convex/values";
import { query } from "./_generated/server";

export const heavy = query({
  args: {
    depot: v.string(),
    from: v.number(),
    until: v.number(),
    minWeight: v.number(),
    limit: v.number(),
  },
  handler: async (ctx, { depot, from, until, minWeight, limit }) =>
    await ctx.db
      .query("parcels")
      .withIndex("by_depot_and_arrivedAt", (q) => q.eq("depot", depot))
      .filter((q) => q.and(q.gte(q.field("arrivedAt"), from), q.lt(q.field("arrivedAt"), until)))
      .order("desc")
      .filter((q) => q.gte(q.field("weight"), minWeight))
      .take(limit),
});

export const nextHeavy = query({
  args: { depot: v.string(), after: v.number(), minWeight: v.number() },
  handler: async (ctx, { depot, after, minWeight }) =>
    await ctx.db
      .query("parcels")
      .withIndex("by_depot_and_arrivedAt", (q) => q.eq("depot", depot))
      .filter((q) => q.gt(q.field("arrivedAt"), after))
      .filter((q) => q.gte(q.field("weight"), minWeight))
      .first(),
});
