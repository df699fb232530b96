/** System functions about stored files. */

import { readPage } from "../db/pagination.js";
import { compileQuery } from "../db/query.js";
import { docCount, type Doc } from "../db/tables.js";
import { FILES_TABLE } from "../storage/files.js";
import { KEY_END } from "../values/order.js";
import { isObject, makeObject, type Value } from "../values/value.js";
import { listOf, number, object, optional, order, pagination, string, takes } from "./arguments.js";
import type { SystemCall, SystemFunction } from "./functions.js";
import { checkedPageRequest, pageValue } from "./pages.js";

function fileValue({ engine, namespace }: SystemCall, doc: Doc): Value {
  return makeObject([...Object.entries(doc.value), ["url", engine.files.url(namespace, doc)]]);
}

function numFiles({ tx, namespace }: SystemCall): Value {
  tx.reads.add(namespace, FILES_TABLE, "by_id", "", KEY_END);
  const table = tx.table(namespace, FILES_TABLE);
  return table === undefined ? 0 : docCount(table);
}

/** A page of files, by default the newest first, between two creation times (both included). */
function fileMetadata(call: SystemCall): Value {
  const filters = call.args["filters"];
  const given = isObject(filters) ? filters : makeObject([]);
  const bound = (op: string, value: Value | undefined): unknown[] =>
    value === undefined ? [] : [{ filter: { [op]: [{ $field: "_creationTime" }, { $literal: value }] } }];
  const query = {
    source: { type: "FullTableScan", tableName: FILES_TABLE, order: given["order"] === "asc" ? "asc" : "desc" },
    operators: [...bound("$gte", given["minCreationTime"]), ...bound("$lte", given["maxCreationTime"])],
  };
  const found = readPage(call.tx, compileQuery(call.tx, call.namespace, query), checkedPageRequest(call), call.engine.cursors);
  return pageValue(found, (doc) => fileValue(call, doc));
}

function getFile(call: SystemCall): Value {
  const doc = call.tx.get(call.namespace, FILES_TABLE, call.args["storageId"] as string);
  return doc === null ? null : fileValue(call, doc);
}

function deleteFiles({ engine, tx, namespace }: SystemCall, ids: readonly Value[]): Value {
  for (const storageId of ids) engine.files.syscall(tx, namespace, "storageDelete", { storageId });
  return null;
}

function generateUploadUrl({ engine, tx, namespace }: SystemCall): Value {
  return engine.files.syscall(tx, namespace, "storageGenerateUploadUrl", {}) as string;
}

const FILTERS = object({ minCreationTime: optional(number), maxCreationTime: optional(number), order: optional(order) });

export const FILE_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/fileStorageV2:numFiles", { kind: "Query", args: takes({}), run: numFiles }],
  ["frontend/fileStorageV2:fileMetadata", { kind: "Query", args: takes({ paginationOpts: pagination, filters: optional(FILTERS) }), run: fileMetadata }],
  ["frontend/fileStorageV2:getFile", { kind: "Query", args: takes({ storageId: string }), run: getFile }],
  ["frontend/fileStorageV2:deleteFile", { kind: "Mutation", args: takes({ storageId: string }), run: (call) => deleteFiles(call, [call.args["storageId"] as Value]) }],
  ["frontend/fileStorageV2:deleteFiles", { kind: "Mutation", args: takes({ storageIds: listOf(string) }), run: (call) => deleteFiles(call, call.args["storageIds"] as Value[]) }],
  ["frontend/fileStorageV2:generateUploadUrl", { kind: "Mutation", args: takes({}), run: generateUploadUrl }],
];
