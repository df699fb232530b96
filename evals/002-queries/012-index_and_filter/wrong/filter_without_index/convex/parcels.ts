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
  handler: async (ctx, { depot, from, until, minWeight, limit }) => {
    const parcels = await ctx.db
      .query("parcels")
      .filter((q) =>
        q.and(
          q.eq(q.field("depot"), depot),
          q.gte(q.field("arrivedAt"), from),
          q.lt(q.field("arrivedAt"), until),
          q.gte(q.field("weight"), minWeight),
        ),
      )
      .collect();
    return parcels.sort((a, b) => b.arrivedAt - a.arrivedAt).slice(0, limit);
  },
});

export const nextHeavy = query({
  args: { depot: v.string(), after: v.number(), minWeight: v.number() },
  handler: async (ctx, { depot, after, minWeight }) =>
    await ctx.db
      .query("parcels")
      .withIndex("by_depot_and_arrivedAt", (q) => q.eq("depot", depot).gt("arrivedAt", after))
      .filter((q) => q.gte(q.field("weight"), minWeight))
      .first(),
});
