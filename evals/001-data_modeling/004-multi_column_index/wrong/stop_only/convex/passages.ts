import { v } from "convex/values";
import { query, type QueryCtx } from "./_generated/server";

async function ofStop(ctx: QueryCtx, stop: string) {
  const passages = await ctx.db
    .query("passages")
    .withIndex("by_stop", (q) => q.eq("stop", stop))
    .collect();
  return passages.sort((a, b) => a.passedAt - b.passedAt);
}

export const between = query({
  args: { stop: v.string(), from: v.number(), until: v.number() },
  handler: async (ctx, { stop, from, until }) =>
    (await ofStop(ctx, stop)).filter((passage) => passage.passedAt >= from && passage.passedAt < until),
});

export const latest = query({
  args: { stop: v.string(), count: v.number() },
  handler: async (ctx, { stop, count }) => (await ofStop(ctx, stop)).reverse().slice(0, count),
});

export const lastBefore = query({
  args: { stop: v.string(), time: v.number() },
  handler: async (ctx, { stop, time }) =>
    (await ofStop(ctx, stop)).filter((passage) => passage.passedAt < time).pop() ?? null,
});
