/** Filter expressions of queries, compiled to functions on documents. */

import { UserError } from "../errors.js";
import { displayValue, typeName } from "../values/display.js";
import { parseFieldPath, valueAt } from "../values/names.js";
import { compareValues } from "../values/order.js";
import { parseMaybeValue, type MaybeValue, type ValueObject } from "../values/value.js";

type Evaluate = (doc: ValueObject) => MaybeValue;
export type Predicate = (doc: ValueObject) => boolean;

const MAX_DEPTH = 512;

export function compileFilter(json: unknown): Predicate {
  const evaluate = compile(json, 0);
  return (doc) => asBoolean(evaluate(doc));
}

function evalError(message: string): never {
  throw new UserError("EvalError", message);
}

function asBoolean(value: MaybeValue): boolean {
  if (typeof value !== "boolean") evalError(`Cannot use value ${displayValue(value)} (type ${typeName(value)}) as a Boolean`);
  return value;
}

const COMPARISONS: Record<string, (order: number) => boolean> = {
  $eq: (order) => order === 0,
  $neq: (order) => order !== 0,
  $lt: (order) => order < 0,
  $lte: (order) => order <= 0,
  $gt: (order) => order > 0,
  $gte: (order) => order >= 0,
};

const ARITHMETIC: Record<string, string> = { $add: "add", $sub: "subtract", $mul: "multiply", $div: "divide", $mod: "mod" };

function compile(json: unknown, depth: number): Evaluate {
  if (depth > MAX_DEPTH) throw new UserError("InvalidFilter", "Filter expression is too deep");
  if (typeof json !== "object" || json === null) throw new UserError("InvalidFilter", "Invalid filter expression");
  const keys = Object.keys(json);
  const operator = keys[0];
  if (operator === undefined || keys.length !== 1) throw new UserError("InvalidFilter", "Invalid filter expression");
  const operand = (json as Record<string, unknown>)[operator];
  if (operator === "$field") {
    const path = parseFieldPath(String(operand));
    return (doc) => valueAt(doc, path);
  }
  if (operator === "$literal") {
    const literal = parseMaybeValue(operand);
    return () => literal;
  }
  if (operator === "$not" || operator === "$neg") {
    const inner = compile(operand, depth + 1);
    return operator === "$not" ? (doc) => !asBoolean(inner(doc)) : (doc) => negate(inner(doc));
  }
  if (!Array.isArray(operand)) throw new UserError("InvalidFilter", `Invalid operands of ${operator}`);
  const parts = operand.map((part) => compile(part, depth + 1));
  if (operator === "$and") return (doc) => parts.every((part) => asBoolean(part(doc)));
  if (operator === "$or") return (doc) => parts.some((part) => asBoolean(part(doc)));
  const [left, right] = parts;
  if (left === undefined || right === undefined || parts.length !== 2) {
    throw new UserError("InvalidFilter", `Invalid operands of ${operator}`);
  }
  const comparison = COMPARISONS[operator];
  if (comparison !== undefined) return (doc) => comparison(compareValues(left(doc), right(doc)));
  const verb = ARITHMETIC[operator];
  if (verb !== undefined) return (doc) => arithmetic(operator, verb, left(doc), right(doc));
  throw new UserError("InvalidFilter", `Unknown filter operator ${operator}`);
}

function negate(value: MaybeValue): MaybeValue {
  if (typeof value === "number") return -value;
  if (typeof value === "bigint") return inRange(-value, () => `Cannot negate ${value}: the result is out of range for Int64`);
  return evalError(`Cannot negate ${displayValue(value)} (type ${typeName(value)})`);
}

function inRange(value: bigint, message: () => string): bigint {
  return BigInt.asIntN(64, value) === value ? value : evalError(message());
}

function arithmetic(operator: string, verb: string, left: MaybeValue, right: MaybeValue): MaybeValue {
  if (typeof left === "number" && typeof right === "number") {
    switch (operator) {
      case "$add":
        return left + right;
      case "$sub":
        return left - right;
      case "$mul":
        return left * right;
      case "$div":
        return left / right;
      default:
        return left % right;
    }
  }
  const operands = `${displayValue(left)} (type ${typeName(left)}) and ${displayValue(right)} (type ${typeName(right)})`;
  if (typeof left !== "bigint" || typeof right !== "bigint") return evalError(`Cannot ${verb} ${operands}`);
  if (right === 0n && (operator === "$div" || operator === "$mod")) return evalError(`Cannot ${verb} ${left} by zero`);
  const results: Record<string, () => bigint> = {
    $add: () => left + right,
    $sub: () => left - right,
    $mul: () => left * right,
    $div: () => left / right,
    $mod: () => left % right,
  };
  return inRange((results[operator] as () => bigint)(), () => `Cannot ${verb} ${operands}: the result is out of range for Int64`);
}
