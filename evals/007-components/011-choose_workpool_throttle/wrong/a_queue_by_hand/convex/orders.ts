import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalMutation, internalQuery, mutation } from "./_generated/server";

const MAX_OPEN = 4;
const MAX_ATTEMPTS = 5;

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  returns: v.id("orders"),
  handler: async (ctx, { motif, copies }) => {
    const orderId = await ctx.db.insert("orders", { motif, copies, status: "waiting" });
    await ctx.scheduler.runAfter(0, internal.orders.start, { orderId, attempt: 1 });
    return orderId;
  },
});

export const start = internalMutation({
  args: { orderId: v.id("orders"), attempt: v.number() },
  handler: async (ctx, { orderId, attempt }) => {
    const open = await ctx.db.query("open").collect();
    if (open.length >= MAX_OPEN) {
      await ctx.scheduler.runAfter(1000, internal.orders.start, { orderId, attempt });
      return;
    }
    await ctx.db.insert("open", { orderId });
    await ctx.scheduler.runAfter(0, internal.partner.tell, { orderId, attempt });
  },
});

export const finish = internalMutation({
  args: { orderId: v.id("orders"), attempt: v.number(), ok: v.boolean() },
  handler: async (ctx, { orderId, attempt, ok }) => {
    for (const row of await ctx.db.query("open").collect()) {
      if (row.orderId === orderId) await ctx.db.delete(row._id);
    }
    if (ok) await ctx.db.patch(orderId, { status: "printing" });
    else if (attempt < MAX_ATTEMPTS) {
      await ctx.scheduler.runAfter(500 * 2 ** (attempt - 1), internal.orders.start, { orderId, attempt: attempt + 1 });
    }
  },
});

export const read = internalQuery({
  args: { orderId: v.id("orders") },
  handler: async (ctx, { orderId }) => ctx.db.get(orderId),
});
