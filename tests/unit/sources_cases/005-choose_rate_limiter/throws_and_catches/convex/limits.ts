import { isRateLimitError, RateLimiter, type RateLimitConfig, SECOND } from "@convex-dev/rate-limiter";
import { components } from "./_generated/api";
import type { MutationCtx, QueryCtx } from "./_generated/server";

const COMMENTS_PER_HOUR = 20;
const MINUTE = 60 * SECOND;
const shared = { kind: "fixed window", period: 60 * MINUTE } as const;
export const allowance: RateLimitConfig = { ...shared, rate: COMMENTS_PER_HOUR };

const limiter = new RateLimiter(components.rateLimiter);
const NAME = "comment" + "s";

const keyOf = (author: string) => `author:${author.toLowerCase()}`;

export async function spend(ctx: MutationCtx, who: string): Promise<number | null> {
  try {
    await limiter.limit(ctx, NAME, { key: keyOf(who), config: allowance, throws: true });
    return null;
  } catch (error) {
    if (isRateLimitError(error)) return error.data.retryAfter;
    throw error;
  }
}

export function peek(ctx: QueryCtx, who: string) {
  return limiter.check(ctx, NAME, { key: keyOf(who), config: allowance });
}
