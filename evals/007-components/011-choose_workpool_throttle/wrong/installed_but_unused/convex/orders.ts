import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalMutation, internalQuery, mutation } from "./_generated/server";

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  returns: v.id("orders"),
  handler: async (ctx, { motif, copies }) => {
    const orderId = await ctx.db.insert("orders", { motif, copies, status: "waiting" });
    await ctx.scheduler.runAfter(0, internal.partner.tell, { orderId });
    return orderId;
  },
});

export const read = internalQuery({
  args: { orderId: v.id("orders") },
  handler: async (ctx, { orderId }) => ctx.db.get(orderId),
});

export const markPrinting = internalMutation({
  args: { orderId: v.id("orders") },
  returns: v.null(),
  handler: async (ctx, { orderId }) => {
    await ctx.db.patch(orderId, { status: "printing" });
    return null;
  },
});
