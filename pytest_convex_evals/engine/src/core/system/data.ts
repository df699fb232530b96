/** System functions that read and write documents. */

import { deleteDocument, getDocument, insertDocument, patchDocument, replaceDocument } from "../db/documents.js";
import { checkPageRequest, readPage, type PageRequest } from "../db/pagination.js";
import { compileFilter } from "../db/filter.js";
import { compileQuery, QueryStream } from "../db/query.js";
import { docCount, docsOf, isSystemTable } from "../db/tables.js";
import { JsFailure, UserError } from "../errors.js";
import { KEY_END } from "../values/order.js";
import { isObject, makeObject, type Value, type ValueObject } from "../values/value.js";
import type { SystemCall, SystemFunction } from "./functions.js";

const MAX_DOCUMENTS = 4096;
const CLEAR_ROWS = 4000;
const CLEAR_BYTES = 3_000_000;
const DEFAULT_LIMIT = 32;

const text = (value: Value | undefined): string => (typeof value === "string" ? value : "");

function refuseSystem(table: string): void {
  if (isSystemTable(table)) throw new JsFailure("Uncaught Error: System tables can only be accessed from db.system.query().");
}

function scan(table: string, order: "asc" | "desc"): unknown {
  return { source: { type: "FullTableScan", tableName: table, order }, operators: [] };
}

function listTableScan({ tx, namespace, args }: SystemCall): Value {
  const table = text(args["table"]);
  if (table === "") return [];
  refuseSystem(table);
  const limit = typeof args["limit"] === "number" ? args["limit"] : DEFAULT_LIMIT;
  const stream = new QueryStream(tx, compileQuery(tx, namespace, scan(table, "desc")));
  const docs: Value[] = [];
  while (docs.length < limit) {
    const doc = stream.next();
    if (doc === null) break;
    docs.push(doc.value);
  }
  return docs;
}

function pageRequest(options: Value | undefined): PageRequest {
  const given: ValueObject = isObject(options) ? options : makeObject([]);
  const number = (name: string): number | null => (typeof given[name] === "number" ? given[name] : null);
  const cursor = (name: string): string | null => (typeof given[name] === "string" ? given[name] : null);
  return {
    cursor: cursor("cursor"),
    endCursor: cursor("endCursor"),
    numItems: number("numItems") ?? 0,
    maximumRowsRead: number("maximumRowsRead"),
    maximumBytesRead: number("maximumBytesRead"),
  };
}

function page(call: SystemCall, table: string, order: "asc" | "desc"): Value {
  const request = pageRequest(call.args["paginationOpts"]);
  checkPageRequest(request);
  const found = readPage(call.tx, compileQuery(call.tx, call.namespace, scan(table, order)), request, call.engine.cursors);
  return makeObject([
    ["page", found.docs.map((doc) => doc.value)],
    ["isDone", found.isDone],
    ["continueCursor", found.continueCursor],
    ["splitCursor", found.splitCursor],
    ["pageStatus", found.pageStatus],
  ]);
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

const PUBLIC_NAMES: Record<string, string> = { _file_storage: "_storage", _scheduled_jobs: "_scheduled_functions" };

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
  const name = text(args["tableName"]);
  tx.reads.add(namespace, name, "by_id", "", KEY_END);
  const table = tx.table(namespace, PUBLIC_NAMES[name] ?? name);
  return table === undefined ? 0 : docCount(table);
}

function paginatedTableDocuments(call: SystemCall): Value {
  const encoded = text(call.args["filters"]);
  if (encoded === "") return page(call, text(call.args["table"]), "desc");
  const filters = JSON.parse(Buffer.from(encoded, "base64").toString()) as { clauses?: { op: string; field: string; value: unknown; enabled?: boolean }[]; order?: "asc" | "desc" };
  const operators = (filters.clauses ?? [])
    .filter((clause) => clause.enabled !== false && ["eq", "neq", "gt", "gte", "lt", "lte"].includes(clause.op))
    .map((clause) => ({ filter: { [`$${clause.op}`]: [{ $field: clause.field }, { $literal: clause.value ?? { $undefined: null } }] } }));
  for (const operator of operators) compileFilter(operator.filter);
  const request = pageRequest(call.args["paginationOpts"]);
  checkPageRequest(request);
  const query = { source: { type: "FullTableScan", tableName: text(call.args["table"]), order: filters.order ?? "desc" }, operators };
  const found = readPage(call.tx, compileQuery(call.tx, call.namespace, query), request, call.engine.cursors);
  return makeObject([
    ["page", found.docs.map((doc) => doc.value)],
    ["isDone", found.isDone],
    ["continueCursor", found.continueCursor],
  ]);
}

export const DATA_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/listTableScan:default", { kind: "Query", args: ["table", "limit"], run: listTableScan }],
  ["frontend/paginatedTableDocuments:default", { kind: "Query", args: ["paginationOpts", "table", "filters"], run: paginatedTableDocuments }],
  ["frontend/getById:default", { kind: "Query", args: ["id"], run: getById }],
  ["frontend/listById:default", { kind: "Query", args: ["ids"], run: listById }],
  ["frontend/addDocument:default", { kind: "Mutation", args: ["table", "documents"], run: addDocument }],
  ["frontend/replaceDocument:default", { kind: "Mutation", args: ["id", "document"], run: replace }],
  ["frontend/patchDocumentsFields:default", { kind: "Mutation", args: ["table", "fields", "ids"], run: patchFields }],
  ["frontend/deleteDocuments:default", { kind: "Mutation", args: ["toDelete"], run: deleteDocuments }],
  ["frontend/clearTablePage:default", { kind: "Mutation", args: ["tableName", "cursor"], run: clearTablePage }],
  ["frontend/createTable:default", { kind: "Mutation", args: ["table"], run: createTable }],
  ["frontend/tableSize:default", { kind: "Query", args: ["tableName"], run: tableSize }],
  ["cli/tableSize:default", { kind: "Query", args: ["tableName"], run: tableSize }],
  ["cli/tableData:default", { kind: "Query", args: ["table", "order", "paginationOpts"], run: (call) => page(call, text(call.args["table"]), call.args["order"] === "asc" ? "asc" : "desc") }],
];
