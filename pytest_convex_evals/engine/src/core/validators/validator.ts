/** Validators: parsing their JSON form, printing them as `v.…()`, and the questions schemas ask about them. */

import { UserError } from "../errors.js";
import { displayFloat } from "../values/display.js";
import { encodeValue, parseValue, type Json, type Value } from "../values/value.js";
import { identifierProblem, type FieldPath } from "../values/names.js";

export interface FieldValidator {
  validator: Validator;
  optional: boolean;
}

export type Validator =
  | { type: "null" | "number" | "bigint" | "boolean" | "string" | "bytes" | "any" }
  | { type: "literal"; value: Value }
  | { type: "id"; tableName: string }
  | { type: "array"; value: Validator }
  | { type: "object"; fields: Map<string, FieldValidator> }
  | { type: "record"; keys: Validator; values: Validator }
  | { type: "union"; members: Validator[] };

export const ANY: Validator = { type: "any" };

/** Deeper than any value can be. */
const MAX_DEPTH = 128;

function bad(message: string, code = "InvalidValidator"): never {
  throw new UserError(code, message);
}

/** Parses the JSON form. Throws with the platform's words for what may not be pushed. */
export function parseValidator(json: unknown, depth = 0): Validator {
  if (depth > MAX_DEPTH) bad(`Validator is too nested (maximum nesting: ${MAX_DEPTH})`);
  if (typeof json !== "object" || json === null) bad("Validator must be an object");
  const raw = json as Record<string, unknown>;
  switch (raw["type"]) {
    case "null":
    case "number":
    case "bigint":
    case "boolean":
    case "string":
    case "bytes":
    case "any":
      return { type: raw["type"] };
    case "commitTs":
      return { type: "bigint" };
    case "map":
    case "set":
      return ANY;
    case "literal":
      return parseLiteral(raw["value"]);
    case "id":
      return typeof raw["tableName"] === "string" ? { type: "id", tableName: raw["tableName"] } : bad("id validator without a table name");
    case "array":
      return { type: "array", value: parseValidator(raw["value"], depth + 1) };
    case "union":
      if (!Array.isArray(raw["value"])) bad("union validator without members");
      return { type: "union", members: (raw["value"] as unknown[]).map((member) => parseValidator(member, depth + 1)) };
    case "object":
      return parseObject(raw["value"], depth + 1);
    case "record":
      return parseRecord(raw, depth + 1);
    default:
      return bad(`unknown validator type ${JSON.stringify(raw["type"])}`);
  }
}

function parseLiteral(json: unknown): Validator {
  const value = parseValue(json);
  if (typeof value === "number" && !Number.isFinite(value)) bad("Literal validators cannot be NaN or Infinity");
  return { type: "literal", value };
}

function parseObject(json: unknown, depth: number): Validator {
  if (typeof json !== "object" || json === null || Array.isArray(json)) bad("object validator without fields");
  const fields = new Map<string, FieldValidator>();
  for (const name of Object.keys(json).sort()) {
    const problem = identifierProblem(name);
    if (problem !== null) bad(`Invalid object field name "${name}": ${problem}`, "InvalidObjectField");
    const field = (json as Record<string, unknown>)[name] as { fieldType?: unknown; optional?: unknown } | null;
    try {
      fields.set(name, { validator: parseValidator(field?.fieldType, depth), optional: field?.optional === true });
    } catch (error) {
      if (error instanceof UserError) throw new UserError(error.code, `Invalid validator for key \`${name}\`: ${error.message}`);
      throw error;
    }
  }
  return { type: "object", fields };
}

function parseRecord(raw: Record<string, unknown>, depth: number): Validator {
  const keys = parseValidator(raw["keys"], depth);
  const values = raw["values"] as { fieldType?: unknown; optional?: unknown } | null;
  if (containsLiteral(keys)) bad("Records cannot have string literal keys", "InvalidRecordType");
  if (!isStringLike(keys)) bad("Records can only have string keys, such as `v.string()` or `v.id(...)`", "InvalidRecordType");
  if (values?.optional === true) bad("Records cannot have optional values", "InvalidRecordType");
  return { type: "record", keys, values: parseValidator(values?.fieldType, depth) };
}

function containsLiteral(validator: Validator): boolean {
  if (validator.type === "literal") return typeof validator.value === "string";
  return validator.type === "union" && validator.members.some(containsLiteral);
}

export function isStringLike(validator: Validator): boolean {
  switch (validator.type) {
    case "string":
    case "id":
      return true;
    case "literal":
      return typeof validator.value === "string";
    case "union":
      return validator.members.every(isStringLike);
    default:
      return false;
  }
}

export function validatorJson(validator: Validator): Json {
  switch (validator.type) {
    case "literal":
      return { type: "literal", value: encodeValue(validator.value) };
    case "id":
      return { type: "id", tableName: validator.tableName };
    case "array":
      return { type: "array", value: validatorJson(validator.value) };
    case "union":
      return { type: "union", value: validator.members.map(validatorJson) };
    case "record":
      return {
        type: "record",
        keys: validatorJson(validator.keys),
        values: { fieldType: validatorJson(validator.values), optional: false },
      };
    case "object": {
      const value: { [key: string]: Json } = Object.create(null) as { [key: string]: Json };
      for (const [name, field] of validator.fields) {
        value[name] = { fieldType: validatorJson(field.validator), optional: field.optional };
      }
      return { type: "object", value };
    }
    default:
      return { type: validator.type };
  }
}

const SIMPLE_NAMES = {
  null: "v.null()",
  number: "v.float64()",
  bigint: "v.int64()",
  boolean: "v.boolean()",
  string: "v.string()",
  bytes: "v.bytes()",
  any: "v.any()",
} as const;

export function printValidator(validator: Validator): string {
  switch (validator.type) {
    case "literal":
      return `v.literal(${printLiteral(validator.value)})`;
    case "id":
      return `v.id("${validator.tableName}")`;
    case "array":
      return `v.array(${printValidator(validator.value)})`;
    case "union":
      return `v.union(${validator.members.map(printValidator).join(", ")})`;
    case "record":
      return `v.record(${printValidator(validator.keys)}, ${printValidator(validator.values)})`;
    case "object":
      return `v.object({${[...validator.fields]
        .map(([name, field]) => {
          const inner = printValidator(field.validator);
          return `${name}: ${field.optional ? `v.optional(${inner})` : inner}`;
        })
        .join(", ")}})`;
    default:
      return SIMPLE_NAMES[validator.type];
  }
}

export function printLiteral(value: Value): string {
  if (typeof value === "bigint") return "<bigint>";
  return typeof value === "number" ? displayFloat(value) : JSON.stringify(value);
}

/** Whether a document of this type can have the field: through unions and `any`, never through arrays or records. */
export function canContainField(validator: Validator, path: FieldPath): boolean {
  if (path.length === 0) return true;
  switch (validator.type) {
    case "any":
      return true;
    case "union":
      return validator.members.some((member) => canContainField(member, path));
    case "object": {
      if (path[0] === "_id" || path[0] === "_creationTime") return path.length === 1;
      const field = validator.fields.get(path[0] as string);
      return field !== undefined && canContainField(field.validator, path.slice(1));
    }
    default:
      return false;
  }
}

/** Whether the field can hold an array of float64. */
export function canBeVector(validator: Validator, path: FieldPath): boolean {
  switch (validator.type) {
    case "any":
      return true;
    case "union":
      return validator.members.some((member) => canBeVector(member, path));
    case "object": {
      const field = validator.fields.get(path[0] as string);
      return path.length > 0 && field !== undefined && canBeVector(field.validator, path.slice(1));
    }
    case "array":
      return path.length === 0 && (validator.value.type === "number" || validator.value.type === "any");
    default:
      return false;
  }
}

/** Whether every value of `inner` is one of `outer`. May say no where the truth is yes. */
export function isSubset(inner: Validator, outer: Validator): boolean {
  if (outer.type === "any") return true;
  if (inner.type === "union") return inner.members.every((member) => isSubset(member, outer));
  if (outer.type === "union") return outer.members.some((member) => isSubset(inner, member));
  if (inner.type === "literal" && outer.type !== "literal") {
    const kinds = { string: "string", number: "number", bigint: "bigint", boolean: "boolean" } as Record<string, string>;
    return kinds[typeof inner.value] === outer.type;
  }
  if (inner.type !== outer.type) return inner.type === "id" && outer.type === "string";
  if (inner.type === "array" && outer.type === "array") return isSubset(inner.value, outer.value);
  if (inner.type === "record" && outer.type === "record") return isSubset(inner.keys, outer.keys) && isSubset(inner.values, outer.values);
  if (inner.type === "object" && outer.type === "object") return isObjectSubset(inner.fields, outer.fields);
  return JSON.stringify(validatorJson(inner)) === JSON.stringify(validatorJson(outer));
}

function isObjectSubset(inner: Map<string, FieldValidator>, outer: Map<string, FieldValidator>): boolean {
  for (const [name, field] of inner) {
    const other = outer.get(name);
    if (other === undefined || (field.optional && !other.optional) || !isSubset(field.validator, other.validator)) return false;
  }
  return [...outer].every(([name, field]) => field.optional || inner.has(name));
}
