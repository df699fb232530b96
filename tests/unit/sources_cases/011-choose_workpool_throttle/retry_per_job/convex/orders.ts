import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalMutation, internalQuery, mutation } from "./_generated/server";

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  handler: async (ctx, args) => {
    const orderId = await ctx.db.insert("orders", { ...args, status: "waiting" });
    await ctx.scheduler.runAfter(0, internal.queue.add, { orderId });
    return orderId;
  },
});

export const read = internalQuery({
  args: { orderId: v.id("orders") },
  handler: (ctx, { orderId }) => ctx.db.get(orderId),
});

export const markPrinting = internalMutation({
  args: { orderId: v.id("orders") },
  handler: (ctx, { orderId }) => ctx.db.patch(orderId, { status: "printing" }),
});
