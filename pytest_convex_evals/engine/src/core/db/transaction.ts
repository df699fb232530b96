/**
 * A transaction: a snapshot, own writes on top of it, the read set and the usage counters.
 *
 * Tables are immutable, so a nested call saves the state by keeping references and rolls back by restoring them. Reads, ranges and
 * the scheduled count of a rolled-back call keep counting; its writes do not.
 */

import { UserError } from "../errors.js";
import { encodeId, newInternalId } from "../values/ids.js";
import { encodeKey, KEY_END, keyAfter } from "../values/order.js";
import { emptyObject, type Value, type ValueObject } from "../values/value.js";
import { identifierProblem } from "../values/names.js";
import type { TableNames } from "../validators/check.js";
import { checkTables, freeTableNumbers, SYSTEM_TABLES, type Database, type Snapshot, type Write } from "./database.js";
import { ReadSet } from "./readset.js";
import { Doc, docById, docCount, isSystemTable, makeTable, tableKey, withChange, withNew, type Table } from "./tables.js";
import { DEFAULT_LIMITS, limitError, noUsage, type Amounts, type Dimension } from "./usage.js";


interface Savepoint {
  tables: Map<string, Table>;
  created: Map<string, Table>;
  writes: Map<string, Write>;
  documentsWritten: number;
  bytesWritten: number;
}

export class Transaction {
  private own: Map<string, Table> | null = null;
  private created = new Map<string, Table>();
  private writes = new Map<string, Write>();
  /** What the caller wants kept with the writes, by key; null removes. */
  readonly facts = new Map<string, string | null>();
  private lastCreation: number | null = null;
  /** Rows that each table has more or less than in the snapshot. Those of a rolled-back call stay in it, as on the platform. */
  private readonly grown = new Map<string, number>();
  readonly reads = new ReadSet();
  readonly used: Amounts;
  limits: Amounts;
  /** Ranges that an outer transaction has read. */
  private readonly outerRanges: number;

  constructor(
    readonly db: Database,
    readonly base: Snapshot,
    /** Time of the first document created, in milliseconds. */
    readonly beginMs: number,
    /** The transaction whose snapshot this one reads; they share their counters. */
    outer: Transaction | null = null,
  ) {
    this.used = outer?.used ?? noUsage();
    this.limits = { ...(outer?.limits ?? DEFAULT_LIMITS) };
    this.outerRanges = outer?.used.databaseQueries ?? 0;
  }

  get tables(): ReadonlyMap<string, Table> {
    return this.own ?? this.base.tables;
  }

  get createdTables(): ReadonlyMap<string, Table> {
    return this.created;
  }

  get structural(): boolean {
    return this.created.size > 0;
  }

  pendingWrites(): Write[] {
    return [...this.writes.values()].filter((write) => write.before !== null || write.after !== null);
  }

  /** The newest `_creationTime` given out. */
  get newestCreation(): number | null {
    return this.lastCreation;
  }

  // ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────

  table(namespace: string, name: string): Table | undefined {
    return this.tables.get(tableKey(namespace, name));
  }

  tableByNumber(namespace: string, number: number): Table | undefined {
    for (const table of this.tables.values()) if (table.namespace === namespace && table.number === number) return table;
    return undefined;
  }

  /** Names by number for id validators, system tables under their public names. */
  tableNames(namespace: string): TableNames {
    return {
      tableName: (number) => {
        for (const [name, own] of SYSTEM_TABLES) if (own === number) return { name, system: false };
        const table = this.tableByNumber(namespace, number);
        if (table !== undefined) return { name: table.name, system: false };
        return number < 10_001 && number > 512 ? { name: "", system: true } : null;
      },
    };
  }

  ensureTable(namespace: string, name: string): Table {
    const present = this.table(namespace, name);
    if (present !== undefined) return present;
    const problem = identifierProblem(name);
    if (problem !== null) {
      throw new UserError("InvalidTableName", `Invalid argument \`table\` for \`db.insert\`: Invalid table name: "${name}". ${problem}`);
    }
    if (!isSystemTable(name)) {
      let count = 1;
      for (const table of this.tables.values()) if (table.namespace === namespace && !isSystemTable(table.name)) count += 1;
      checkTables(count);
    }
    const number = SYSTEM_TABLES.get(name) ?? freeTableNumbers(this.tables, namespace)();
    const table = makeTable(namespace, name, number);
    this.created.set(tableKey(namespace, name), table);
    this.setTable(table);
    if (!isSystemTable(name)) this.nextCreationTime();
    return table;
  }

  private setTable(table: Table): void {
    this.own ??= new Map(this.base.tables);
    this.own.set(tableKey(table.namespace, table.name), table);
  }

  // ── reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads a document by id, with its read dependency and its cost. */
  get(namespace: string, tableName: string, id: string): Doc | null {
    const key = encodeKey(id);
    this.reads.add(namespace, tableName, "by_id", key, keyAfter(key));
    this.checkRanges();
    const table = this.table(namespace, tableName);
    const doc = table === undefined ? undefined : docById(table, id);
    if (doc === undefined) return null;
    this.countRead(tableName, doc);
    return doc;
  }

  /** How many documents a table has, which depends on all of it and reads none. */
  count(namespace: string, name: string): number {
    this.reads.add(namespace, name, "by_id", "", KEY_END);
    this.checkRanges();
    const key = tableKey(namespace, name);
    const table = this.base.tables.get(key);
    return (table === undefined ? 0 : docCount(table)) + (this.grown.get(key) ?? 0);
  }

  countRead(tableName: string, doc: Doc): void {
    if (isSystemTable(tableName)) return;
    this.use("documentsRead", 1);
    this.use("bytesRead", doc.size);
  }

  checkRanges(): void {
    this.used.databaseQueries = this.outerRanges + this.reads.intervalCount;
    if (this.used.databaseQueries > this.limits.databaseQueries) throw limitError("databaseQueries", this.limits.databaseQueries);
  }

  /** Adds to a counter, which stays raised even when this throws. */
  use(dimension: Dimension, amount: number): void {
    this.used[dimension] += amount;
    if (this.used[dimension] > this.limits[dimension]) throw limitError(dimension, this.limits[dimension]);
  }

  // ── writes ────────────────────────────────────────────────────────────────────────────────────────────────────────

  nextCreationTime(): number {
    this.lastCreation = this.lastCreation === null ? this.beginMs : nextFloat(this.lastCreation);
    return this.lastCreation;
  }

  /** The document that an insert of these fields would make. */
  newDoc(table: Table, fields: ValueObject, hidden?: unknown): Doc {
    const id = encodeId(table.number, newInternalId(this.beginMs));
    const creationTime = this.nextCreationTime();
    return docWith(id, creationTime, fields, hidden);
  }

  /** Replaces one version of a document by another: the only way data changes. */
  write(namespace: string, tableName: string, before: Doc | null, after: Doc | null): void {
    if (!isSystemTable(tableName)) {
      this.use("documentsWritten", 1);
      if (after !== null) this.use("bytesWritten", after.size);
    }
    const table = this.table(namespace, tableName);
    if (table === undefined) throw new Error(`write to a missing table ${tableName}`);
    this.setTable(withChange(table, before, after));
    if (before === null || after === null) {
      const key = tableKey(namespace, tableName);
      this.grown.set(key, (this.grown.get(key) ?? 0) + (before === null ? 1 : -1));
    }
    const id = (after ?? before)?.id ?? "";
    const earlier = this.writes.get(id);
    this.writes.set(id, { namespace, table: tableName, id, before: earlier === undefined ? before : earlier.before, after });
  }

  /** Puts in new documents of one table at once. */
  add(namespace: string, tableName: string, docs: readonly Doc[]): void {
    const table = this.table(namespace, tableName);
    if (table === undefined) throw new Error(`write to a missing table ${tableName}`);
    for (const doc of docs) {
      this.use("documentsWritten", 1);
      this.use("bytesWritten", doc.size);
      this.writes.set(doc.id, { namespace, table: tableName, id: doc.id, before: null, after: doc });
    }
    this.setTable(withNew(table, docs));
    const key = tableKey(namespace, tableName);
    this.grown.set(key, (this.grown.get(key) ?? 0) + docs.length);
  }

  // ── nesting ───────────────────────────────────────────────────────────────────────────────────────────────────────

  savepoint(): Savepoint {
    return {
      tables: new Map(this.tables),
      created: new Map(this.created),
      writes: new Map(this.writes),
      documentsWritten: this.used.documentsWritten,
      bytesWritten: this.used.bytesWritten,
    };
  }

  rollback(point: Savepoint): void {
    this.own = point.tables;
    this.created = point.created;
    this.writes = point.writes;
    this.used.documentsWritten = point.documentsWritten;
    this.used.bytesWritten = point.bytesWritten;
  }
}

export function docWith(id: string, creationTime: number, fields: ValueObject, hidden?: unknown): Doc {
  const keys = Object.keys(fields).filter((key) => key !== "_id" && key !== "_creationTime");
  keys.push("_id", "_creationTime");
  const value = emptyObject();
  for (const key of keys.sort()) value[key] = key === "_id" ? id : key === "_creationTime" ? creationTime : (fields[key] as Value);
  return new Doc(id, value, hidden);
}

const floats = new Float64Array(1);
const bits = new BigUint64Array(floats.buffer);

/** The next larger float64 of a positive number. */
export function nextFloat(value: number): number {
  floats[0] = value;
  bits[0] = (bits[0] as bigint) + 1n;
  return floats[0];
}
