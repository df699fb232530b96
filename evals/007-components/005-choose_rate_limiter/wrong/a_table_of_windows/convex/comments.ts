import { ConvexError, v } from "convex/values";
import { mutation, query, type MutationCtx, type QueryCtx } from "./_generated/server";

const HOUR = 60 * 60 * 1000;

async function windowOf(ctx: QueryCtx, author: string) {
  const window = await ctx.db
    .query("windows")
    .withIndex("by_author", (q) => q.eq("author", author))
    .unique();
  return window !== null && window.startedAt > Date.now() - HOUR ? window : null;
}

async function take(ctx: MutationCtx, author: string) {
  const window = await windowOf(ctx, author);
  if (window === null) {
    await ctx.db.insert("windows", { author, startedAt: Date.now(), used: 1 });
    return { ok: true as const };
  }
  if (window.used >= 20) return { ok: false as const, retryAfter: window.startedAt + HOUR - Date.now() };
  await ctx.db.patch(window._id, { used: window.used + 1 });
  return { ok: true as const };
}

export const post = mutation({
  args: { author: v.string(), text: v.string() },
  returns: v.union(
    v.object({ accepted: v.literal(true), id: v.id("comments") }),
    v.object({ accepted: v.literal(false), retryAfter: v.number() }),
  ),
  handler: async (ctx, { author, text }) => {
    if (text.trim() === "") throw new ConvexError("a comment needs some text");
    const allowance = await take(ctx, author);
    if (!allowance.ok) {
      return { accepted: false as const, retryAfter: allowance.retryAfter };
    }
    const id = await ctx.db.insert("comments", { author, text });
    return { accepted: true as const, id };
  },
});

export const canPost = query({
  args: { author: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { author }) => {
    const window = await windowOf(ctx, author);
    return window === null || window.used < 20;
  },
});
