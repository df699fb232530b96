/** Vector search: cosine similarity over the latest committed documents. */

import { UserError } from "../errors.js";
import { parseFieldPath, valueAt } from "../values/names.js";
import { compareStrings, encodeKey } from "../values/order.js";
import { parseMaybeValue } from "../values/value.js";
import type { Database } from "./database.js";
import { docsOf } from "./tables.js";

const MAX_LIMIT = 256;
const MAX_CONDITIONS = 64;
const DEFAULT_LIMIT = 10;

interface Condition {
  field: string;
  key: string;
}

export function vectorSearch(db: Database, namespace: string, json: unknown): { _id: string; _score: number }[] {
  const query = json as { indexName?: unknown; limit?: unknown; vector?: unknown; expressions?: unknown };
  const full = String(query.indexName);
  const [tableName, indexName] = full.split(".") as [string, string];
  const conditions = query.expressions === null || query.expressions === undefined ? null : flatten(query.expressions);
  const table = db.tableOf(namespace, tableName);
  if (table === undefined) return [];
  const index = db.schemas.get(namespace)?.tables.get(tableName)?.vectorIndexes.find((candidate) => candidate.name === indexName);
  if (index === undefined) throw new UserError("IndexNotFound", `Index ${full} not found.`);
  if (index.staged) throw new UserError("IndexStaged", `Index ${full} is currently staged and not available to query until it is enabled.`);
  const limit = query.limit === undefined || query.limit === null ? DEFAULT_LIMIT : Number(query.limit);
  if (!Number.isInteger(limit) || limit < 0) throw new Error("bad limit");
  if (limit > MAX_LIMIT) {
    throw new UserError("VectorLimitTooLargeError", `Vector queries can fetch at most ${MAX_LIMIT} results, requested ${limit}.`);
  }
  for (const { field } of conditions ?? []) {
    if (!index.filterFields.includes(field)) {
      throw new UserError("IncorrectVectorFilterField", `Vector query against ${full} contains a filter on "${field}" but that field isn't indexed for filtering in \`filterFields\`.`);
    }
  }
  const distinct = new Set((conditions ?? []).map(({ field, key }) => `${field}\n${key}`)).size;
  if (distinct > MAX_CONDITIONS) {
    throw new UserError("TooManyElementsInVectorQueryError", `Vector query against ${full} has too many conditions. Max: ${MAX_CONDITIONS} Actual: ${distinct}`);
  }
  const vector = query.vector as number[];
  if (!Array.isArray(vector) || vector.some((item) => typeof item !== "number" || Number.isNaN(item))) throw new Error("bad vector");
  if (vector.length !== index.dimensions) {
    throw new UserError("VectorDimensionsMismatch", `Expected a vector with dimensions ${index.dimensions}, received ${vector.length}.`);
  }
  const wanted = normalized(vector);
  const path = parseFieldPath(index.vectorField);
  const found: { _id: string; _score: number }[] = [];
  for (const doc of docsOf(table)) {
    const value = valueAt(doc.value, path);
    if (!Array.isArray(value) || value.length !== index.dimensions || value.some((item) => typeof item !== "number")) continue;
    if (conditions !== null && conditions.length > 0) {
      const matches = conditions.some(({ field, key }) => encodeKey(valueAt(doc.value, parseFieldPath(field))) === key);
      if (!matches) continue;
    }
    found.push({ _id: doc.id, _score: dot(wanted, normalized(value as number[])) });
  }
  found.sort((a, b) => b._score - a._score || compareStrings(b._id, a._id));
  return found.slice(0, limit);
}

/** Everything is a disjunction: `eq`, and `or` of them. */
function flatten(json: unknown): Condition[] {
  const raw = json as { $eq?: unknown; $or?: unknown };
  if (Array.isArray(raw.$or)) return raw.$or.flatMap(flatten);
  const pair = raw.$eq as [{ $field?: unknown }, { $literal?: unknown }] | undefined;
  if (!Array.isArray(pair) || typeof pair[0]?.$field !== "string" || typeof pair[1] !== "object" || !("$literal" in pair[1])) {
    throw new UserError("InvalidVectorQuery", "Filters should be a combination of `q.eq` and `q.or`.");
  }
  return [{ field: pair[0].$field, key: encodeKey(parseMaybeValue(pair[1].$literal)) }];
}

function normalized(vector: readonly number[]): Float32Array {
  const result = Float32Array.from(vector);
  let sum = 0;
  for (const item of result) sum += item * item;
  const length = Math.sqrt(sum);
  return length === 0 ? result : result.map((item) => item / length);
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum = Math.fround(sum + Math.fround((a[i] as number) * (b[i] as number)));
  return sum;
}
