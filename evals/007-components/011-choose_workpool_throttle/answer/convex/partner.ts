import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalAction } from "./_generated/server";

export const tell = internalAction({
  args: { orderId: v.id("orders") },
  returns: v.null(),
  handler: async (ctx, { orderId }) => {
    const order = await ctx.runQuery(internal.orders.read, { orderId });
    if (order === null) return null;
    const response = await fetch("https://print.example.com/jobs", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ id: orderId, motif: order.motif, copies: order.copies }),
    });
    if (!response.ok) throw new Error(`the partner answered ${response.status}`);
    await ctx.runMutation(internal.orders.markPrinting, { orderId });
    return null;
  },
});
