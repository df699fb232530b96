/** The `_system/…` functions that the CLI, dashboards and graders call. They run in the core, in a transaction like others. */

import { isAdmin, seesInternal } from "../auth/identity.js";
import type { Transaction } from "../db/transaction.js";
import type { Engine } from "../engine.js";
import { JsFailure, SystemError, UserError } from "../errors.js";
import type { CallRequest } from "../functions/caller.js";
import type { FunctionPath } from "../functions/paths.js";
import { notFound } from "../functions/validation.js";
import { checkValue } from "../validators/check.js";
import type { Validator } from "../validators/validator.js";
import { isObject, parseValue, type Value } from "../values/value.js";
import { DATA_FUNCTIONS } from "./data.js";
import { DEPLOYMENT_FUNCTIONS } from "./deployment.js";
import { FILE_FUNCTIONS } from "./files.js";
import { JOB_FUNCTIONS } from "./jobs.js";
import { PORTABLE_FUNCTIONS } from "./portable.js";

export interface SystemCall {
  engine: Engine;
  tx: Transaction;
  /** The component that `componentId` or `componentPath` names. */
  namespace: string;
  args: Record<string, Value>;
}

export interface SystemFunction {
  kind: "Query" | "Mutation";
  args: Validator;
  run(call: SystemCall): Value;
}

const FUNCTIONS: ReadonlyMap<string, SystemFunction> = new Map([
  ...DATA_FUNCTIONS,
  ...DEPLOYMENT_FUNCTIONS,
  ...FILE_FUNCTIONS,
  ...JOB_FUNCTIONS,
  ...PORTABLE_FUNCTIONS,
]);

export function isSystemPath(path: FunctionPath): boolean {
  return path.module.startsWith("_system/");
}

function find(path: FunctionPath): SystemFunction | undefined {
  return FUNCTIONS.get(`${path.module.slice("_system/".length).replace(/\.js$/, "")}:${path.fn}`);
}

/** What a system function is; unknown ones are looked for as queries. */
export function systemKind(path: FunctionPath): "Query" | "Mutation" {
  return find(path)?.kind ?? "Query";
}

export function runSystemFunction(engine: Engine, tx: Transaction, request: CallRequest, kind: "Query" | "Mutation"): Value {
  const found = find(request.path);
  if (kind === "Mutation" && !isAdmin(request.identity)) {
    throw new SystemError("SystemIdentityRequired", "Operation mutation not permitted", 403);
  }
  if (found === undefined || !seesInternal(request.identity)) throw notFound(request.path, null);
  if (found.kind !== kind) throw new JsFailure(`Trying to execute ${request.path.module}:${request.path.fn} as ${kind}, but it is defined as ${found.kind}.`);
  const list = Array.isArray(request.args) ? (request.args as unknown[]) : [request.args];
  const args = parseValue(list[0] ?? {});
  if (!isObject(args)) throw new JsFailure("Uncaught Error: Expected an object as the function's argument.");
  const problem = checkValue(found.args, args, tx.tableNames(""));
  if (problem !== null) throw new JsFailure(`Uncaught Error: ${problem}`);
  const namespace = componentOf(engine, args["componentId"], request.componentPath);
  try {
    return found.run({ engine, tx, namespace, args });
  } catch (error) {
    if (error instanceof UserError) throw new JsFailure(`Uncaught Error: ${error.message}`, [], error.data);
    throw error;
  }
}

function componentOf(engine: Engine, id: Value | undefined, path: string | undefined): string {
  if (typeof id !== "string") return path ?? "";
  const found = engine.componentById(id);
  if (found === null) throw new JsFailure(`Uncaught Error: Component ${id} not found`);
  return found;
}
