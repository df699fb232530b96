/** Timestamps given out for consistent queries, with the states they stand for. */

import type { Snapshot } from "../db/database.js";
import type { Engine } from "../engine.js";
import { SystemError, UserError } from "../errors.js";

/** Clients use a timestamp for 30 seconds. */
const KEPT_MS = 60_000;
const KEPT = 1000;

export class ReadPoints {
  private readonly points = new Map<bigint, { snapshot: Snapshot; until: number }>();
  private epoch: number;

  constructor(private readonly engine: Engine) {
    this.epoch = engine.epoch;
  }

  /** The timestamp of the latest state, which can be read until the client has no more use for it. */
  take(): string {
    this.forget();
    const { snapshot } = this.engine.db;
    this.points.delete(snapshot.ts);
    this.points.set(snapshot.ts, { snapshot, until: performance.now() + KEPT_MS });
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(snapshot.ts);
    return bytes.toString("base64");
  }

  find(encoded: unknown): Snapshot {
    const bytes = typeof encoded === "string" ? Buffer.from(encoded, "base64") : null;
    if (bytes?.length !== 8) throw new UserError("BadJsonBody", "missing or invalid field `ts`: it must be a timestamp of /api/query_ts");
    const ts = bytes.readBigUInt64LE(0);
    if (ts > this.engine.db.nextTs()) throw new UserError("InvalidTimestamp", "The timestamp is ahead of the server: use one of /api/query_ts");
    const { snapshot } = this.engine.db;
    if (ts >= snapshot.ts) return snapshot;
    this.forget();
    const point = this.points.get(ts);
    if (point === undefined) throw new SystemError("OutOfRetention", "The state at this timestamp is no longer kept: ask /api/query_ts for a newer one");
    return point.snapshot;
  }

  private forget(): void {
    const now = performance.now();
    const reset = this.engine.epoch !== this.epoch;
    this.epoch = this.engine.epoch;
    for (const [ts, { until }] of this.points) if (reset || until < now || this.points.size > KEPT) this.points.delete(ts);
  }
}
