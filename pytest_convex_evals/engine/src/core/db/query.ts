/** Queries: from the JSON that the library sends to a stream of documents that records what it reads. */

import { createHash } from "node:crypto";

import { UserError } from "../errors.js";
import { identifierProblem } from "../values/names.js";
import { KEY_END, keyAfter } from "../values/order.js";
import { SYSTEM_TABLES } from "./database.js";
import { compileFilter, type Predicate } from "./filter.js";
import { compileRange } from "./ranges.js";
import { compileSearch, type SearchPlan } from "./search.js";
import { isSystemTable, type Doc, type Index } from "./tables.js";
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
  /** Identifies the query, for cursors. */
  fingerprint(): string;
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
  const fingerprint = (fields: readonly string[]) => (): string =>
    createHash("sha256").update(JSON.stringify([{ ...source, order }, raw?.operators, fields])).digest("base64").slice(0, 24);
  if (source.type === "FullTableScan") {
    const table = String(source.tableName);
    const problem = identifierProblem(table);
    if (problem !== null) throw new UserError("InvalidTableName", `Invalid table name: "${table}". ${problem}`);
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

/** Rows that are fetched at once when nothing says how many are wanted, and at most. */
const FETCHED = 100;
const MOST_FETCHED = 1024;

/**
 * Reads the rows of a plan's interval in order and records the interval consumed.
 *
 * Rows are fetched some at a time, as on the platform: what a function writes while it iterates shows in later fetches, not in
 * the rows fetched already. So a loop that moves or adds rows ahead of itself does not meet them again and again.
 */
export class RangeScan {
  private fetched: [string, Doc][] = [];
  private at = 0;
  /** What is still to be fetched. */
  private low: string;
  private high: string;
  private exhausted = false;
  /** Key of the last row returned. */
  lastKey: string | null = null;

  constructor(
    private readonly tx: Transaction,
    private readonly plan: Plan,
    private readonly from = plan.low,
    private readonly to = plan.high,
    private readonly size = FETCHED,
  ) {
    this.low = from;
    this.high = to;
  }

  next(): Doc | null {
    const { plan } = this;
    if (!this.hasMore()) {
      this.record(this.from, this.to);
      return null;
    }
    const [key, doc] = this.fetched[this.at++] as [string, Doc];
    this.lastKey = key;
    if (plan.ascending) this.record(this.from, keyAfter(key));
    else this.record(key, this.to);
    this.tx.countRead(plan.table, doc);
    return doc;
  }

  /** Whether a row is left; looking is not reading. */
  hasMore(): boolean {
    if (this.at === this.fetched.length && !this.exhausted) this.fetch();
    return this.at < this.fetched.length;
  }

  private fetch(): void {
    const { tx, plan } = this;
    const table = isSystemTable(plan.table) && !SYSTEM_TABLES.has(plan.table) ? undefined : tx.table(plan.namespace, plan.table);
    const rows = table?.indexes.get(plan.index)?.tree.cursor(this.low, this.high, plan.ascending);
    this.fetched = [];
    this.at = 0;
    let row = rows?.next() ?? null;
    for (; row !== null; row = rows?.next() ?? null) {
      this.fetched.push(row);
      if (this.fetched.length < this.size) continue;
      if (plan.ascending) this.low = keyAfter(row[0]);
      else this.high = row[0];
      return;
    }
    this.exhausted = true;
  }

  private record(low: string, high: string): void {
    this.tx.reads.add(this.plan.namespace, this.plan.table, this.plan.index, low, high);
    this.tx.checkRanges();
  }
}

/** How many rows a fetch of this query asks for. */
function fetchSize({ operators }: Plan): number {
  let size = FETCHED;
  for (const operator of operators) {
    if ("filter" in operator) return FETCHED;
    size = operator.limit;
  }
  return Math.min(Math.max(size, 1), MOST_FETCHED);
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
    this.rows = plan.search === null ? new RangeScan(tx, plan, plan.low, plan.high, fetchSize(plan)) : plan.search.run(tx);
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
