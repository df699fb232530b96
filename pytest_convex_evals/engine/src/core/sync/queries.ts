/** The queries one client is subscribed to: which of them a commit touches, and what changed for the client. */

import { createHash } from "node:crypto";

import type { Commit, Snapshot } from "../db/database.js";
import type { ReadSet } from "../db/readset.js";
import type { Engine } from "../engine.js";
import { clientError, type CallRequest } from "../functions/caller.js";
import type { FunctionPath } from "../functions/paths.js";
import { encodeValue } from "../values/value.js";
import type { QueryChange } from "./messages.js";

const PARALLEL = 20;

export interface Subscription {
  readonly id: number;
  readonly path: FunctionPath;
  readonly args: unknown[];
  readonly componentPath: string | undefined;
  journal: string | null;
  reads: ReadSet | null;
  dirty: boolean;
  /** Digest of what was last sent, to send only changes. */
  sent: string | null;
}

export interface Changes {
  modifications: Record<string, unknown>[];
  /** Whether something that was read has changed since. */
  outdated: boolean;
}

export class QuerySet {
  private readonly queries = new Map<number, Subscription>();
  private removed: number[] = [];

  constructor(private readonly engine: Engine) {}

  /** False for a query that is there already, or not there. */
  modify(change: QueryChange): boolean {
    if (change.type === "Remove") {
      if (!this.queries.delete(change.queryId)) return false;
      this.removed.push(change.queryId);
      return true;
    }
    if (this.queries.has(change.queryId)) return false;
    const { queryId, path, args, componentPath, journal } = change;
    this.queries.set(queryId, { id: queryId, path, args, componentPath, journal, reads: null, dirty: true, sent: null });
    return true;
  }

  clear(): void {
    this.queries.clear();
  }

  invalidateAll(): void {
    for (const query of this.queries.values()) query.dirty = true;
  }

  /** Marks the queries that must run again. Returns whether there are any new ones. */
  invalidate(commit: Commit): boolean {
    let touched = false;
    for (const query of this.queries.values()) {
      if (query.dirty || query.reads === null) continue;
      const { reads } = query;
      const changes =
        commit.structural ||
        commit.writes.some((write) => {
          const table = this.engine.db.tableOf(write.namespace, write.table);
          return table === undefined || reads.touchedBy(table, write.before, write.after);
        });
      if (changes) {
        query.dirty = true;
        touched = true;
      }
    }
    return touched;
  }

  /** Runs what must run again, all at one snapshot. */
  async update(snapshot: Snapshot, request: (query: Subscription) => CallRequest): Promise<Changes> {
    const changes: Changes = { modifications: this.removed.splice(0).map((queryId) => ({ type: "QueryRemoved", queryId })), outdated: false };
    const dirty = [...this.queries.values()].filter((query) => query.dirty);
    for (let at = 0; at < dirty.length; at += PARALLEL) {
      const batch = dirty.slice(at, at + PARALLEL);
      const found = await Promise.all(batch.map((query) => this.run(query, snapshot, request(query), changes)));
      changes.modifications.push(...found.filter((item) => item !== null));
    }
    return changes;
  }

  /** Runs one query again; null when nothing changed for the client. */
  private async run(query: Subscription, snapshot: Snapshot, request: CallRequest, changes: Changes): Promise<Record<string, unknown> | null> {
    query.dirty = false;
    const result = await this.engine.caller.query({ ...request, journal: query.journal, snapshot });
    query.reads = result.reads;
    query.journal = result.journal;
    if (result.reads !== null && this.engine.db.changedSince(snapshot.ts, result.reads)) {
      query.dirty = true;
      changes.outdated = true;
    }
    const { outcome, logLines } = result;
    const value = outcome.ok ? encodeValue(outcome.value) : outcome.failure.text;
    const sent = createHash("sha256").update(JSON.stringify([outcome.ok, value, logLines])).digest("base64");
    if (sent === query.sent || this.queries.get(query.id) !== query) return null;
    query.sent = sent;
    const common = { queryId: query.id, logLines, journal: result.journal };
    if (outcome.ok) return { type: "QueryUpdated", ...common, value };
    const { data } = outcome.failure;
    return {
      type: "QueryFailed",
      ...common,
      errorMessage: clientError(result.requestId, outcome.failure),
      ...(data === undefined ? {} : { errorData: data }),
    };
  }
}
