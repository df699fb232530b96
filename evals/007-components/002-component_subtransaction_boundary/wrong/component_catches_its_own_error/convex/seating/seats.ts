import { ConvexError, v } from "convex/values";
import { mutation, query, type QueryCtx } from "./_generated/server";

function seatOf(ctx: QueryCtx, label: string) {
  return ctx.db
    .query("seats")
    .withIndex("by_label", (q) => q.eq("label", label))
    .unique();
}

export const add = mutation({
  args: { labels: v.array(v.string()) },
  returns: v.null(),
  handler: async (ctx, { labels }) => {
    for (const label of labels) {
      if ((await seatOf(ctx, label)) === null) await ctx.db.insert("seats", { label, holder: null });
    }
    return null;
  },
});

export const reserve = mutation({
  args: { labels: v.array(v.string()), holder: v.string() },
  returns: v.null(),
  handler: async (ctx, { labels, holder }) => {
    for (const label of labels) {
      const seat = await seatOf(ctx, label);
      if (seat === null) throw new ConvexError(`There is no seat ${label}.`);
      if (seat.holder !== null) throw new ConvexError(`Seat ${label} is taken.`);
      await ctx.db.patch("seats", seat._id, { holder });
    }
    return null;
  },
});

export const list = query({
  args: {},
  returns: v.array(v.object({ label: v.string(), holder: v.union(v.string(), v.null()) })),
  handler: async (ctx) => {
    const seats = await ctx.db.query("seats").withIndex("by_label").collect();
    return seats.map(({ label, holder }) => ({ label, holder }));
  },
});

export const tryReserve = mutation({
  args: { labels: v.array(v.string()), holder: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { labels, holder }) => {
    try {
      for (const label of labels) {
        const seat = await seatOf(ctx, label);
        if (seat === null || seat.holder !== null) throw new ConvexError(`Seat ${label} is not free.`);
        await ctx.db.patch("seats", seat._id, { holder });
      }
      return true;
    } catch {
      return false;
    }
  },
});
