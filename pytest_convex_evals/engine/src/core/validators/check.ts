/** Checking values against validators, with the platform's order of checks and texts. */

import { displayValue } from "../values/display.js";
import { tryDecodeId } from "../values/ids.js";
import { valuesEqual } from "../values/order.js";
import { isObject, sortedKeys, type Value } from "../values/value.js";
import { printLiteral, printValidator, type Validator } from "./validator.js";

/** Table names by number in the component whose function or table is checked. `system` are names user code may not address. */
export interface TableNames {
  tableName(number: number): { name: string; system: boolean } | null;
}

/** The text of the first violation, or null when the value is accepted. */
export function checkValue(validator: Validator, value: Value, tables: TableNames, path = ""): string | null {
  switch (validator.type) {
    case "any":
      return null;
    case "null":
      return value === null ? null : mismatch(validator, value, path);
    case "number":
    case "bigint":
    case "boolean":
    case "string":
      return typeof value === validator.type ? null : mismatch(validator, value, path);
    case "bytes":
      return value instanceof Uint8Array ? null : mismatch(validator, value, path);
    case "literal":
      if (valuesEqual(value, validator.value)) return null;
      return `\`${displayValue(value)}\` does not match literal validator \`v.literal(${printLiteral(validator.value)})\`.${context(path)}`;
    case "id":
      return checkId(validator, value, tables, path);
    case "array":
      return checkArray(validator, value, tables, path);
    case "object":
      return checkObject(validator, value, tables, path);
    case "record":
      return checkRecord(validator, value, tables, path);
    case "union":
      return checkUnion(validator, value, tables, path);
  }
}

function context(path: string): string {
  return path === "" ? "" : `Path: ${path}`;
}

function mismatch(validator: Validator, value: Value, path: string): string {
  return `Value does not match validator.\n${context(path)}\nValue: ${displayValue(value)}\nValidator: ${printValidator(validator)}`;
}

function checkId(validator: Validator & { type: "id" }, value: Value, tables: TableNames, path: string): string | null {
  if (typeof value !== "string") return mismatch(validator, value, path);
  const decoded = tryDecodeId(value);
  const table = decoded === null ? null : tables.tableName(decoded.table);
  if (table === null) return mismatch(validator, value, path);
  if (table.name === validator.tableName) return null;
  const found = table.system ? "a system table" : `table \`${table.name}\``;
  return `Found ID "${value}" from ${found}, which does not match the table name in validator \`v.id("${validator.tableName}")\`.${context(path)}`;
}

function checkArray(validator: Validator & { type: "array" }, value: Value, tables: TableNames, path: string): string | null {
  if (!Array.isArray(value)) return mismatch(validator, value, path);
  for (let i = 0; i < value.length; i++) {
    const problem = checkValue(validator.value, value[i] as Value, tables, `${path}[${i}]`);
    if (problem !== null) return problem;
  }
  return null;
}

function checkObject(validator: Validator & { type: "object" }, value: Value, tables: TableNames, path: string): string | null {
  if (!isObject(value)) return mismatch(validator, value, path);
  const tail = (): string => `\n${context(path)}\nObject: ${displayValue(value)}\nValidator: ${printValidator(validator)}`;
  for (const [name, field] of validator.fields) {
    const inner = value[name];
    if (inner === undefined) {
      if (field.optional) continue;
      return `Object is missing the required field \`${name}\`. Consider wrapping the field validator in \`v.optional(...)\` if this is expected.${tail()}`;
    }
    const problem = checkValue(field.validator, inner, tables, `${path}.${name}`);
    if (problem !== null) return problem;
  }
  for (const name of sortedKeys(value)) {
    if (!validator.fields.has(name)) return `Object contains extra field \`${name}\` that is not in the validator.${tail()}`;
  }
  return null;
}

function checkRecord(validator: Validator & { type: "record" }, value: Value, tables: TableNames, path: string): string | null {
  if (!isObject(value)) return mismatch(validator, value, path);
  for (const key of sortedKeys(value)) {
    const problem =
      checkValue(validator.keys, key, tables, `${path}.keys()`) ??
      checkValue(validator.values, value[key] as Value, tables, `${path}.values()`);
    if (problem !== null) return problem;
  }
  return null;
}

function checkUnion(validator: Validator & { type: "union" }, value: Value, tables: TableNames, path: string): string | null {
  if (validator.members.length === 1) return checkValue(validator.members[0] as Validator, value, tables, path);
  for (const member of validator.members) if (checkValue(member, value, tables, path) === null) return null;
  return mismatch(validator, value, path);
}
