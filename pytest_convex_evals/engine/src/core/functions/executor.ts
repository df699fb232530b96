/**
 * Runs queries and mutations: one transaction per tree of calls, nested calls as sub-transactions, system calls first in first out.
 */

import { randomInt } from "node:crypto";

import type { StartOptions } from "../../shared/protocol.js";
import type { Identity } from "../auth/identity.js";
import type { Transaction } from "../db/transaction.js";
import { DIMENSIONS, type Amounts } from "../db/usage.js";
import type { Component, UdfKind } from "../deployment.js";
import { findFunction } from "../deployment.js";
import type { Engine } from "../engine.js";
import { JsFailure, SystemError, UserError } from "../errors.js";
import { chargeSystem, Terminated, type Resolution, type StepHandler, type StepResult, type Syscall } from "../runners/udf.js";
import { encodeText, type Value } from "../values/value.js";
import type { CallRoot, UdfContext } from "./context.js";
import { fullName, resolveAddress, type FunctionPath, type Target } from "./paths.js";
import { asyncSyscall, isBatchedRead, parseArgs, syncSyscall } from "./syscalls.js";
import { checkKind, notFound, parseArguments, parseResult, validateArguments, validateResult, type Checked } from "./validation.js";

const NESTED = "1.0/runUdf";
const MAX_BATCH = 16;
const MAX_DEPTH = 8;

export interface UdfOutcome {
  value: Value;
  journal: string | null;
}

/** Environment variables as a function of this component sees them. */
export function environmentOf(engine: Engine, component: Component): Record<string, string> {
  const builtin = { CONVEX_CLOUD_URL: engine.cloudUrl, CONVEX_SITE_URL: engine.siteUrl };
  if (component.parent === null) return { ...Object.fromEntries(engine.env), ...builtin };
  const parent = environmentOf(engine, component.parent);
  const bound: Record<string, string> = {};
  for (const [name, binding] of component.env) {
    const value = binding.type === "value" ? binding.value : parent[binding.name];
    if (value !== undefined) bound[name] = value;
  }
  return { ...bound, ...builtin };
}

const MOST_EXPECTED = 2;

/** What the first calls of a deployment probably need: the app's first modules with queries or mutations. */
export function firstCalls(engine: Engine): StartOptions[] {
  const { deployment } = engine;
  const { root, importNow, importSeed } = deployment;
  if (root === null) return [];
  const called = [...root.definition.modules.values()].filter(({ functions }) => functions.some(({ kind }) => kind === "Query" || kind === "Mutation"));
  const shared = { what: "query" as const, def: root.definition.path, fn: "", now: 0, seed: 0, importNow, importSeed, env: environmentOf(engine, root) };
  return called.slice(0, MOST_EXPECTED).map(({ path }) => ({ ...shared, path }));
}

/** Runs one function in a transaction that the caller owns. Failures of the function are JsFailures. */
export async function runInTransaction(
  engine: Engine,
  options: {
    root: CallRoot;
    tx: Transaction;
    component: Component;
    path: FunctionPath;
    checked: Checked;
    args: Value[];
    /** Whether the outermost function of the transaction is a mutation. */
    inMutation: boolean;
    identity: Identity;
    depth: number;
    journal: string | null;
  },
): Promise<UdfOutcome> {
  const { root, tx, component, path, checked } = options;
  const context: UdfContext = {
    root,
    tx,
    component,
    path,
    kind: checked.fn.kind === "Query" ? "query" : "mutation",
    inMutation: options.inMutation,
    identity: options.identity,
    depth: options.depth,
    streams: new Map(),
    nextStream: 0,
    paginated: false,
    journal: options.journal,
    newJournal: null,
  };
  const payload = await drive(engine, context, `[${options.args.map(encodeText).join(",")}]`);
  return { value: parseResult(path, payload, context.inMutation ? "commitTs" : "none"), journal: context.newJournal };
}

/** Steps the runner until the function has returned and nothing it started is pending. */
async function drive(engine: Engine, context: UdfContext, args: string): Promise<string> {
  const running = begin(engine, context, args);
  try {
    return await steps(engine, context, running);
  } finally {
    engine.udfRunner.finished(running.call);
  }
}

interface Running {
  call: number;
  generation: number;
  first: Promise<StepResult>;
  handler: StepHandler;
}

function begin(engine: Engine, context: UdfContext, args: string): Running {
  const { root, component, path } = context;
  const handler: StepHandler = {
    budget: root.budget,
    sync: (op, json) => syncSyscall(context, op, json),
    answer: (id, op, json) => answerNow(engine, context, { id, op, json }),
    log: (level, line) => root.log.add(level, line),
  };
  const begun = engine.udfRunner.begin(
    {
      what: context.kind,
      def: component.definition.path,
      path: path.module,
      fn: path.fn,
      now: root.now,
      seed: root.nextSeed(),
      importNow: engine.deployment.importNow,
      importSeed: engine.deployment.importSeed,
      env: environmentOf(engine, component),
    },
    args,
    handler,
  );
  return { ...begun, handler };
}

async function steps(engine: Engine, context: UdfContext, { call, generation, first, handler }: Running): Promise<string> {
  const pending: Syscall[] = [];
  let returned: string | null = null;
  let step = await first;
  for (;;) {
    pending.push(...step.syscalls);
    if (step.done !== null) {
      if (!step.done.ok) {
        const { message, frames, data } = step.done.error;
        throw new JsFailure(message, frames, data === undefined ? undefined : parseErrorData(data));
      }
      returned = step.done.payload;
    }
    if (pending.length === 0) {
      if (returned === null) throw new Terminated("Returned promise will never resolve");
      return returned;
    }
    let resolutions: Resolution[];
    try {
      resolutions = await answer(engine, context, pending);
    } catch (error) {
      engine.udfRunner.drop(call, generation);
      throw error;
    }
    step = await engine.udfRunner.resume(call, generation, handler, resolutions);
  }
}

function parseErrorData(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** Takes the next operation, or the next batch of reads, off the queue and answers it. */
async function answer(engine: Engine, context: UdfContext, pending: Syscall[]): Promise<Resolution[]> {
  const batch: Syscall[] = [pending.shift() as Syscall];
  if (isBatchedRead((batch[0] as Syscall).op)) {
    while (batch.length < MAX_BATCH && pending[0] !== undefined && isBatchedRead(pending[0].op)) batch.push(pending.shift() as Syscall);
  }
  const began = performance.now();
  if (batch[0]?.op === NESTED) {
    const resolution = await nested(engine, context, batch[0]);
    // It pays for its own operations.
    chargeSystem(context.root.budget, 0);
    return [resolution];
  }
  const resolutions = batch.map((syscall) => plain(engine, context, syscall));
  chargeSystem(context.root.budget, performance.now() - began);
  return resolutions;
}

/** The answer while JavaScript waits for it; nested calls run JavaScript themselves. */
function answerNow(engine: Engine, context: UdfContext, syscall: Syscall): Resolution | null {
  if (syscall.op === NESTED) return null;
  const began = performance.now();
  const resolution = plain(engine, context, syscall);
  chargeSystem(context.root.budget, performance.now() - began);
  return resolution;
}

function plain(engine: Engine, context: UdfContext, { id, op, json }: Syscall): Resolution {
  try {
    return { id, ok: true, payload: asyncSyscall(engine, context, op, json) };
  } catch (error) {
    return rejection(id, error);
  }
}

async function nested(engine: Engine, context: UdfContext, { id, json }: Syscall): Promise<Resolution> {
  try {
    return { id, ok: true, payload: await nestedCall(engine, context, json) };
  } catch (error) {
    return rejection(id, error);
  }
}

/** Errors that user code may catch become rejections; all others end the call. */
function rejection(id: number, error: unknown): Resolution {
  if (error instanceof JsFailure || error instanceof UserError) {
    const message = error instanceof JsFailure ? error.text : error.message;
    return { id, ok: false, payload: message, ...(error.data === undefined ? {} : { data: JSON.stringify(error.data) }) };
  }
  throw error;
}

const KINDS: Record<string, UdfKind> = { query: "Query", snapshotQuery: "Query", mutation: "Mutation" };

async function nestedCall(engine: Engine, context: UdfContext, json: string): Promise<string> {
  const raw = parseArgs(json);
  const kind = KINDS[String(raw["udfType"])];
  if (kind === undefined) throw new UserError("BadRequest", "Invalid arguments for `runUdf`: unknown function type");
  if (context.kind === "query" && kind !== "Query") {
    throw new UserError("InvalidFunctionCall", `Cannot call a ${kind} function from a Query function`);
  }
  const limits = parseLimits(raw["transactionLimits"]);
  const target = resolveAddress(engine.deployment, engine.handles, context.component, raw);
  if (context.depth >= MAX_DEPTH) throw new UserError("MaximumCallDepthExceeded", "Cross component call depth limit exceeded.");
  const checked = findForNested(target, kind);
  const args = parseArguments(target.path, [raw["args"]], context.inMutation ? "commitTs" : "none");
  const tables = context.tx.tableNames(target.component.path);
  validateArguments(checked.fn, args, tables);
  const stale = raw["udfType"] === "snapshotQuery";
  const tx = stale ? engine.db.beginAt(context.tx) : context.tx;
  const value = await subTransaction(tx, limits, kind === "Mutation", async () => {
    const outcome = await runInTransaction(engine, {
      root: context.root,
      tx,
      component: target.component,
      path: target.path,
      checked,
      args,
      inMutation: context.inMutation,
      identity: context.identity,
      depth: context.depth + 1,
      journal: null,
    });
    return outcome.value;
  });
  validateResult(checked.fn, value, tables);
  return encodeText(value);
}

function findForNested(target: Target, kind: UdfKind): Checked {
  const found = findFunction(target.component, target.path.module, target.path.fn);
  if (found === null) {
    throw notFound(target.path, target.component);
  }
  checkKind(target.path, found.fn, kind);
  return found;
}

async function subTransaction<T>(tx: Transaction, limits: Partial<Amounts>, writes: boolean, run: () => Promise<T>): Promise<T> {
  const outer = tx.limits;
  tx.limits = { ...outer };
  for (const name of DIMENSIONS) {
    const budget = limits[name];
    if (budget !== undefined) tx.limits[name] = Math.min(outer[name], tx.used[name] + budget);
  }
  const point = writes ? tx.savepoint() : null;
  try {
    return await run();
  } catch (error) {
    if (point !== null) tx.rollback(point);
    throw error;
  } finally {
    tx.limits = outer;
  }
}

function parseLimits(json: unknown): Partial<Amounts> {
  if (json === undefined || json === null) return {};
  const limits: Partial<Amounts> = {};
  for (const [name, value] of Object.entries(json as Record<string, unknown>)) {
    const dimension = DIMENSIONS.find((candidate) => candidate === name);
    if (dimension === undefined || typeof value !== "number" || !Number.isInteger(value) || value < 0) {
      throw new UserError("BadRequest", `Invalid arguments for \`runUdf\`: invalid transaction limit ${name}: ${JSON.stringify(value)}`);
    }
    limits[dimension] = value;
  }
  return limits;
}

/** A generator of seeds for a tree of calls. */
export function seeds(): () => number {
  let state = randomInt(2 ** 47);
  return () => {
    state = (state * 25214903917 + 11) % 2 ** 47;
    return Math.floor(state);
  };
}

export function functionLabel(path: FunctionPath): string {
  return fullName(path);
}

/** Turns an error of any class into a failure of the function, unless the caller must see it as a system error. */
export function asFailure(error: unknown): JsFailure {
  if (error instanceof JsFailure) return error;
  if (error instanceof Terminated) return new JsFailure(error.message);
  if (error instanceof UserError) return new JsFailure(error.message, [], error.data);
  if (error instanceof SystemError) throw error;
  throw error;
}
