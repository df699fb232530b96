import { DEFAULT_RETRY_BEHAVIOR } from "@convex-dev/workpool";

export const OPEN_REQUESTS = 2 + 2;
export const patience = { ...DEFAULT_RETRY_BEHAVIOR, initialBackoffMs: 1000 / 2 };
