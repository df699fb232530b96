/** Randomness for many small wants at once: asking for it costs more than most of what it is used for. */

import { randomFillSync } from "node:crypto";

const pool = Buffer.alloc(8192);
let used = pool.length;

/** So many random bytes (no more than the pool holds), given to nobody else. */
export function takeRandom(count: number): Buffer {
  if (used + count > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const bytes = Buffer.from(pool.subarray(used, used + count));
  used += count;
  return bytes;
}
