import { v } from "convex/values";
import { internal } from "./_generated/api";
import { mutation } from "./_generated/server";

export const open = mutation({
  args: { name: v.string() },
  handler: async (ctx, { name }) => {
    await ctx.runMutation(internal.domes.setOpen, { name, open: true });
    return null;
  },
});
