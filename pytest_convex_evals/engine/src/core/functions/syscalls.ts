/** System calls of queries and mutations. Everything arrives as text from the runner and is checked here. */

import { userIdentity } from "../auth/identity.js";
import { argument, deleteDocument, getDocument, insertDocument, patchDocument, replaceDocument } from "../db/documents.js";
import { SYSTEM_TABLES } from "../db/database.js";
import { checkPageRequest, readPage } from "../db/pagination.js";
import { compileQuery, QueryStream } from "../db/query.js";
import { DIMENSIONS } from "../db/usage.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { cancelJob, scheduleJob } from "../time/jobs.js";
import { decodeLegacyId, encodeId, tryDecodeId } from "../values/ids.js";
import { checkFieldName, encodeInt64, hasLoneSurrogate, isUndefinedMarker, parseValue, type Value } from "../values/value.js";
import type { UdfContext } from "./context.js";
import { resolveAddress, shortName } from "./paths.js";

type Args = Record<string, unknown>;

export function parseArgs(json: string): Args {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch (error) {
    throw new UserError("SyscallArgsInvalidJson", `Received invalid json: ${(error as Error).message}`);
  }
  if (hasLoneSurrogate(json)) throw new UserError("SyscallArgsInvalidJson", "Received invalid json: lone surrogate in hex escape");
  if (typeof parsed !== "object" || parsed === null) throw new UserError("SyscallArgsInvalidJson", "Received invalid json: not an object");
  return parsed as Args;
}

export function text(args: Args, name: string, method: string): string {
  const value = args[name];
  if (typeof value !== "string") throw new UserError("BadRequest", `Invalid argument \`${name}\` for \`${method}\`: expected a string`);
  return value;
}

function invalidArguments<T>(method: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof UserError && error.code.startsWith("Invalid") && error.code !== "InvalidIndexRange") {
      throw new UserError(error.code, `Invalid argument \`query\` for \`${method}\`: ${error.message}`, error.data);
    }
    throw error;
  }
}

// ── synchronous ─────────────────────────────────────────────────────────────────────────────────────────────────────

export function syncSyscall(context: UdfContext, op: string, json: string): string {
  const args = parseArgs(json);
  switch (op) {
    case "1.0/queryStream": {
      const plan = invalidArguments("queryStream", () => compileQuery(context.tx, context.component.path, args["query"]));
      const id = context.nextStream++;
      context.streams.set(id, new QueryStream(context.tx, plan));
      return JSON.stringify({ queryId: id });
    }
    case "1.0/queryCleanup":
      return JSON.stringify(context.streams.delete(Number(args["queryId"])));
    case "1.0/db/normalizeId":
      return JSON.stringify({ id: normalizeId(context, text(args, "table", "db.normalizeId"), text(args, "idString", "db.normalizeId")) });
    case "1.0/getSnapshotTs":
      return JSON.stringify(encodeInt64(context.tx.base.ts));
    default:
      throw new UserError("UnknownOperation", `Unknown operation ${op}`);
  }
}

function normalizeId(context: UdfContext, table: string, id: string): string | null {
  const number = SYSTEM_TABLES.get(table) ?? context.tx.table(context.component.path, table)?.number;
  if (number === undefined) return null;
  const decoded = tryDecodeId(id);
  if (decoded !== null) return decoded.table === number ? id : null;
  const legacy = decodeLegacyId(id);
  return legacy === null ? null : encodeId(number, legacy);
}

// ── asynchronous ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Reads that the platform runs in batches. */
export function isBatchedRead(op: string): boolean {
  return op === "1.0/get" || op === "1.0/queryStreamNext" || op === "1.0/storageGetUrl";
}

const WRITES = new Set([
  "1.0/insert",
  "1.0/shallowMerge",
  "1.0/replace",
  "1.0/remove",
  "1.0/schedule",
  "1.0/cancel_job",
  "1.0/storageDelete",
  "1.0/storageStore",
  "1.0/storageGenerateUploadUrl",
]);

/** Every operation except nested calls, which the executor runs. */
export function asyncSyscall(engine: Engine, context: UdfContext, op: string, json: string): string {
  const args = parseArgs(json);
  const { tx } = context;
  const namespace = context.component.path;
  if (context.kind === "query" && WRITES.has(op)) throw new UserError("BadRequest", `Unsupported operation ${op} in a query`);
  switch (op) {
    case "1.0/get": {
      const table = args["table"];
      const doc = getDocument(tx, namespace, text(args, "id", "db.get"), typeof table === "string" ? table : undefined, args["isSystem"] === true);
      return doc === null ? "null" : doc.json;
    }
    case "1.0/queryStreamNext":
      return queryStreamNext(context, args);
    case "1.0/queryPage":
      return queryPage(engine, context, args);
    case "1.0/insert": {
      const value = argument("db.insert", "value", () => parseValue(args["value"], "commitTs"));
      return JSON.stringify({ _id: insertDocument(tx, namespace, text(args, "table", "db.insert"), value) });
    }
    case "1.0/shallowMerge":
      patchDocument(tx, namespace, text(args, "id", "db.patch"), optionalText(args, "table"), () => argument("db.patch", "value", () => patchFields(args["value"])));
      return "null";
    case "1.0/replace":
      replaceDocument(tx, namespace, text(args, "id", "db.replace"), optionalText(args, "table"), () => argument("db.replace", "value", () => parseValue(args["value"], "commitTs")));
      return "null";
    case "1.0/remove":
      deleteDocument(tx, namespace, text(args, "id", "db.delete"), optionalText(args, "table"));
      return "null";
    case "1.0/count":
      return JSON.stringify(tx.count(namespace, text(args, "table", "db.count")));
    case "1.0/createFunctionHandle":
      return JSON.stringify(engine.handles.create(resolveAddress(engine.deployment, engine.handles, context.component, args)));
    case "1.0/schedule":
      return JSON.stringify(scheduleFromFunction(engine, context, args));
    case "1.0/cancel_job":
      cancelJob(tx, namespace, text(args, "id", "db.cancel_job"), context.root.job, (warning) => context.root.log.add("WARN", warning));
      return "null";
    case "1.0/storageGetUrl":
    case "1.0/storageGetMetadata":
    case "1.0/storageDelete":
    case "1.0/storageGenerateUploadUrl":
    case "1.0/storageStore":
    case "1.0/storageGet":
      return JSON.stringify(engine.files.syscall(tx, namespace, op.slice(4), args));
    case "1.0/getUserIdentity":
      return JSON.stringify(userIdentity(context.identity));
    case "1.0/getTransactionMetrics":
      return JSON.stringify(transactionMetrics(context));
    case "1.0/getFunctionMetadata":
      return JSON.stringify({ name: shortName(context.path), componentPath: namespace });
    case "1.0/getDeploymentMetadata":
      return JSON.stringify({ name: engine.instanceName, region: null, class: "dev" });
    case "1.0/getRequestMetadata":
      if (context.kind === "query") break;
      return JSON.stringify(requestMetadata(context.root));
    default:
      break;
  }
  throw new UserError("UnknownOperation", `Unknown async operation ${op}`);
}

export function requestMetadata(root: UdfContext["root"]): Record<string, unknown> {
  return { ip: root.request.ip, userAgent: root.request.userAgent, requestId: root.requestId, scheduledFunctionId: root.job?.id ?? null, authToken: null };
}

function optionalText(args: Args, name: string): string | undefined {
  const value = args[name];
  return typeof value === "string" ? value : undefined;
}

/** Top-level `undefined` means: remove the field. */
function patchFields(json: unknown): Map<string, Value | undefined> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new UserError("BadRequest", "Value must be an Object");
  const fields = new Map<string, Value | undefined>();
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(json)) {
    checkFieldName(name);
    if (isUndefinedMarker(value)) fields.set(name, undefined);
    else values[name] = value;
  }
  const parsed = parseValue(values, "commitTs");
  if (typeof parsed !== "object" || parsed === null) throw new UserError("BadRequest", "Value must be an Object");
  for (const [name, value] of Object.entries(parsed)) fields.set(name, value as Value);
  return fields;
}

/** Bytes after which the rest of a bounded stream waits for the next request. */
const AHEAD_BYTES = 1 << 18;

/**
 * One answer per line. A stream with a limit is always read to its end (`take`, `first`, `unique`), so its rows travel together;
 * of any other only the row that was asked for is read.
 */
function queryStreamNext(context: UdfContext, args: Args): string {
  const stream = context.streams.get(Number(args["queryId"]));
  if (stream === undefined) throw new UserError("BadRequest", "Invalid argument `queryId` for `queryStreamNext`: unknown query");
  let lines = "";
  for (;;) {
    const doc = stream.next();
    if (doc === null) return `${lines}{"value":null,"done":true}`;
    lines += `{"value":${doc.json},"done":false}`;
    if (!stream.isLimited || lines.length > AHEAD_BYTES) return lines;
    lines += "\n";
  }
}

function pageNumber(args: Args, name: string): number | null {
  const value = args[name];
  if (value === null || value === undefined) return null;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) {
    throw new UserError("BadRequest", `Invalid arguments for \`queryPage\`: invalid value for \`${name}\`: ${JSON.stringify(value)}, expected a non-negative integer`);
  }
  return value;
}

function queryPage(engine: Engine, context: UdfContext, args: Args): string {
  const request = {
    cursor: typeof args["cursor"] === "string" ? args["cursor"] : null,
    endCursor: typeof args["endCursor"] === "string" ? args["endCursor"] : context.journal,
    numItems: pageNumber(args, "pageSize") ?? 0,
    maximumRowsRead: pageNumber(args, "maximumRowsRead"),
    maximumBytesRead: pageNumber(args, "maximumBytesRead"),
  };
  checkPageRequest(request);
  for (const cursor of [request.cursor, request.endCursor]) if (cursor !== null) engine.cursors.open(cursor);
  if (context.component.path !== "") {
    throw new UserError("PaginationUnsupportedInComponents", "paginate() is only supported in the app.");
  }
  const plan = invalidArguments("queryPage", () => compileQuery(context.tx, context.component.path, args["query"]));
  const page = readPage(context.tx, plan, request, engine.cursors);
  if (context.paginated) {
    throw new UserError(
      "MultiplePaginatedDatabaseQueries",
      "This query or mutation function ran multiple paginated queries. Convex only supports a single paginated query in each function.",
    );
  }
  context.paginated = true;
  context.newJournal = page.continueCursor;
  const rest = { isDone: page.isDone, continueCursor: page.continueCursor, splitCursor: page.splitCursor, pageStatus: page.pageStatus };
  return `{"page":[${page.docs.map((doc) => doc.json).join(",")}],${JSON.stringify(rest).slice(1)}`;
}

function scheduleFromFunction(engine: Engine, context: UdfContext, args: Args): string {
  const target = resolveAddress(engine.deployment, engine.handles, context.component, args);
  return scheduleJob(context.tx, {
    namespace: context.component.path,
    target,
    args: args["args"],
    atMs: Number(args["ts"]) * 1000,
    nowMs: context.root.now,
    parent: context.root.job,
  });
}

function transactionMetrics(context: UdfContext): Record<string, { used: number; remaining: number }> {
  const { used, limits } = context.tx;
  return Object.fromEntries(DIMENSIONS.map((name) => [name, { used: used[name], remaining: limits[name] - used[name] }]));
}
