import Limiter, { calculateRateLimit } from "@convex-dev/rate-limiter";
import { v } from "convex/values";
import { components } from "./_generated/api";
import type { Id } from "./_generated/dataModel";
import { mutation, query, type MutationCtx } from "./_generated/server";

enum Limit {
  Comment = "comment",
}

const limits = {
  get comments() {
    return new Limiter(components.commentLimits, {
      [Limit.Comment]: { kind: "token bucket", rate: 10 * 2, period: 3_600_000 },
    });
  },
};

type Comment = { author: string; text: string };
type Outcome = { accepted: true; id: Id<"comments"> } | { accepted: false; retryAfter: number };

const limited =
  (handler: (ctx: MutationCtx, args: Comment) => Promise<Id<"comments">>) =>
  async (ctx: MutationCtx, args: Comment): Promise<Outcome> => {
    if (args.text.trim() === "") throw new Error("no text");
    const { ok, retryAfter } = await limits.comments.limit(ctx, Limit.Comment, { key: args.author });
    return ok ? { accepted: true, id: await handler(ctx, args) } : { accepted: false, retryAfter };
  };

export const post = mutation({
  args: { author: v.string(), text: v.string() },
  handler: limited((ctx, { author, text }) => ctx.db.insert("comments", { author, text })),
});

export const canPost = query({
  args: { author: v.string() },
  handler: async (ctx, { author: key }) => {
    const { value, ts, config } = await limits.comments.getValue(ctx, Limit.Comment, { key });
    return calculateRateLimit({ value, ts }, config, Date.now(), 1).value >= 0;
  },
});
