/** How much a deployment of somebody else's code may keep: everything is in memory, and must not take that of the machine. */

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { UserError } from "../errors.js";

const MAX_BYTES = 1024 * 1024 * 1024;
/** Of the heap that the process may have; documents are on it, files are not. */
const SHARE_OF_HEAP = 0.6;
/** A look takes some microseconds, one at what is garbage takes long. */
const EVERY_MS = 20;
const COLLECT_EVERY_MS = 2000;

export class Room {
  private readonly most: number;
  private lookedAt = -Infinity;
  private collectedAt = -Infinity;
  private isFull = false;

  constructor(bytes: number | undefined) {
    this.most = Math.min(bytes ?? MAX_BYTES, SHARE_OF_HEAP * getHeapStatistics().heap_size_limit);
  }

  /** Refuses to keep more when there is no room left. */
  require(): void {
    const now = performance.now();
    if (now - this.lookedAt > EVERY_MS) {
      this.lookedAt = now;
      this.isFull = used() > this.most && (now - this.collectedAt < COLLECT_EVERY_MS || this.isFullWithoutGarbage());
    }
    if (this.isFull) throw new UserError("TooMuchData", `The deployment keeps more than this backend has room for (${Math.round(this.most / 1e6)} MB).`);
  }

  /** Much of what is there is garbage now. */
  emptied(): void {
    this.lookedAt = this.collectedAt = -Infinity;
  }

  private isFullWithoutGarbage(): boolean {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    // Another thread gives back the memory of files; the second collection waits until it is done with that of the first.
    collect();
    collect();
    this.collectedAt = performance.now();
    return used() > this.most;
  }
}

function used(): number {
  const { used_heap_size: heap, external_memory: external } = getHeapStatistics();
  return heap + external;
}
