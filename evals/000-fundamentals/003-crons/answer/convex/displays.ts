import { v } from "convex/values";
import { internalAction } from "./_generated/server";

export const refresh = internalAction({
  args: { display: v.string(), days: v.number() },
  returns: v.null(),
  handler: async (_ctx, { display, days }) => {
    console.log(`refresh ${display} ${days}`);
    return null;
  },
});
