/** Queries: from the JSON that the library sends to a stream of documents that records what it reads. */

import { createHash } from "node:crypto";

import { UserError } from "../errors.js";
import { KEY_END, keyAfter } from "../values/order.js";
import { SYSTEM_TABLES } from "./database.js";
import { compileFilter, type Predicate } from "./filter.js";
import { compileRange } from "./ranges.js";
import { compileSearch, type SearchPlan } from "./search.js";
import { isSystemTable, type Doc, type Index } from "./tables.js";
import type { Cursor } from "./tree.js";
import type { Transaction } from "./transaction.js";

type Operator = { filter: Predicate } | { limit: number };

/** A checked query: where to read and what to do with each row. */
export interface Plan {
  namespace: string;
  table: string;
  index: string;
  low: string;
  high: string;
  ascending: boolean;
  operators: Operator[];
  search: SearchPlan | null;
  /** Identifies the query for cursors. */
  fingerprint: string;
}

const MAX_OPERATORS = 256;

interface RawQuery {
  source?: { type?: string; tableName?: string; indexName?: string; range?: unknown; order?: string | null; filters?: unknown };
  operators?: unknown;
}

export function compileQuery(tx: Transaction, namespace: string, json: unknown): Plan {
  const raw = json as RawQuery | null;
  const source = raw?.source;
  if (typeof source !== "object" || source === null) throw new UserError("InvalidQuery", "Invalid query: no source");
  const operators = compileOperators(raw?.operators);
  const ascending = source.order !== "desc";
  const order = ascending ? "asc" : "desc";
  const fingerprint = (fields: readonly string[]): string =>
    createHash("sha256").update(JSON.stringify([{ ...source, order }, raw?.operators, fields])).digest("base64").slice(0, 24);
  if (source.type === "FullTableScan") {
    const table = String(source.tableName);
    const fields = ["_creationTime"];
    return { namespace, table, index: "by_creation_time", low: "", high: KEY_END, ascending, operators, search: null, fingerprint: fingerprint(fields) };
  }
  const full = String(source.indexName);
  const dot = full.indexOf(".");
  const table = full.slice(0, dot);
  const name = full.slice(dot + 1);
  if (source.type === "Search") {
    const search = compileSearch(tx, namespace, table, name, source.filters);
    return { namespace, table, index: name, low: "", high: KEY_END, ascending: true, operators, search, fingerprint: fingerprint([]) };
  }
  if (source.type !== "IndexRange") throw new UserError("InvalidQuery", "Invalid query: unknown source");
  const index = findIndex(tx, namespace, table, name);
  const { low, high } = compileRange(full, [...index.fields, "_id"], source.range);
  return { namespace, table, index: name, low, high, ascending, operators, search: null, fingerprint: fingerprint(index.fields) };
}

/** Unknown operators and bad filters are errors of the `query` argument. */
function compileOperators(json: unknown): Operator[] {
  if (!Array.isArray(json)) return [];
  if (json.length > MAX_OPERATORS) throw new UserError("TooManyOperators", `Can't construct query with more than ${MAX_OPERATORS} operators`);
  return json.map((operator: unknown): Operator => {
    const raw = operator as { filter?: unknown; limit?: unknown } | null;
    if (raw?.limit !== undefined) return { limit: Number(raw.limit) };
    return { filter: compileFilter(raw?.filter) };
  });
}

function findIndex(tx: Transaction, namespace: string, table: string, name: string): Index {
  const full = `${table}.${name}`;
  const state = isSystemTable(table) && !SYSTEM_TABLES.has(table) ? undefined : tx.table(namespace, table);
  const index = state?.indexes.get(name);
  if (index !== undefined) {
    if (!index.staged) return index;
    throw new UserError("IndexStaged", `Index ${full} is currently staged and not available to query until it is enabled.`);
  }
  const declared = tx.db.schemas.get(namespace)?.tables.get(table);
  if (declared !== undefined && [...declared.searchIndexes, ...declared.vectorIndexes].some((other) => other.name === name)) {
    throw new UserError("WrongIndexType", `Index ${full} is not a database index`);
  }
  throw new UserError("IndexNotFound", `Index ${full} not found.`);
}

/** Reads the rows of a plan's interval in order, seeing writes made meanwhile, and records the interval consumed. */
export class RangeScan {
  private cursor: Cursor<Doc> | null = null;
  private seen: unknown = null;
  private low: string;
  private high: string;
  /** Key of the last row returned. */
  lastKey: string | null = null;

  constructor(
    private readonly tx: Transaction,
    private readonly plan: Plan,
    low = plan.low,
    high = plan.high,
    private readonly recorded = true,
  ) {
    this.low = low;
    this.high = high;
    this.from = low;
    this.to = high;
  }

  private readonly from: string;
  private readonly to: string;

  next(): Doc | null {
    const { tx, plan } = this;
    const table = isSystemTable(plan.table) && !SYSTEM_TABLES.has(plan.table) ? undefined : tx.table(plan.namespace, plan.table);
    const tree = table?.indexes.get(plan.index)?.tree;
    if (tree !== undefined && tree !== this.seen) {
      this.seen = tree;
      this.cursor = tree.cursor(this.low, this.high, plan.ascending);
    }
    const entry = tree === undefined ? null : (this.cursor as Cursor<Doc>).next();
    if (entry === null) {
      this.record(this.from, this.to);
      return null;
    }
    const [key, doc] = entry;
    this.lastKey = key;
    if (plan.ascending) {
      this.low = keyAfter(key);
      this.record(this.from, this.low);
    } else {
      this.high = key;
      this.record(key, this.to);
    }
    if (this.recorded) tx.countRead(plan.table, doc);
    return doc;
  }

  /** Whether a row is left; looking is not reading. */
  hasMore(): boolean {
    return new RangeScan(this.tx, this.plan, this.low, this.high, false).next() !== null;
  }

  /** Records that the rest of the interval was read to its end. */
  private record(low: string, high: string): void {
    if (!this.recorded) return;
    this.tx.reads.add(this.plan.namespace, this.plan.table, this.plan.index, low, high);
    this.tx.checkRanges();
  }
}

export interface RowSource {
  next(): Doc | null;
}

/** A running query: rows through its operators. */
export class QueryStream {
  private readonly rows: RowSource;
  private readonly left: number[];
  readonly isLimited: boolean;

  constructor(tx: Transaction, private readonly plan: Plan) {
    this.isLimited = plan.operators.some((operator) => "limit" in operator);
    this.rows = plan.search === null ? new RangeScan(tx, plan) : plan.search.run(tx);
    this.left = plan.operators.map((operator) => ("limit" in operator ? operator.limit : 0));
  }

  next(): Doc | null {
    for (;;) {
      if (this.plan.operators.some((operator, at) => "limit" in operator && (this.left[at] as number) <= 0)) return null;
      const doc = this.rows.next();
      if (doc === null) return null;
      if (this.passes(doc)) return doc;
    }
  }

  private passes(doc: Doc): boolean {
    return passesOperators(this.plan, this.left, doc);
  }
}

export function passesOperators(plan: Plan, left: number[], doc: Doc): boolean {
  for (let at = 0; at < plan.operators.length; at++) {
    const operator = plan.operators[at] as Operator;
    if ("filter" in operator) {
      if (!operator.filter(doc.value)) return false;
    } else {
      left[at] = (left[at] as number) - 1;
    }
  }
  return true;
}
