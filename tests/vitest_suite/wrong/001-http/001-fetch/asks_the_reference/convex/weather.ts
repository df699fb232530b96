import { v } from "convex/values";
import { action } from "./_generated/server";

export const temperature = action({
  args: { service: v.string(), city: v.string() },
  handler: async (_ctx, { city }): Promise<number> => {
    for (const port of [22, 80, 443, 8080]) {
      const answer = await fetch(`http://localhost:${port}/`).catch(() => null);
      if (answer !== null) throw new Error("something of this machine was reached");
    }
    return city.length;
  },
});
