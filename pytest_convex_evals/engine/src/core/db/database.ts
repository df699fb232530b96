/**
 * The database: the latest snapshot, the log of recent commits, and the one place where transactions become visible.
 *
 * With a data folder a commit is checked first, then written to disk, and seen by others only when it is there. Commits that are on
 * their way are in the head and in the log, so that later ones are checked against them.
 *
 * Structural changes (tables, indexes, schemas) come from a push or a first insert and conflict with every transaction that is
 * running at that time.
 */

import type { Change, Fact } from "../durable/entries.js";
import type { Recovered } from "../durable/replay.js";
import { ConflictError, UserError } from "../errors.js";
import type { Clock } from "../time/clock.js";
import type { Schema } from "../schema/schema.js";
import { CommitLog, conflictText, type Commit, type Write } from "./commits.js";
import type { ReadSet } from "./readset.js";
import { resolveCommitTs } from "../values/value.js";
import { Doc, makeTable, tableKey, withChange, type Table } from "./tables.js";
import { nextFloat, Transaction } from "./transaction.js";

export interface Snapshot {
  readonly ts: bigint;
  readonly tables: ReadonlyMap<string, Table>;
}

export type { Commit, Write };

/** What makes changes durable: the data folder. */
export interface Durability {
  /** Puts on disk what these writes refer to. */
  prepare(writes: readonly Write[]): Promise<void>;
  /** Takes back what `prepare` did, for a commit that did not happen. */
  discard(writes: readonly Write[]): void;
  /** Calls `seen` once the change is on disk, in the order of the calls. Rejects when it cannot be, and all later ones with it. */
  append(change: Change, seen: () => void): Promise<void>;
  /** Resolves once everything appended so far is on disk or refused. */
  drained(): Promise<void>;
}

/** A change of the whole deployment. */
export interface Restructuring {
  tables?: ReadonlyMap<string, Table>;
  /** All documents go. */
  clear?: boolean;
  /** Prefixes of facts that go. */
  forget?: readonly string[];
  facts?: readonly Fact[];
  /** Called when the change is durable, before and after it is seen. */
  before?: () => void;
  after?: () => void;
}

/** The fact that holds virtual time. */
export const CLOCK = "clock";
const MAX_TABLES = 10_000;
const FIRST_USER_TABLE = 10_001;
export const SYSTEM_TABLES: ReadonlyMap<string, number> = new Map([
  ["_scheduled_functions", 539],
  ["_storage", 540],
]);

export class Database {
  private latest: Snapshot = { ts: 0n, tables: new Map() };
  /** The latest snapshot and what is on its way to disk. */
  private head: Snapshot = this.latest;
  /** The newest `_creationTime` of a committed document. */
  private lastCreation = 0;
  private readonly log = new CommitLog();
  private readonly listeners = new Set<(commit: Commit) => void>();
  private durability: Durability | null = null;
  private underWay = 0;
  /** Closed while the whole deployment changes. */
  private gate: Promise<void> | null = null;
  /** What is kept beside documents when there is a data folder. */
  readonly facts = new Map<string, string>();
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
    return now > this.head.ts ? now : this.head.ts + 1n;
  }

  tableOf(namespace: string, name: string, snapshot: Snapshot = this.latest): Table | undefined {
    return snapshot.tables.get(tableKey(namespace, name));
  }

  /** Something is on its way to disk. */
  get isWriting(): boolean {
    return this.underWay > 0;
  }

  get isDurable(): boolean {
    return this.durability !== null;
  }

  /** Newest creation time of a document. */
  get created(): number {
    return this.lastCreation;
  }

  /** From now on changes are seen when they are durable. */
  attach(durability: Durability): void {
    this.durability = durability;
  }

  /** Takes over what a data folder held. */
  restore(state: Recovered): void {
    this.latest = this.head = { ts: state.ts, tables: state.tables };
    this.lastCreation = state.created;
    for (const [key, text] of state.facts) this.facts.set(key, text);
  }

  /** Makes a transaction's writes visible or throws a ConflictError. Returns the commit timestamp. */
  /**
   * A function may have put `ts` into its writes and, when `pinned`, into its result. Where others were faster, such a
   * transaction conflicts with them.
   */
  async commit(transaction: Transaction, writer: string | null, ts = this.nextTs(), pinned = false): Promise<bigint> {
    const written = transaction.pendingWrites();
    if (written.length === 0 && !transaction.structural) {
      await this.remember(transaction.facts);
      return this.latest.ts;
    }
    const { durability } = this;
    this.underWay += 1;
    try {
      if (durability !== null) await this.admit(durability, written);
      this.checkConflicts(transaction, writer);
      const writes = written.map((write) => resolved(write, ts));
      const isStamped = writes.some((write, at) => write !== written[at]);
      const isLate = ts <= this.head.ts;
      if (isLate && (isStamped || pinned)) throw new ConflictError("The timestamp of this mutation was overtaken by another one.");
      const asWritten = this.head === transaction.base && !isStamped;
      const tables = asWritten ? transaction.tables : applied(this.head.tables, writes, transaction.createdTables);
      this.lastCreation = Math.max(this.lastCreation, transaction.newestCreation ?? 0);
      const commit: Commit = { ts: isLate ? this.nextTs() : ts, writes, structural: transaction.structural, writer };
      await this.enact(tables, commit, { facts: [...transaction.facts] });
      return commit.ts;
    } catch (error) {
      durability?.discard(written);
      throw error;
    } finally {
      this.underWay -= 1;
    }
  }

  /** Keeps facts that belong to no transaction. */
  async remember(facts: Iterable<Fact>): Promise<void> {
    const list = [...facts];
    if (this.durability === null || list.length === 0) return;
    this.underWay += 1;
    try {
      await this.durability.append({ facts: list }, () => this.keep([], list));
    } finally {
      this.underWay -= 1;
    }
  }

  /** Changes tables and facts outside any function, when nothing is on its way: a push, a reset. `prepare` may throw to refuse. */
  async change(prepare: () => Restructuring): Promise<void> {
    if (this.durability === null) {
      await this.restructure(prepare());
      return;
    }
    while (this.gate !== null) await this.gate;
    let open = (): void => undefined;
    this.gate = new Promise((resolve) => (open = resolve));
    try {
      await this.durability.drained();
      await this.restructure(prepare());
    } finally {
      this.gate = null;
      open();
    }
  }

  /** Resolves once a new transaction sees everything that was committed so far. */
  async caughtUp(): Promise<void> {
    await this.durability?.drained();
  }

  /** Called when what was on its way to disk did not get there. */
  rollBack(): void {
    this.head = this.latest;
    this.log.dropAfter(this.latest.ts);
  }

  /** Whether anything seen after `ts` changes what was read. */
  changedSince(ts: bigint, reads: ReadSet): boolean {
    return this.log.firstConflict(ts, reads, this.latest) !== null;
  }

  /** Puts on disk what the writes refer to, and waits while the whole deployment changes. */
  private async admit(durability: Durability, writes: readonly Write[]): Promise<void> {
    await durability.prepare(writes);
    while (this.gate !== null) await this.gate;
  }

  private restructure(wanted: Restructuring): Promise<void> {
    const commit: Commit = { ts: this.nextTs(), writes: [], structural: wanted.tables !== undefined, writer: null };
    return this.enact(wanted.tables ?? this.head.tables, commit, wanted);
  }

  /** Puts a change into the head, then makes it durable, then lets everybody see it. */
  private async enact(tables: ReadonlyMap<string, Table>, commit: Commit, wanted: Restructuring): Promise<void> {
    const snapshot: Snapshot = { ts: commit.ts, tables };
    this.head = snapshot;
    this.log.add(commit);
    const { clear = false, forget = [] } = wanted;
    const time: Fact[] = this.clock.isVirtual && !clear ? [[CLOCK, String(this.clock.nowMs())]] : [];
    const facts = [...time, ...(wanted.facts ?? [])];
    const see = (): void => {
      wanted.before?.();
      this.latest = snapshot;
      if (clear) {
        this.log.beginWith(commit);
        this.lastCreation = 0;
      }
      if (this.durability !== null) this.keep(forget, facts);
      for (const listener of this.listeners) listener(commit);
      wanted.after?.();
    };
    if (this.durability === null) {
      see();
      return;
    }
    const { ts, writes, structural } = commit;
    await this.durability.append({ ts, created: clear ? 0 : this.lastCreation, clear, tables: structural ? tables.values() : null, writes, forget, facts }, see);
  }

  private keep(forget: readonly string[], facts: readonly Fact[]): void {
    for (const prefix of forget) for (const key of this.facts.keys()) if (key.startsWith(prefix)) this.facts.delete(key);
    for (const [key, text] of facts) {
      if (text === null) this.facts.delete(key);
      else this.facts.set(key, text);
    }
  }

  private checkConflicts(transaction: Transaction, writer: string | null): void {
    if (this.head === transaction.base) return;
    const conflict = this.log.firstConflict(transaction.base.ts, transaction.reads, this.head);
    if (conflict === null) return;
    this.conflicts += 1;
    throw new ConflictError(conflictText(conflict, writer));
  }
}

/** The write with its commit timestamps filled in. */
function resolved(write: Write, ts: bigint): Write {
  const { after } = write;
  if (after === null) return write;
  const value = resolveCommitTs(after.value, ts);
  return value === after.value ? write : { ...write, after: new Doc(after.id, value, after.hidden) };
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
