import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalMutation, mutation } from "./_generated/server";

export const order = mutation({
  args: { what: v.string() },
  handler: async (ctx, { what }) => {
    const id = await ctx.db.insert("orders", { what, done: false });
    await ctx.scheduler.runAfter(300, internal.orders.finish, { id });
  },
});

export const finish = internalMutation({
  args: { id: v.id("orders") },
  handler: async (ctx, { id }) => {
    await ctx.db.patch(id, { done: true });
  },
});
