/** When a connection is probed, told something, or given up. */

/** How often a connection is looked at; each time it is sent a ping frame. */
export const PROBE_MS = 5_000;
const SILENCE_MS = 15_000;
const DEAD_AFTER_MS = 120_000;

export type KeepAlive = "probe" | "probe and tell" | "give up";

/** Times in milliseconds of one monotonic clock. Clients see messages, not ping frames, so silence is broken by a message. */
export function keepAlive(now: number, lastHeard: number, lastSent: number): KeepAlive {
  if (now - lastHeard > DEAD_AFTER_MS) return "give up";
  return now - lastSent > SILENCE_MS ? "probe and tell" : "probe";
}
