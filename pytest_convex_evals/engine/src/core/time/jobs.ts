/** Rows of scheduled functions: how they are made, cancelled and finished. */

import { tableOfId } from "../db/documents.js";
import type { Doc } from "../db/tables.js";
import { docWith, type Transaction } from "../db/transaction.js";
import { UserError } from "../errors.js";
import { fullName, type FunctionPath, type Target } from "../functions/paths.js";
import { makeObject, parseValue, valueSize, type Value } from "../values/value.js";

export const JOBS_TABLE = "_scheduled_functions";
const FIVE_YEARS_MS = 5 * 366 * 86_400_000;

/** What a row knows beside its public fields. */
export interface JobFacts {
  component: string;
  path: FunctionPath;
}

/** The job on whose behalf a call runs. */
export interface JobRef {
  readonly id: string;
  readonly namespace: string;
  /** The call is the job itself, not one that the job made. */
  readonly itself: boolean;
}

export interface JobRequest {
  /** The component that schedules; the row is its own. */
  namespace: string;
  target: Target;
  args: unknown;
  atMs: number;
  nowMs: number;
  parent: JobRef | null;
}

export function scheduleJob(tx: Transaction, job: JobRequest): string {
  const { target, atMs } = job;
  if (!Number.isFinite(atMs) || Math.abs(atMs - job.nowMs) > FIVE_YEARS_MS) {
    const direction = atMs > job.nowMs ? "future" : "past";
    throw new UserError("InvalidScheduledFunctionDelay", `${atMs} is more than 5 years in the ${direction}`);
  }
  const args = parseValue([job.args ?? {}]) as Value[];
  const module = target.component.definition.modules.get(target.path.module);
  if (module === undefined) {
    throw new UserError("InvalidScheduledFunction", `Attempted to schedule function at nonexistent path: ${target.path.module}`);
  }
  if (!module.functions.some((fn) => fn.name === target.path.fn)) {
    throw new UserError(
      "InvalidScheduledFunction",
      `Attempted to schedule function, but no exported function ${target.path.fn} found in the file: ${target.path.module}. Did you forget to export it?`,
    );
  }
  tx.use("functionsScheduled", 1);
  tx.use("scheduledFunctionArgsBytes", valueSize(args));
  const table = tx.ensureTable(job.namespace, JOBS_TABLE);
  const orphan = job.parent !== null && stateKind(tx.get(job.parent.namespace, JOBS_TABLE, job.parent.id)) === "canceled";
  const fields = makeObject([
    ["name", fullName(target.path)],
    ["args", args],
    ["scheduledTime", atMs],
    ["state", makeObject([["kind", orphan ? "canceled" : "pending"]])],
    ...(orphan ? ([["completedTime", tx.beginMs]] as [string, Value][]) : []),
  ]);
  const facts: JobFacts = { component: target.component.path, path: target.path };
  const doc = tx.newDoc(table, fields, facts);
  tx.write(job.namespace, JOBS_TABLE, null, doc);
  return doc.id;
}

export function stateKind(doc: Doc | null): string | null {
  const state = doc?.field("state") as { kind?: Value } | undefined;
  return typeof state?.kind === "string" ? state.kind : null;
}

/** Moves a row to another state; finished states get a completion time. */
export function setState(tx: Transaction, namespace: string, doc: Doc, kind: string, extra: [string, Value][] = []): void {
  const finished = kind !== "pending" && kind !== "inProgress";
  const fields = makeObject([
    ...Object.entries(doc.value).filter(([name]) => name !== "state" && name !== "completedTime"),
    ["state", makeObject([["kind", kind], ...extra])],
    ...(finished ? ([["completedTime", tx.beginMs]] as [string, Value][]) : []),
  ]);
  tx.write(namespace, JOBS_TABLE, doc, docWith(doc.id, doc.creationTime, fields, doc.hidden));
}

export function cancelJob(tx: Transaction, namespace: string, id: string, caller: JobRef | null, warn: (text: string) => void): void {
  let table: string | null;
  try {
    table = tableOfId(tx, namespace, id);
  } catch (error) {
    if (error instanceof UserError) throw new UserError(error.code, `Invalid argument \`id\` for \`db.cancel_job\`: ${error.message}`);
    throw error;
  }
  if (table !== JOBS_TABLE) {
    throw new UserError("InvalidScheduledFunctionId", `Invalid scheduled function ID. Expected an ID of "_scheduled_functions", got "${id}"`);
  }
  if (caller?.itself === true && caller.id === id) {
    warn("A mutation cannot cancel itself");
    return;
  }
  const doc = tx.get(namespace, JOBS_TABLE, id);
  const kind = stateKind(doc);
  if (doc !== null && (kind === "pending" || kind === "inProgress")) setState(tx, namespace, doc, "canceled");
}
