import { ConvexError, v } from "convex/values";
import { components } from "./_generated/api";
import { mutation, query } from "./_generated/server";

type Status = "seated" | "waiting";

export const place = mutation({
  args: {
    requests: v.array(v.object({ guest: v.string(), labels: v.array(v.string()) })),
    atLeast: v.number(),
  },
  returns: v.array(v.union(v.literal("seated"), v.literal("waiting"))),
  handler: async (ctx, { requests, atLeast }) => {
    const statuses: Status[] = [];
    try {
      for (const { guest, labels } of requests) {
        await ctx.runMutation(components.seating.seats.reserve, { labels, holder: guest });
        statuses.push("seated");
      }
    } catch {
      while (statuses.length < requests.length) statuses.push("waiting");
    }
    for (const [index, { guest, labels }] of requests.entries()) {
      await ctx.db.insert("requests", { guest, labels, status: statuses[index]! });
    }
    const seated = statuses.filter((status) => status === "seated").length;
    if (seated < atLeast) throw new ConvexError(`Only ${seated} of ${atLeast} requests could be seated.`);
    return statuses;
  },
});

export const seats = query({
  args: {},
  returns: v.array(v.object({ label: v.string(), holder: v.union(v.string(), v.null()) })),
  handler: async (ctx) => await ctx.runQuery(components.seating.seats.list, {}),
});
