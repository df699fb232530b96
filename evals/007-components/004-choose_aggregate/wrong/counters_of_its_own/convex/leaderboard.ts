import { v } from "convex/values";
import { mutation, query, type MutationCtx, type QueryCtx } from "./_generated/server";

function scoreOf(ctx: QueryCtx, player: string) {
  return ctx.db
    .query("scores")
    .withIndex("by_player", (q) => q.eq("player", player))
    .unique();
}

async function addToTotal(ctx: MutationCtx, by: number) {
  const total = await ctx.db.query("totals").unique();
  if (total === null) await ctx.db.insert("totals", { players: by });
  else await ctx.db.patch(total._id, { players: total.players + by });
}

async function addToBucket(ctx: MutationCtx, points: number, by: number) {
  const from = Math.floor(points / 100) * 100;
  const bucket = await ctx.db
    .query("buckets")
    .withIndex("by_from", (q) => q.eq("from", from))
    .unique();
  if (bucket === null) await ctx.db.insert("buckets", { from, players: by });
  else await ctx.db.patch(bucket._id, { players: bucket.players + by });
}

export const submitScore = mutation({
  args: { player: v.string(), points: v.number() },
  returns: v.null(),
  handler: async (ctx, { player, points }) => {
    const before = await scoreOf(ctx, player);
    if (before === null) {
      await ctx.db.insert("scores", { player, points });
      await addToTotal(ctx, 1);
      await addToBucket(ctx, points, 1);
    } else {
      await ctx.db.patch(before._id, { points });
      await addToBucket(ctx, before.points, -1);
      await addToBucket(ctx, points, 1);
    }
    return null;
  },
});

export const removePlayer = mutation({
  args: { player: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { player }) => {
    const score = await scoreOf(ctx, player);
    if (score === null) return false;
    await ctx.db.delete(score._id);
    await addToTotal(ctx, -1);
    await addToBucket(ctx, score.points, -1);
    return true;
  },
});

export const rankOf = query({
  args: { player: v.string() },
  returns: v.union(v.number(), v.null()),
  handler: async (ctx, { player }) => {
    const score = await scoreOf(ctx, player);
    if (score === null) return null;
    const above = await ctx.db
      .query("buckets")
      .withIndex("by_from", (q) => q.gt("from", score.points))
      .collect();
    return above.reduce((sum, bucket) => sum + bucket.players, 1);
  },
});

export const playerCount = query({
  args: {},
  returns: v.number(),
  handler: async (ctx) => (await ctx.db.query("totals").unique())?.players ?? 0,
});
