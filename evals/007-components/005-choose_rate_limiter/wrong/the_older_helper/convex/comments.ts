import { checkRateLimit, rateLimit } from "convex-helpers/server/rateLimit";
import { ConvexError, v } from "convex/values";
import { mutation, query } from "./_generated/server";

const config = { kind: "token bucket" as const, rate: 20, period: 60 * 60 * 1000 };

export const post = mutation({
  args: { author: v.string(), text: v.string() },
  returns: v.union(
    v.object({ accepted: v.literal(true), id: v.id("comments") }),
    v.object({ accepted: v.literal(false), retryAfter: v.number() }),
  ),
  handler: async (ctx, { author, text }) => {
    if (text.trim() === "") throw new ConvexError("a comment needs some text");
    const allowance = await rateLimit(ctx, { name: "comments", key: author, config });
    if (!allowance.ok) {
      return { accepted: false as const, retryAfter: (allowance.retryAt ?? Date.now()) - Date.now() };
    }
    const id = await ctx.db.insert("comments", { author, text });
    return { accepted: true as const, id };
  },
});

export const canPost = query({
  args: { author: v.string() },
  returns: v.boolean(),
  handler: async (ctx, { author }) => {
    const { ok } = await checkRateLimit(ctx, { name: "comments", key: author, config });
    return ok;
  },
});
