import { v } from "convex/values";
import { mutation, query } from "./_generated/server";

export const add = mutation({
  args: { author: v.string(), text: v.string() },
  handler: async (ctx, args) => await ctx.db.insert("notes", args),
});

export const of = query({
  args: { author: v.string() },
  handler: async (ctx, { author }) =>
    await ctx.db
      .query("notes")
      .withIndex("by_author", (q) => q.eq("author", author))
      .collect(),
});
