import { ConvexError, v } from "convex/values";
import { mutation, query, type QueryCtx } from "./_generated/server";

const HOUR = 60 * 60 * 1000;

async function lastHour(ctx: QueryCtx, author: string) {
  return await ctx.db
    .query("comments")
    .withIndex("by_author", (q) => q.eq("author", author).gt("_creationTime", Date.now() - HOUR))
    .collect();
}

export const post = mutation({
  args: { author: v.string(), text: v.string() },
  returns: v.union(
    v.object({ accepted: v.literal(true), id: v.id("comments") }),
    v.object({ accepted: v.literal(false), retryAfter: v.number() }),
  ),
  handler: async (ctx, { author, text }) => {
    if (text.trim() === "") throw new ConvexError("a comment needs some text");
    const recent = await lastHour(ctx, author);
    if (recent.length >= 20) {
      return { accepted: false as const, retryAfter: recent[0]._creationTime + HOUR - Date.now() };
    }
    const id = await ctx.db.insert("comments", { author, text });
    return { accepted: true as const, id };
  },
});

export const canPost = query({
  args: { author: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { author }) => {
    return (await lastHour(ctx, author)).length < 20;
  },
});
