import { v } from "convex/values";
import { internalAction } from "./_generated/server";

export const refresh = internalAction({
  args: { display: v.string(), days: v.number() },
  returns: v.null(),
  handler: async () => {
    console.log("refresh auction 0");
    return null;
  },
});
