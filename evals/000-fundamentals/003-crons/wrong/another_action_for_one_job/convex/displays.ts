import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalAction } from "./_generated/server";

const args = { display: v.string(), days: v.number() };

export const refresh = internalAction({
  args,
  returns: v.null(),
  handler: async (_ctx, { display, days }) => {
    console.log(`refresh ${display} ${days}`);
    return null;
  },
});

export const refreshPrices = internalAction({
  args,
  returns: v.null(),
  handler: async (ctx, { display, days }): Promise<null> => {
    await ctx.runAction(internal.displays.refresh, { display, days });
    return null;
  },
});
