/** System calls of actions: each database operation is a transaction of its own, others reach the host through the core. */

import { identityForActionCall, userIdentity, type Identity } from "../auth/identity.js";
import { vectorSearch } from "../db/vector.js";
import type { Component, UdfKind } from "../deployment.js";
import { findFunction } from "../deployment.js";
import type { Engine } from "../engine.js";
import { ConflictError, JsFailure, UserError } from "../errors.js";
import { cancelJob, scheduleJob } from "../time/jobs.js";
import type { Transaction } from "../db/transaction.js";
import { DIMENSIONS, type Amounts } from "../db/usage.js";
import { encodeText } from "../values/value.js";
import type { CallRoot } from "./context.js";
import { proxiedFetch } from "./fetch.js";
import { resolveAddress, type FunctionPath } from "./paths.js";
import type { CallStreams } from "./streams.js";
import { parseArgs, requestMetadata, text } from "./syscalls.js";

export interface ActionContext {
  root: CallRoot;
  component: Component;
  path: FunctionPath;
  identity: Identity;
  /** Sum of what the transactions of the action used. */
  usage: Amounts;
  streams: CallStreams;
}

const KINDS: Record<string, UdfKind> = { "1.0/actions/query": "Query", "1.0/actions/mutation": "Mutation", "1.0/actions/action": "Action" };

export async function actionSyscall(engine: Engine, context: ActionContext, op: string, json: string): Promise<string> {
  const args = parseArgs(json);
  const namespace = context.component.path;
  if (engine.epoch !== context.root.epoch) throw new UserError("Reset", "The deployment was reset.");
  switch (op) {
    case "1.0/actions/query":
    case "1.0/actions/mutation":
    case "1.0/actions/action":
      return callFunction(engine, context, KINDS[op] as UdfKind, args);
    case "1.0/actions/schedule":
      return JSON.stringify(
        await transact(engine, (tx) =>
          scheduleJob(tx, {
            namespace,
            target: resolveAddress(engine.deployment, engine.handles, context.component, args),
            args: args["args"],
            atMs: Number(args["ts"]) * 1000,
            nowMs: engine.clock.nowMs(),
            parent: context.root.job,
          }),
        ),
      );
    case "1.0/actions/cancel_job":
      await transact(engine, (tx) => cancelJob(tx, "", text(args, "id", "db.cancel_job"), null, () => undefined));
      return "null";
    case "1.0/actions/vectorSearch":
      return JSON.stringify({ results: vectorSearch(engine.db, namespace, args["query"]) });
    case "1.0/createFunctionHandle":
      return JSON.stringify(engine.handles.create(resolveAddress(engine.deployment, engine.handles, context.component, args)));
    case "1.0/getUserIdentity":
      return JSON.stringify(userIdentity(context.identity));
    case "1.0/getFunctionMetadata":
      return JSON.stringify({ name: `${context.path.module.replace(/\.js$/, "")}:${context.path.fn}`, componentPath: namespace });
    case "1.0/getDeploymentMetadata":
      return JSON.stringify({ name: engine.instanceName, region: null, class: "dev" });
    case "1.0/getTransactionMetrics":
      throw new UserError("BadRequest", "getTransactionMetrics() can only be called from a query or mutation.");
    case "1.0/getRequestMetadata":
      return JSON.stringify(requestMetadata(context.root));
    case "1.0/storageGetUrl":
    case "1.0/storageGetMetadata":
    case "1.0/storageDelete":
    case "1.0/storageGenerateUploadUrl":
      return JSON.stringify(await transact(engine, (tx) => engine.files.syscall(tx, namespace, op.slice(4), args)));
    case "host/storeBlob":
      return JSON.stringify(await transact(engine, (tx) => engine.files.syscall(tx, namespace, "storageStore", args)));
    case "host/getBlob":
      return JSON.stringify(engine.files.syscall(engine.db.begin(), namespace, "storageGet", args));
    case "host/sleep":
      await new Promise<void>((resolve) => engine.clock.after(Math.max(0, Number(args["ms"]) || 0), resolve));
      return "null";
    case "host/fetch":
      return JSON.stringify(await proxiedFetch(engine, context.streams, args));
    case "host/read":
      return JSON.stringify(await context.streams.read(args["stream"]));
    case "host/close":
      context.streams.close(args["stream"]);
      return "null";
    default:
      throw new UserError("UnknownOperation", `Unknown async operation ${op}`);
  }
}

/** A small transaction of the core's own, run again on conflict, once it sees what it conflicted with. */
export async function transact<T>(engine: Engine, run: (tx: Transaction) => T): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    const tx = engine.db.begin();
    const result = run(tx);
    if (tx.pendingWrites().length > 0) engine.room?.require();
    try {
      await engine.db.commit(tx, null);
      return result;
    } catch (error) {
      if (!(error instanceof ConflictError) || attempt >= 10) throw error;
      await engine.db.caughtUp();
    }
  }
}

async function callFunction(engine: Engine, context: ActionContext, kind: UdfKind, args: Record<string, unknown>): Promise<string> {
  const target = resolveAddress(engine.deployment, engine.handles, context.component, args);
  if (findFunction(target.component, target.path.module, target.path.fn) === null) {
    const name = `${target.path.module.replace(/\.js$/, "").replaceAll("/", ".")}.${target.path.fn}`;
    throw new UserError("NotFound", `Couldn't resolve api.${name}`);
  }
  const result = await engine.caller.any(
    {
      path: target.path,
      args: [args["args"]],
      identity: identityForActionCall(context.identity, context.component.path === "", target.component.path === ""),
      componentPath: target.component.path,
      requestId: context.root.requestId,
      trusted: true,
      request: context.root.request,
      caller: "Action",
      job: context.root.job === null ? null : { ...context.root.job, itself: false },
    },
    kind,
  );
  for (const name of DIMENSIONS) context.usage[name] += result.usage[name];
  if (result.outcome.ok) return encodeText(result.outcome.value);
  throw new JsFailure(result.outcome.failure.message, result.outcome.failure.frames, result.outcome.failure.data);
}
