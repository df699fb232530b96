/** Cancelling scheduled functions over HTTP. */

import { docsOf } from "../db/tables.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { transact } from "../functions/actionSyscalls.js";
import { parseFunctionPath, type FunctionPath } from "../functions/paths.js";
import { cancelJob, JOBS_TABLE, stateKind, type JobFacts } from "../time/jobs.js";

type Body = Record<string, unknown>;

const NS_PER_MS = 1_000_000;

/** The component whose rows are meant; the app when none is named. */
export function componentOf(engine: Engine, id: unknown): string {
  if (id === undefined || id === null) return "";
  const found = typeof id === "string" ? engine.componentById(id) : null;
  if (found === null) throw new UserError("InvalidComponentId", `Component ${JSON.stringify(id)} not found`);
  return found;
}

export async function cancelOne(engine: Engine, body: Body): Promise<null> {
  const namespace = componentOf(engine, body["componentId"]);
  const { id } = body;
  if (typeof id !== "string") throw new UserError("BadJsonBody", "missing field `id`");
  await transact(engine, (tx) => cancelJob(tx, namespace, id, null, () => undefined));
  return null;
}

/** Pending jobs of a component: all, those of one function, those due from one time (included) to another (not included). */
export async function cancelAll(engine: Engine, body: Body): Promise<null> {
  const namespace = componentOf(engine, body["componentId"]);
  const wanted = target(body);
  const from = time(body, "startNextTs") ?? -Infinity;
  const to = time(body, "endNextTs") ?? Infinity;
  await transact(engine, (tx) => {
    const table = tx.table(namespace, JOBS_TABLE);
    for (const { id } of table === undefined ? [] : [...docsOf(table)]) {
      const row = tx.get(namespace, JOBS_TABLE, id);
      if (row === null || stateKind(row) !== "pending") continue;
      const at = row.field("scheduledTime") as number;
      if (at < from || at >= to || !wanted(row.hidden as JobFacts)) continue;
      cancelJob(tx, namespace, id, null, () => undefined);
    }
  });
  return null;
}

function target(body: Body): (job: JobFacts) => boolean {
  const component = text(body, "componentPath") ?? "";
  const name = text(body, "udfPath");
  if (name === null) return () => true;
  const path: FunctionPath = parseFunctionPath(name);
  return (job) => job.component === component && job.path.module === path.module && job.path.fn === path.fn;
}

function text(body: Body, name: string): string | null {
  const value = body[name] ?? null;
  if (value !== null && typeof value !== "string") throw new UserError("BadJsonBody", `invalid field \`${name}\`: it must be a string`);
  return value;
}

/** Nanoseconds in the request, milliseconds here. */
function time(body: Body, name: string): number | null {
  const value = body[name] ?? null;
  if (value !== null && typeof value !== "number") throw new UserError("BadJsonBody", `invalid field \`${name}\`: it must be a number of nanoseconds`);
  return value === null ? null : value / NS_PER_MS;
}
