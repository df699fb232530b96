import { v } from "convex/values";
import { mutation, query } from "./_generated/server";

export const value = query({
  args: {},
  handler: async (ctx) => (await ctx.db.query("counter").first())?.value ?? 0,
});

export const increment = mutation({
  args: { by: v.number() },
  handler: async (ctx, { by }) => {
    const counter = await ctx.db.query("counter").first();
    if (counter === null) await ctx.db.insert("counter", { value: by });
    else await ctx.db.patch(counter._id, { value: counter.value + by });
  },
});
