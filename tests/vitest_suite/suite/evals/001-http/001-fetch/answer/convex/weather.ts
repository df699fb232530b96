import { v } from "convex/values";
import { action } from "./_generated/server";

export const temperature = action({
  args: { service: v.string(), city: v.string() },
  handler: async (_ctx, { service, city }): Promise<number> => {
    const answer = await fetch(`${service}/weather?city=${encodeURIComponent(city)}`);
    if (!answer.ok) throw new Error(`the service answered with status ${answer.status}`);
    const { celsius } = (await answer.json()) as { celsius: number };
    return celsius;
  },
});
