import { enqueue as addJob, type RetryBehavior } from "@convex-dev/workpool";
import { v } from "convex/values";
import { components, internal } from "./_generated/api";
import { internalMutation, internalQuery, mutation } from "./_generated/server";

const retryBehavior: RetryBehavior = { maxAttempts: 5, initialBackoffMs: 500, base: 2 };

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  handler: async (ctx, args) => {
    const orderId = await ctx.db.insert("orders", { ...args, status: "waiting" });
    await addJob(components.partnerPool, ctx, "action", internal.partner.tell, { orderId }, { retryBehavior, maxParallelism: 4 });
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
