import { MINUTE, RateLimiter, SECOND } from "@convex-dev/rate-limiter";

import { components } from "./_generated/api";

export const limiter = new RateLimiter(components.rateLimiter, {
  bucket: { kind: "token bucket", rate: 10, period: MINUTE, capacity: 3 },
  window: { kind: "fixed window", rate: 5, period: MINUTE, start: 0 },
  reserving: { kind: "token bucket", rate: 1, period: SECOND, capacity: 1, maxReserved: 3 },
  sharded: { kind: "token bucket", rate: 100, period: MINUTE, capacity: 50, shards: 5 },
  queued: { kind: "token bucket", rate: 6, period: MINUTE, applyUpdates: "asynchronously" },
});

export const { getRateLimit, getServerTime } = limiter.hookAPI("bucket", { key: (_ctx, key) => key ?? "nobody" });
