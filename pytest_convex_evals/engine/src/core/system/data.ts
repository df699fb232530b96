/** System functions that read and write documents. */

import { deleteDocument, getDocument, insertDocument, patchDocument, replaceDocument } from "../db/documents.js";
import { readPage } from "../db/pagination.js";
import { compileQuery, QueryStream } from "../db/query.js";
import { docCount, docsOf, isSystemTable, type Doc } from "../db/tables.js";
import { JsFailure, UserError } from "../errors.js";
import { KEY_END } from "../values/order.js";
import { isObject, makeObject, type Value } from "../values/value.js";
import { any, listOf, number, object, optional, order, orNull, pagination, string, takes } from "./arguments.js";
import type { SystemCall, SystemFunction } from "./functions.js";
import { checkedPageRequest, pageValue } from "./pages.js";

const MAX_DOCUMENTS = 4096;
const CLEAR_ROWS = 4000;
const CLEAR_BYTES = 3_000_000;
const DEFAULT_LIMIT = 32;
const READ_LIMITS = new Set(["TooManyDocumentsRead", "TooManyBytesRead"]);
/** Operators of a dashboard's filter that the engine knows; others let every row pass. */
const FILTER_OPERATORS = ["eq", "neq", "gt", "gte", "lt", "lte"];

const text = (value: Value | undefined): string => (typeof value === "string" ? value : "");

function refuseSystem(table: string): void {
  if (isSystemTable(table)) throw new JsFailure("Uncaught Error: System tables can only be accessed from db.system.query().");
}

function scan(table: string, order: "asc" | "desc"): unknown {
  return { source: { type: "FullTableScan", tableName: table, order }, operators: [] };
}

/** The next row, or null at the end of the table and where a read limit is reached. */
function nextReadable(stream: QueryStream): Doc | null {
  try {
    return stream.next();
  } catch (error) {
    if (error instanceof UserError && READ_LIMITS.has(error.code)) return null;
    throw error;
  }
}

function listTableScan({ tx, namespace, args }: SystemCall): Value {
  const table = text(args["table"]);
  if (table === "") return [];
  refuseSystem(table);
  const limit = typeof args["limit"] === "number" ? args["limit"] : DEFAULT_LIMIT;
  const stream = new QueryStream(tx, compileQuery(tx, namespace, scan(table, "desc")));
  const docs: Value[] = [];
  while (docs.length < limit) {
    const doc = nextReadable(stream);
    if (doc === null) break;
    docs.push(doc.value);
  }
  return docs;
}

function page(call: SystemCall, query: unknown): Value {
  return pageValue(readPage(call.tx, compileQuery(call.tx, call.namespace, query), checkedPageRequest(call), call.engine.cursors));
}

function addDocument({ tx, namespace, args }: SystemCall): Value {
  const documents = Array.isArray(args["documents"]) ? args["documents"] : [];
  if (documents.length > MAX_DOCUMENTS) {
    return makeObject([
      ["success", false],
      ["error", `You can only add up to ${MAX_DOCUMENTS} documents at a time.`],
    ]);
  }
  asConvexError(() => {
    for (const document of documents) insertDocument(tx, namespace, text(args["table"]), document);
  });
  return makeObject([["success", true]]);
}

/** Failures of dashboard writes arrive as a ConvexError whose data is the message. */
function asConvexError(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (error instanceof UserError) throw new JsFailure(`Uncaught ConvexError: ${error.message}`, [], error.message);
    throw error;
  }
}

function replace({ tx, namespace, args }: SystemCall): Value {
  const id = text(args["id"]);
  if (getDocument(tx, namespace, id, undefined, false) === null) {
    return makeObject([
      ["success", false],
      ["error", "Document does not exist."],
    ]);
  }
  asConvexError(() => replaceDocument(tx, namespace, id, undefined, () => args["document"] ?? null));
  return makeObject([["success", true]]);
}

function patchFields({ tx, namespace, args }: SystemCall): Value {
  const fields = isObject(args["fields"]) ? args["fields"] : makeObject([]);
  const table = tx.table(namespace, text(args["table"]));
  const ids = Array.isArray(args["ids"]) ? args["ids"].map(text) : table === undefined ? [] : [...docsOf(table)].map((doc) => doc.id);
  const changes = new Map<string, Value | undefined>(
    Object.entries(fields).map(([name, value]) => [name, value === "__undefined__" ? undefined : value]),
  );
  asConvexError(() => {
    for (const id of ids) patchDocument(tx, namespace, id, undefined, () => changes);
  });
  return makeObject([["success", true]]);
}

function deleteDocuments({ tx, namespace, args }: SystemCall): Value {
  const list = Array.isArray(args["toDelete"]) ? args["toDelete"] : [];
  if (list.length > MAX_DOCUMENTS) {
    return makeObject([
      ["success", false],
      ["error", `You can only delete up to ${MAX_DOCUMENTS} documents at a time.`],
    ]);
  }
  for (const item of list) if (isObject(item)) deleteDocument(tx, namespace, text(item["id"]), undefined);
  return makeObject([["success", true]]);
}

function clearTablePage({ engine, tx, namespace, args }: SystemCall): Value {
  const table = text(args["tableName"]);
  refuseSystem(table);
  const cursor = typeof args["cursor"] === "string" ? args["cursor"] : null;
  const plan = compileQuery(tx, namespace, scan(table, "asc"));
  const found = readPage(tx, plan, { cursor, endCursor: null, numItems: CLEAR_ROWS, maximumRowsRead: null, maximumBytesRead: CLEAR_BYTES }, engine.cursors);
  for (const doc of found.docs) tx.write(namespace, table, doc, null);
  return makeObject([
    ["deleted", found.docs.length],
    ["continueCursor", found.continueCursor],
    ["hasMore", !found.isDone],
  ]);
}

function createTable({ tx, namespace, args }: SystemCall): Value {
  const id = insertDocument(tx, namespace, text(args["table"]), makeObject([]));
  deleteDocument(tx, namespace, id, undefined);
  return null;
}

const PUBLIC_NAMES: ReadonlyMap<string, string> = new Map([
  ["_file_storage", "_storage"],
  ["_scheduled_jobs", "_scheduled_functions"],
]);

function getById({ tx, namespace, args }: SystemCall): Value {
  const id = text(args["id"]);
  for (const isSystem of [false, true]) {
    try {
      return getDocument(tx, namespace, id, undefined, isSystem)?.value ?? null;
    } catch (error) {
      if (!(error instanceof UserError) || error.code !== "SystemTableError") throw error;
    }
  }
  return null;
}

function listById(call: SystemCall): Value {
  const ids = Array.isArray(call.args["ids"]) ? call.args["ids"] : [];
  return ids.map((item) => getById({ ...call, args: { id: isObject(item) ? (item["id"] as Value) : null } }));
}

function tableSize({ tx, namespace, args }: SystemCall): Value {
  const given = text(args["tableName"]);
  const name = PUBLIC_NAMES.get(given) ?? given;
  tx.reads.add(namespace, name, "by_id", "", KEY_END);
  const table = tx.table(namespace, name);
  return table === undefined ? 0 : docCount(table);
}

interface Clause {
  op: string;
  field: string;
  value: unknown;
}

function paginatedTableDocuments(call: SystemCall): Value {
  const table = text(call.args["table"]);
  const { clauses, direction } = parseFilters(text(call.args["filters"]));
  const operators = clauses.map(({ op, field, value }) => ({ filter: { [`$${op}`]: [{ $field: field }, { $literal: value ?? { $undefined: null } }] } }));
  return page(call, { source: { type: "FullTableScan", tableName: table, order: direction }, operators });
}

function parseFilters(encoded: string): { clauses: Clause[]; direction: "asc" | "desc" } {
  if (encoded === "") return { clauses: [], direction: "desc" };
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(encoded, "base64").toString());
  } catch {
    throw new UserError("InvalidFilters", "Invalid filters: not base64 of JSON");
  }
  const filters = (typeof parsed === "object" && parsed !== null ? parsed : {}) as { clauses?: unknown; order?: unknown };
  const listed = Array.isArray(filters.clauses) ? (filters.clauses as unknown[]) : [];
  return { clauses: listed.filter(isClause), direction: filters.order === "asc" ? "asc" : "desc" };
}

function isClause(raw: unknown): raw is Clause {
  const clause = raw as { op?: unknown; field?: unknown; enabled?: unknown } | null;
  return typeof clause?.op === "string" && FILTER_OPERATORS.includes(clause.op) && typeof clause.field === "string" && clause.enabled !== false;
}

const query = (args: Parameters<typeof takes>[0], run: SystemFunction["run"]): SystemFunction => ({ kind: "Query", args: takes(args), run });
const mutation = (args: Parameters<typeof takes>[0], run: SystemFunction["run"]): SystemFunction => ({ kind: "Mutation", args: takes(args), run });
const ROW = object({ id: string, tableName: string });

export const DATA_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/listTableScan:default", query({ table: orNull(string), limit: optional(number) }, listTableScan)],
  ["frontend/paginatedTableDocuments:default", query({ paginationOpts: pagination, table: orNull(string), filters: optional(orNull(string)) }, paginatedTableDocuments)],
  ["frontend/getById:default", query({ id: string }, getById)],
  ["frontend/listById:default", query({ ids: listOf(ROW) }, listById)],
  ["frontend/addDocument:default", mutation({ table: string, documents: listOf(any) }, addDocument)],
  ["frontend/replaceDocument:default", mutation({ id: string, document: any }, replace)],
  ["frontend/patchDocumentsFields:default", mutation({ table: string, fields: any, ids: optional(listOf(string)) }, patchFields)],
  ["frontend/deleteDocuments:default", mutation({ toDelete: listOf(ROW) }, deleteDocuments)],
  ["frontend/clearTablePage:default", mutation({ tableName: string, cursor: orNull(string) }, clearTablePage)],
  ["frontend/createTable:default", mutation({ table: string }, createTable)],
  ["frontend/tableSize:default", query({ tableName: string }, tableSize)],
  ["cli/tableSize:default", query({ tableName: string }, tableSize)],
  [
    "cli/tableData:default",
    query({ table: string, order: optional(order), paginationOpts: pagination }, (call) => page(call, scan(text(call.args["table"]), call.args["order"] === "asc" ? "asc" : "desc"))),
  ],
];
