import { Workpool } from "@convex-dev/workpool";
import { v } from "convex/values";
import { components, internal } from "./_generated/api";
import { internalMutation, internalQuery, mutation } from "./_generated/server";

const partnerPool = new Workpool(components.partnerPool, {
  retryActionsByDefault: true,
  defaultRetryBehavior: { maxAttempts: 5, initialBackoffMs: 500, base: 2 },
});

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  returns: v.id("orders"),
  handler: async (ctx, { motif, copies }) => {
    const orderId = await ctx.db.insert("orders", { motif, copies, status: "waiting" });
    await partnerPool.enqueueAction(ctx, internal.partner.tell, { orderId });
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
