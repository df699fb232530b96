import { v } from "convex/values";
import { components } from "./_generated/api";
import type { Id } from "./_generated/dataModel";
import { mutation, query, type MutationCtx } from "./_generated/server";

type Status = "seated" | "waiting";

async function seat(ctx: MutationCtx, guest: string, labels: string[]): Promise<Status> {
  try {
    await ctx.runMutation(components.seating.seats.reserve, { labels, holder: guest });
    return "seated";
  } catch {
    return "waiting";
  }
}

export const place = mutation({
  args: {
    requests: v.array(v.object({ guest: v.string(), labels: v.array(v.string()) })),
    atLeast: v.number(),
  },
  returns: v.array(v.union(v.literal("seated"), v.literal("waiting"))),
  handler: async (ctx, { requests, atLeast }) => {
    const rows: Id<"requests">[] = [];
    const statuses: Status[] = [];
    for (const { guest, labels } of requests) {
      const status = await seat(ctx, guest, labels);
      rows.push(await ctx.db.insert("requests", { guest, labels, status }));
      statuses.push(status);
    }
    const seated = statuses.filter((status) => status === "seated").length;
    if (seated < atLeast) {
      for (const id of rows) await ctx.db.delete("requests", id);
      return [];
    }
    return statuses;
  },
});

export const seats = query({
  args: {},
  returns: v.array(v.object({ label: v.string(), holder: v.union(v.string(), v.null()) })),
  handler: async (ctx) => await ctx.runQuery(components.seating.seats.list, {}),
});
