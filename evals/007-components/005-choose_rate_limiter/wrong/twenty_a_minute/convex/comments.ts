import { MINUTE, RateLimiter } from "@convex-dev/rate-limiter";
import { ConvexError, v } from "convex/values";
import { components } from "./_generated/api";
import { mutation, query } from "./_generated/server";

const rateLimiter = new RateLimiter(components.rateLimiter, {
  comments: { kind: "token bucket", rate: 20, period: MINUTE, capacity: 20 },
});

export const post = mutation({
  args: { author: v.string(), text: v.string() },
  returns: v.union(
    v.object({ accepted: v.literal(true), id: v.id("comments") }),
    v.object({ accepted: v.literal(false), retryAfter: v.number() }),
  ),
  handler: async (ctx, { author, text }) => {
    if (text.trim() === "") throw new ConvexError("a comment needs some text");
    const allowance = await rateLimiter.limit(ctx, "comments", { key: author });
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
    const { ok } = await rateLimiter.check(ctx, "comments", { key: author });
    return ok;
  },
});
