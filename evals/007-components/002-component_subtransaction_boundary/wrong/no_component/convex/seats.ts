import { ConvexError, v } from "convex/values";
import { internalMutation, internalQuery, type QueryCtx } from "./_generated/server";

function seatOf(ctx: QueryCtx, label: string) {
  return ctx.db
    .query("seats")
    .withIndex("by_label", (q) => q.eq("label", label))
    .unique();
}

export const add = internalMutation({
  args: { labels: v.array(v.string()) },
  returns: v.null(),
  handler: async (ctx, { labels }) => {
    for (const label of labels) {
      if ((await seatOf(ctx, label)) === null) await ctx.db.insert("seats", { label, holder: null });
    }
    return null;
  },
});

export const reserve = internalMutation({
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

export const list = internalQuery({
  args: {},
  returns: v.array(v.object({ label: v.string(), holder: v.union(v.string(), v.null()) })),
  handler: async (ctx) => {
    const seats = await ctx.db.query("seats").withIndex("by_label").collect();
    return seats.map(({ label, holder }) => ({ label, holder }));
  },
});
