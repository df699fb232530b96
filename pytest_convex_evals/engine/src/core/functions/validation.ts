/** The checks around a call: existence, visibility, kind, arguments before it; the result after it. */

import type { Component, FunctionInfo, ModuleInfo, UdfKind } from "../deployment.js";
import { findFunction } from "../deployment.js";
import { JsFailure, UserError } from "../errors.js";
import type { TableNames } from "../validators/check.js";
import { checkValue } from "../validators/check.js";
import { displayValue } from "../values/display.js";
import { formatBytes, hasLoneSurrogate, isObject, parseValue, valueSize, type Value } from "../values/value.js";
import { fullName, shortName, type FunctionPath } from "./paths.js";

const MAX_ARGS_BYTES = 16 * 1024 * 1024;

export interface Checked {
  module: ModuleInfo;
  fn: FunctionInfo;
}

export function notFound(path: FunctionPath, component: Component | null): JsFailure {
  const where = component === null || component.path === "" ? "" : ` in '${component.path}'`;
  return new JsFailure(`Could not find public function for '${shortName(path)}'${where}.`, [], undefined, "FunctionNotFound");
}

/** Finds a function for a caller from outside. */
export function findForClient(component: Component | null, path: FunctionPath, kind: UdfKind | null, internalAllowed: boolean): Checked {
  const found = component === null ? null : findFunction(component, path.module, path.fn);
  if (found === null || (found.fn.visibility !== "public" && !internalAllowed) || (component?.path !== "" && !internalAllowed)) {
    throw notFound(path, component);
  }
  if (kind !== null) checkKind(path, found.fn, kind);
  return found;
}

export function checkKind(path: FunctionPath, fn: FunctionInfo, kind: UdfKind): void {
  if (fn.kind !== kind) {
    throw new JsFailure(`Trying to execute ${fullName(path)} as ${kind}, but it is defined as ${fn.kind}.`);
  }
}

/** The positional arguments as values; `json` is the array (or the single object) the caller sent. */
export function parseArguments(path: FunctionPath, json: unknown, pending: "commitTs" | "none" = "none"): Value[] {
  const list = Array.isArray(json) ? json : [json];
  let values: Value[];
  try {
    values = list.map((item) => parseValue(item, pending));
  } catch (error) {
    if (error instanceof UserError) throw new JsFailure(`Invalid arguments for ${fullName(path)}: ${error.message}`);
    throw error;
  }
  const size = values.reduce((sum: number, value) => sum + valueSize(value), 2);
  if (size > MAX_ARGS_BYTES) {
    throw new JsFailure(`Arguments for ${fullName(path)} are too large (actual: ${formatBytes(size)}, limit: ${formatBytes(MAX_ARGS_BYTES)})`);
  }
  return values;
}

export function validateArguments(fn: FunctionInfo, args: readonly Value[], tables: TableNames): void {
  if (fn.args === null || fn.args.type === "any") return;
  if (args.length !== 1) {
    throw new JsFailure(
      `ArgumentValidationError: Expected to receive a single object as the function's argument. Instead received ${args.length} arguments: ${displayValue([...args])}\n`,
    );
  }
  const only = args[0] as Value;
  if (!isObject(only)) {
    throw new JsFailure(`ArgumentValidationError: Expected to receive an object as the function's argument. Instead received: ${displayValue(only)}\n`);
  }
  const problem = checkValue(fn.args, only, tables);
  if (problem !== null) throw new JsFailure(`ArgumentValidationError: ${problem}\n`);
}

export function parseResult(path: FunctionPath, text: string, pending: "commitTs" | "none" = "none"): Value {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new JsFailure(`Function ${fullName(path)} failed. Could not parse return value as json: ${(error as Error).message}`);
  }
  if (hasLoneSurrogate(text)) throw new JsFailure(`Function ${fullName(path)} failed. Could not parse return value as json: lone surrogate in hex escape`);
  let value: Value;
  try {
    value = parseValue(json, pending);
  } catch (error) {
    if (error instanceof UserError) throw new JsFailure(`Function ${fullName(path)} return value invalid: ${error.message}`);
    throw error;
  }
  const size = valueSize(value);
  if (size > MAX_ARGS_BYTES) {
    throw new JsFailure(`Function ${fullName(path)} return value is too large (actual: ${formatBytes(size)}, limit: ${formatBytes(MAX_ARGS_BYTES)})`);
  }
  return value;
}

export function validateResult(fn: FunctionInfo, value: Value, tables: TableNames): void {
  if (fn.returns === null) return;
  const problem = checkValue(fn.returns, value, tables);
  if (problem !== null) throw new JsFailure(`ReturnsValidationError: ${problem}`);
}
