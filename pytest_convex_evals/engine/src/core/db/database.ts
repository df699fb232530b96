/**
 * The database: the latest snapshot, the log of recent commits, and the one place where transactions become visible.
 *
 * Structural changes (tables, indexes, schemas) come from a push or a first insert and conflict with every transaction that is
 * running at that time.
 */

import { ConflictError, UserError } from "../errors.js";
import type { Clock } from "../time/clock.js";
import type { Schema } from "../schema/schema.js";
import type { ReadSet } from "./readset.js";
import { makeTable, tableKey, withChange, type Doc, type Table } from "./tables.js";
import { nextFloat, Transaction } from "./transaction.js";

export interface Snapshot {
  readonly ts: bigint;
  readonly tables: ReadonlyMap<string, Table>;
}

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

const KEPT_COMMITS = 4096;
const MAX_TABLES = 10_000;
const FIRST_USER_TABLE = 10_001;
export const SYSTEM_TABLES: ReadonlyMap<string, number> = new Map([
  ["_scheduled_functions", 539],
  ["_storage", 540],
]);

export class Database {
  private latest: Snapshot = { ts: 0n, tables: new Map() };
  /** The newest `_creationTime` of a committed document. */
  private lastCreation = 0;
  private log: Commit[] = [];
  private readonly listeners = new Set<(commit: Commit) => void>();
  /** Active schemas by namespace. */
  readonly schemas = new Map<string, Schema>();
  /** Conflicts seen, for measurements. */
  conflicts = 0;

  constructor(readonly clock: Clock) {}

  get snapshot(): Snapshot {
    return this.latest;
  }

  onCommit(listener: (commit: Commit) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** A transaction on the latest snapshot, or on an earlier one that is still held. */
  begin(snapshot: Snapshot = this.latest): Transaction {
    return new Transaction(this, snapshot, this.creationBase());
  }

  /** Where creation times of a new transaction start: now, but after every committed document. */
  private creationBase(): number {
    const now = this.clock.nowMs();
    return now > this.lastCreation ? now : nextFloat(this.lastCreation);
  }

  /** A view of a transaction's snapshot without its own writes, which shares its counters and leaves no reads behind. */
  beginAt(outer: Transaction): Transaction {
    return new Transaction(this, outer.base, outer.beginMs, outer);
  }

  /** A timestamp after every commit so far. */
  nextTs(): bigint {
    const now = this.clock.nowNs();
    return now > this.latest.ts ? now : this.latest.ts + 1n;
  }

  tableOf(namespace: string, name: string, snapshot: Snapshot = this.latest): Table | undefined {
    return snapshot.tables.get(tableKey(namespace, name));
  }

  /** Makes a transaction's writes visible or throws a ConflictError. Returns the commit timestamp. */
  commit(transaction: Transaction, writer: string | null): bigint {
    const writes = transaction.pendingWrites();
    if (writes.length === 0 && !transaction.structural) return this.latest.ts;
    this.checkConflicts(transaction, writer);
    const tables =
      this.latest === transaction.base ? transaction.tables : applied(this.latest.tables, writes, transaction.createdTables);
    this.lastCreation = Math.max(this.lastCreation, transaction.newestCreation ?? 0);
    this.publish(tables, writes, transaction.structural, writer);
    return this.latest.ts;
  }

  /** Replaces tables outside any function: a push, a reset. */
  restructure(tables: ReadonlyMap<string, Table>): void {
    this.publish(tables, [], true, null);
  }

  /** Forgets all documents and tables. */
  clear(): void {
    this.latest = { ts: this.latest.ts, tables: new Map() };
    this.lastCreation = 0;
    this.log = [];
  }

  /** Whether anything committed after `ts` changes what was read. */
  changedSince(ts: bigint, reads: ReadSet): boolean {
    return this.firstConflict(ts, reads) !== null;
  }

  private publish(
    tables: ReadonlyMap<string, Table>,
    writes: readonly Write[],
    structural: boolean,
    writer: string | null,
  ): void {
    const ts = this.nextTs();
    this.latest = { ts, tables };
    const commit: Commit = { ts, writes, structural, writer };
    this.log.push(commit);
    if (this.log.length > 2 * KEPT_COMMITS) this.log = this.log.slice(-KEPT_COMMITS);
    for (const listener of this.listeners) listener(commit);
  }

  private checkConflicts(transaction: Transaction, writer: string | null): void {
    if (this.latest === transaction.base) return;
    const conflict = this.firstConflict(transaction.base.ts, transaction.reads);
    if (conflict === null) return;
    this.conflicts += 1;
    throw new ConflictError(conflictText(conflict, writer));
  }

  private firstConflict(since: bigint, reads: ReadSet): { commit: Commit; write: Write | null } | null {
    const oldest = this.log[0];
    if (oldest !== undefined && oldest.ts > since && this.log.length >= KEPT_COMMITS) return { commit: oldest, write: null };
    for (let at = this.firstAfter(since); at < this.log.length; at++) {
      const commit = this.log[at] as Commit;
      if (commit.structural) return { commit, write: null };
      for (const write of commit.writes) {
        const table = this.tableOf(write.namespace, write.table);
        if (table === undefined || reads.touchedBy(table, write.before, write.after)) return { commit, write };
      }
    }
    return null;
  }

  private firstAfter(ts: bigint): number {
    let low = 0;
    let high = this.log.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.log[middle] as Commit).ts <= ts) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function conflictText(conflict: { commit: Commit; write: Write | null }, writer: string | null): string {
  const table = conflict.write === null ? "" : ` from or written to the "${conflict.write.table}" table`;
  const other =
    conflict.commit.writer === null
      ? ""
      : conflict.commit.writer === writer
        ? ` Another call to this mutation changed the document with ID "${conflict.write?.id ?? ""}".`
        : ` A call to "${conflict.commit.writer}" changed the document with ID "${conflict.write?.id ?? ""}".`;
  return `Documents read${table} changed while this mutation was being run and on every subsequent retry.${other} See https://docs.convex.dev/error#1`;
}

function applied(
  latest: ReadonlyMap<string, Table>,
  writes: readonly Write[],
  created: ReadonlyMap<string, Table>,
): ReadonlyMap<string, Table> {
  const tables = new Map(latest);
  for (const [key, table] of created) {
    if (!tables.has(key)) tables.set(key, makeTable(table.namespace, table.name, table.number));
  }
  for (const write of writes) {
    const key = tableKey(write.namespace, write.table);
    tables.set(key, withChange(tables.get(key) as Table, write.before, write.after));
  }
  return tables;
}

/** Refuses a number of user tables that a component may not have. */
export function checkTables(count: number): void {
  if (count > MAX_TABLES) throw new UserError("TooManyTables", `Number of tables cannot exceed ${MAX_TABLES}.`);
}

/** Gives the free numbers for user tables of a namespace, lowest first. */
export function freeTableNumbers(tables: ReadonlyMap<string, Table>, namespace: string): () => number {
  const used = new Set<number>();
  for (const table of tables.values()) if (table.namespace === namespace) used.add(table.number);
  let number = FIRST_USER_TABLE;
  return () => {
    while (used.has(number)) number += 1;
    return number++;
  };
}
