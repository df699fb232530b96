/**
 * Convex values: parsing from and printing to Convex JSON, with the platform's limits.
 *
 * In memory: null, bigint (int64), number (float64), boolean, string, Uint8Array (bytes), arrays, and objects without a prototype
 * whose keys are in byte order.
 */

import { UserError } from "../errors.js";

export type Value = null | bigint | number | boolean | string | Uint8Array | Value[] | ValueObject;
export interface ValueObject {
  [field: string]: Value;
}
export type MaybeValue = Value | undefined;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export const MAX_ARRAY_LENGTH = 8192;
export const MAX_OBJECT_FIELDS = 1024;
export const MAX_NESTING = 64;
export const MAX_VALUE_BYTES = 32 * 1024 * 1024;
const MIN_INT64 = -(2n ** 63n);
const MAX_INT64 = 2n ** 63n - 1n;
/** Stands for the timestamp of a commit that is still to come. No int64 is equal to it. */
export const COMMIT_TS = 2n ** 63n;

/** Whether `{"$commitTs": null}` is a value here: only inside a mutation. */
type Pending = "commitTs" | "none";

export function isObject(value: MaybeValue): value is ValueObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

export function emptyObject(): ValueObject {
  return Object.create(null) as ValueObject;
}

/** Builds an object with its keys in byte order (field names are ASCII, so code-unit order is byte order). */
export function makeObject(entries: Iterable<[string, Value]>): ValueObject {
  const result = emptyObject();
  for (const [key, value] of [...entries].sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))) result[key] = value;
  return result;
}

export function sortedKeys(value: ValueObject): string[] {
  return Object.keys(value).sort();
}

export function checkFieldName(name: string): void {
  if (name.length > 1024) throw new UserError("InvalidFieldName", `Field name is too long (${name.length} > maximum 1024).`);
  if (name.startsWith("$")) throw new UserError("InvalidFieldName", `Field name ${name} starts with '$', which is reserved.`);
  for (const char of name) {
    if (char < " " || char > "~") {
      throw new UserError(
        "InvalidFieldName",
        `Field name ${name} has invalid character '${char}': Field names can only contain non-control ASCII characters`,
      );
    }
  }
}

/** Size units as the platform prints them: binary, up to two decimals. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes;
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB"]) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return `${Number(value.toFixed(2))} ${unit}`;
}

export function parseValue(json: unknown, pending: Pending = "none"): Value {
  const value = parse(json, 1, pending);
  const size = valueSize(value);
  if (size > MAX_VALUE_BYTES) {
    throw new UserError("ValueTooLargeError", `Value is too large (${formatBytes(size)} > maximum size ${formatBytes(MAX_VALUE_BYTES)})`);
  }
  return value;
}

/** As parseValue, for places where `{"$undefined": null}` stands for a missing value. */
export function parseMaybeValue(json: unknown, pending: Pending = "none"): MaybeValue {
  if (isUndefinedMarker(json)) return undefined;
  return parseValue(json, pending);
}

export function isUndefinedMarker(json: unknown): boolean {
  return typeof json === "object" && json !== null && Object.keys(json).length === 1 && "$undefined" in json;
}

function tooNested(value: unknown): never {
  const depth = (item: unknown): number =>
    typeof item === "object" && item !== null ? 1 + Math.max(0, ...Object.values(item).map(depth)) : 0;
  let levels: number;
  try {
    levels = depth(value) + MAX_NESTING;
  } catch {
    levels = MAX_NESTING + 1;
  }
  throw new UserError("TooNestedError", `Value is too nested (nested ${levels} levels deep > maximum nesting ${MAX_NESTING})`);
}

function parse(json: unknown, depth: number, pending: Pending): Value {
  if (json === null || typeof json === "boolean" || typeof json === "number") return json;
  if (typeof json === "string") {
    if (!json.isWellFormed()) throw new UserError("SyscallArgsInvalidJson", "Received invalid json: lone surrogate in hex escape");
    return json;
  }
  if (typeof json !== "object") throw new UserError("InvalidValue", "Value is not valid JSON");
  if (Array.isArray(json)) {
    if (depth > MAX_NESTING) tooNested(json);
    if (json.length > MAX_ARRAY_LENGTH) {
      throw new UserError("ArrayTooLong", `Array length is too long (${json.length} > maximum length ${MAX_ARRAY_LENGTH})`);
    }
    return json.map((item) => parse(item, depth + 1, pending));
  }
  const keys = Object.keys(json);
  const record = json as Record<string, unknown>;
  if (keys.length === 1) {
    const special = parseSpecial(keys[0] as string, record[keys[0] as string], pending);
    if (special !== undefined) return special;
  }
  if (depth > MAX_NESTING) tooNested(json);
  if (keys.length > MAX_OBJECT_FIELDS) {
    throw new UserError(
      "TooManyFieldsError",
      `Object has too many fields (${keys.length} > maximum number ${MAX_OBJECT_FIELDS})`,
    );
  }
  keys.sort();
  const result = emptyObject();
  for (const key of keys) {
    checkFieldName(key);
    result[key] = parse(record[key], depth + 1, pending);
  }
  return result;
}

/** Whether JSON made by JavaScript holds text that is not Unicode: only then are surrogates written as escapes. */
export function hasLoneSurrogate(text: string): boolean {
  return /(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/.test(text);
}

function parseSpecial(key: string, inner: unknown, pending: Pending): Value | undefined {
  switch (key) {
    case "$integer": {
      const bytes = base64(inner, "$integer", 8);
      return bytes.readBigInt64LE(0);
    }
    case "$float": {
      const number = base64(inner, "$float", 8).readDoubleLE(0);
      if (Number.isFinite(number) && !Object.is(number, -0)) {
        throw new UserError("InvalidFloat", `Float ${number} should be encoded as a number`);
      }
      return number;
    }
    case "$bytes":
      return new Uint8Array(base64(inner, "$bytes", null));
    case "$commitTs":
      return pending === "commitTs" && inner === null ? COMMIT_TS : undefined;
    default:
      return undefined;
  }
}

function base64(inner: unknown, key: string, length: number | null): Buffer {
  if (typeof inner !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(inner)) {
    throw new UserError("InvalidBase64", `Invalid base64 in ${key}`);
  }
  const bytes = Buffer.from(inner, "base64");
  if (length !== null && bytes.length !== length) {
    throw new UserError("InvalidLength", `Received ${bytes.length} bytes, expected ${length} for ${key}`);
  }
  return bytes;
}

export function encodeInt64(value: bigint): Json {
  if (value === COMMIT_TS) return { $commitTs: null };
  if (value < MIN_INT64 || value > MAX_INT64) throw new Error(`${value} does not fit into int64`);
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return { $integer: bytes.toString("base64") };
}

/** Convex JSON of a value. */
export function encodeValue(value: Value): Json {
  switch (typeof value) {
    case "bigint":
      return encodeInt64(value);
    case "number": {
      if (Number.isFinite(value) && !Object.is(value, -0)) return value;
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE(value);
      return { $float: bytes.toString("base64") };
    }
    case "object": {
      if (value === null) return null;
      if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString("base64") };
      if (Array.isArray(value)) return value.map(encodeValue);
      const result = Object.create(null) as { [key: string]: Json };
      for (const key of Object.keys(value)) result[key] = encodeValue(value[key] as Value);
      return result;
    }
    default:
      return value;
  }
}

export function encodeText(value: Value): string {
  return JSON.stringify(encodeValue(value));
}

/** "Clean" JSON of the HTTP API: int64 as decimal string, bytes as base64, special floats as strings. */
export function exportJson(value: Value): Json {
  switch (typeof value) {
    case "bigint":
      return value.toString();
    case "number":
      return Number.isFinite(value) ? (Object.is(value, -0) ? -0 : value) : String(value);
    case "object": {
      if (value === null) return null;
      if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
      if (Array.isArray(value)) return value.map(exportJson);
      const result = Object.create(null) as { [key: string]: Json };
      for (const key of Object.keys(value)) result[key] = exportJson(value[key] as Value);
      return result;
    }
    default:
      return value;
  }
}

export function valueSize(value: Value): number {
  switch (typeof value) {
    case "boolean":
      return 1;
    case "bigint":
    case "number":
      return 9;
    case "string":
      return 2 + Buffer.byteLength(value);
    default: {
      if (value === null) return 1;
      if (value instanceof Uint8Array) return 2 + value.length;
      let size = 2;
      if (Array.isArray(value)) for (const item of value) size += valueSize(item);
      else for (const key of Object.keys(value)) size += key.length + 1 + valueSize(value[key] as Value);
      return size;
    }
  }
}

function holdsCommitTs(value: Value): boolean {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value === COMMIT_TS;
  return (Array.isArray(value) ? value : Object.values(value)).some(holdsCommitTs);
}

/** The value once its transaction has committed at `ts`: the same one unless it holds that timestamp. */
export function resolveCommitTs<T extends Value>(value: T, ts: bigint): T {
  return holdsCommitTs(value) ? (resolve(value, ts) as T) : value;
}

function resolve(value: Value, ts: bigint): Value {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value === COMMIT_TS ? ts : value;
  if (Array.isArray(value)) return value.map((item) => resolve(item, ts));
  const result = emptyObject();
  for (const key of Object.keys(value)) result[key] = resolve(value[key] as Value, ts);
  return result;
}

export function valueNesting(value: Value): number {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return 0;
  let deepest = 0;
  for (const item of Array.isArray(value) ? value : Object.values(value)) deepest = Math.max(deepest, valueNesting(item));
  return 1 + deepest;
}
