import { v } from "convex/values";
import { internalMutation, internalQuery, mutation } from "./_generated/server";
import pool from "./partnerPool";

export const place = mutation({
  args: { motif: v.string(), copies: v.number() },
  handler: async (ctx, args) => {
    const orderId = await ctx.db.insert("orders", { ...args, status: "waiting" });
    await pool.tell(ctx, [orderId]);
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
