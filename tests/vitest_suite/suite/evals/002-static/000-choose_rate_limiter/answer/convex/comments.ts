import { MINUTE, RateLimiter } from "@convex-dev/rate-limiter";
import { v } from "convex/values";
import { components } from "./_generated/api";
import { mutation } from "./_generated/server";

const limiter = new RateLimiter(components.rateLimiter, { comments: { kind: "fixed window", rate: 2, period: MINUTE } });

export const post = mutation({
  args: { author: v.string() },
  handler: async (ctx, { author }): Promise<boolean> => {
    const { ok } = await limiter.limit(ctx, "comments", { key: author });
    return ok;
  },
});
