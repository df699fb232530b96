/** The log of recent commits, and the conflicts that it shows. */

import type { Snapshot } from "./database.js";
import type { ReadSet } from "./readset.js";
import { tableKey, type Doc } from "./tables.js";

export interface Write {
  readonly namespace: string;
  readonly table: string;
  readonly id: string;
  readonly before: Doc | null;
  readonly after: Doc | null;
}

/** What one commit changed; the unit of the commit log. */
export interface Commit {
  readonly ts: bigint;
  readonly writes: readonly Write[];
  readonly structural: boolean;
  /** Function that wrote, for conflict messages. */
  readonly writer: string | null;
}

interface Conflict {
  commit: Commit;
  write: Write | null;
}

const KEPT_COMMITS = 4096;

export class CommitLog {
  private commits: Commit[] = [];

  add(commit: Commit): void {
    this.commits.push(commit);
    if (this.commits.length > 2 * KEPT_COMMITS) this.commits = this.commits.slice(-KEPT_COMMITS);
  }

  /** Forgets what was before this commit. */
  beginWith(commit: Commit): void {
    this.commits = [commit];
  }

  dropAfter(ts: bigint): void {
    this.commits = this.commits.filter((commit) => commit.ts <= ts);
  }

  /** The first commit after `since`, up to a snapshot, that changes what was read. */
  firstConflict(since: bigint, reads: ReadSet, until: Snapshot): Conflict | null {
    const oldest = this.commits[0];
    if (oldest !== undefined && oldest.ts > since && this.commits.length >= KEPT_COMMITS) return { commit: oldest, write: null };
    for (let at = this.firstAfter(since); at < this.commits.length; at++) {
      const commit = this.commits[at] as Commit;
      if (commit.ts > until.ts) break;
      if (commit.structural) return { commit, write: null };
      for (const write of commit.writes) {
        const table = until.tables.get(tableKey(write.namespace, write.table));
        if (table === undefined || reads.touchedBy(table, write.before, write.after)) return { commit, write };
      }
    }
    return null;
  }

  private firstAfter(ts: bigint): number {
    let low = 0;
    let high = this.commits.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.commits[middle] as Commit).ts <= ts) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export function conflictText(conflict: Conflict, writer: string | null): string {
  const table = conflict.write === null ? "" : ` from or written to the "${conflict.write.table}" table`;
  const other =
    conflict.commit.writer === null
      ? ""
      : conflict.commit.writer === writer
        ? ` Another call to this mutation changed the document with ID "${conflict.write?.id ?? ""}".`
        : ` A call to "${conflict.commit.writer}" changed the document with ID "${conflict.write?.id ?? ""}".`;
  return `Documents read${table} changed while this mutation was being run and on every subsequent retry.${other} See https://docs.convex.dev/error#1`;
}
