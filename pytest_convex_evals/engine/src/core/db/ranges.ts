/** From the range expressions of `withIndex` to an interval of index keys, with the platform's rules about their order. */

import { UserError } from "../errors.js";
import { displayValue } from "../values/display.js";
import { parseFieldPath } from "../values/names.js";
import { encodeKey, prefixEnd } from "../values/order.js";
import { parseMaybeValue, type MaybeValue } from "../values/value.js";
import type { Interval } from "./readset.js";

type Comparison = "Eq" | "Gt" | "Gte" | "Lt" | "Lte";
interface Bound {
  type: Comparison;
  field: string;
  value: MaybeValue;
}

const SYMBOLS: Record<Comparison, string> = { Eq: "==", Gt: ">", Gte: ">=", Lt: "<", Lte: "<=" };

function parseBound(json: unknown): Bound {
  const raw = json as { type?: unknown; fieldPath?: unknown; value?: unknown } | null;
  const type = raw?.type as Comparison;
  if (typeof raw !== "object" || raw === null || !(type in SYMBOLS)) throw new UserError("InvalidRange", "Invalid index range expression");
  return { type, field: parseFieldPath(String(raw.fieldPath)).join("."), value: parseMaybeValue(raw.value, "commitTs") };
}

interface Compiled {
  equal: Map<string, MaybeValue>;
  inequality: { field: string; lower?: Bound; upper?: Bound } | null;
}

function alreadyDefined(what: string, bound: Bound): never {
  throw new UserError(
    "AlreadyDefinedBound",
    `Already defined ${what} bound in index range. Can't add "${bound.field}" ${SYMBOLS[bound.type]} ${displayValue(bound.value)}.`,
  );
}

function collect(bounds: readonly Bound[]): Compiled {
  const equal = new Map<string, MaybeValue>();
  let inequality: Compiled["inequality"] = null;
  for (const bound of bounds) {
    if (bound.type === "Eq") {
      if (equal.has(bound.field)) alreadyDefined("equality", bound);
      if (inequality?.field === bound.field) alreadyDefined("inequality", bound);
      equal.set(bound.field, bound.value);
      continue;
    }
    if (equal.has(bound.field)) alreadyDefined("equality", bound);
    if (inequality !== null && inequality.field !== bound.field) {
      throw new UserError("BoundsOnMultipleFields", "Upper and lower bounds in `range` can only be applied to a single index field.");
    }
    inequality ??= { field: bound.field };
    if (bound.type === "Gt" || bound.type === "Gte") {
      if (inequality.lower !== undefined) alreadyDefined("lower", bound);
      inequality.lower = bound;
    } else {
      if (inequality.upper !== undefined) alreadyDefined("upper", bound);
      inequality.upper = bound;
    }
  }
  return { equal, inequality };
}

const list = (fields: readonly string[]): string => `[${fields.map((field) => JSON.stringify(field)).join(", ")}]`;

/** `fields` are those of the index including `_creationTime` and the final `_id`. */
export function compileRange(index: string, fields: readonly string[], json: unknown): Interval {
  const bounds = Array.isArray(json) ? json.map(parseBound) : [];
  const { equal, inequality } = collect(bounds);
  const shown = fields.filter((field) => field !== "_id");
  for (const { field } of bounds) {
    if (!fields.includes(field)) {
      throw new UserError(
        "FieldNotInIndex",
        `The index range included a comparison with "${field}", but ${index} with fields ${list(shown)} doesn't index this field.`,
      );
    }
  }
  const used = [...equal.keys()].sort((a, b) => fields.indexOf(a) - fields.indexOf(b));
  if (inequality !== null) used.push(inequality.field);
  const wrong = used.find((field, at) => fields[at] !== field);
  if (wrong !== undefined) {
    throw new UserError(
      "InvalidIndexRange",
      `Tried to query index ${index} but the query didn't use the index fields in order.\nIndex fields: ${list(shown)}\nQuery fields: ${list(used)}\nFirst incorrect field: ${JSON.stringify(wrong)}`,
    );
  }
  let prefix = "";
  for (const field of fields) {
    if (!equal.has(field)) break;
    prefix += encodeKey(equal.get(field));
  }
  let low = prefix;
  let high = prefixEnd(prefix);
  if (inequality?.lower !== undefined) {
    const key = prefix + encodeKey(inequality.lower.value);
    low = inequality.lower.type === "Gt" ? prefixEnd(key) : key;
  }
  if (inequality?.upper !== undefined) {
    const key = prefix + encodeKey(inequality.upper.value);
    high = inequality.upper.type === "Lte" ? prefixEnd(key) : key;
  }
  return { low, high };
}
