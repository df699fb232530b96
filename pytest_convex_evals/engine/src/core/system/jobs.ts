/** System functions about what runs later: scheduled functions and cron jobs. */

import { docsOf, type Doc } from "../db/tables.js";
import type { CronSchedule } from "../deployment.js";
import { fullName, parseFunctionPath } from "../functions/paths.js";
import type { CronJob, CronRun } from "../time/crons.js";
import { JOBS_TABLE, stateKind, type JobFacts } from "../time/jobs.js";
import { KEY_END } from "../values/order.js";
import { encodeValue, makeObject, type Value } from "../values/value.js";
import { optional, orNull, pagination, string, takes } from "./arguments.js";
import type { SystemCall, SystemFunction } from "./functions.js";
import { checkedPageRequest, pageValue } from "./pages.js";

const KEPT_RUNS = 5;
const NS_PER_MS = 1_000_000;

const int = (value: number): bigint => BigInt(Math.round(value));
const ns = (ms: number): bigint => (Number.isFinite(ms) ? BigInt(Math.floor(ms)) * BigInt(NS_PER_MS) : 0n);
const bytes = (json: unknown): Value => new Uint8Array(Buffer.from(JSON.stringify(json)));

function jobValue(doc: Doc): Value {
  const { component } = doc.hidden as JobFacts;
  const due = ns(doc.field("scheduledTime") as number);
  return makeObject([
    ["_id", doc.id],
    ["_creationTime", doc.creationTime],
    ["component", component],
    ["udfPath", doc.field("name") as Value],
    ["udfArgs", bytes(encodeValue(doc.field("args") as Value))],
    ["state", makeObject([["type", stateKind(doc)]])],
    ["originalScheduledTs", due],
    ["nextTs", due],
    ["completedTs", null],
    ["attempts", makeObject([["systemErrors", 0n], ["occErrors", 0n]])],
  ]);
}

/** Jobs that have not ended, the next one first, perhaps of one function. */
function paginatedScheduledJobs(call: SystemCall): Value {
  const { tx, namespace, args, engine } = call;
  const request = checkedPageRequest(call);
  const name = typeof args["udfPath"] === "string" ? fullName(parseFunctionPath(args["udfPath"])) : null;
  tx.reads.add(namespace, JOBS_TABLE, "by_id", "", KEY_END);
  const table = tx.table(namespace, JOBS_TABLE);
  const due = (doc: Doc): number => doc.field("scheduledTime") as number;
  const rows = [...(table === undefined ? [] : docsOf(table))]
    .filter((doc) => ["pending", "inProgress"].includes(stateKind(doc) ?? "") && (name === null || doc.field("name") === name))
    .sort((a, b) => due(a) - due(b));
  const fingerprint = `jobs ${name ?? ""}`;
  const start = request.cursor === null ? { rows: 0 } : engine.cursors.decode(request.cursor, fingerprint);
  const from = start === "end" ? rows.length : "rows" in start ? start.rows : 0;
  const docs = rows.slice(from, from + request.numItems);
  const isDone = docs.length < request.numItems;
  const continueCursor = engine.cursors.encode(isDone ? "end" : { rows: from + docs.length }, fingerprint);
  return pageValue({ docs, isDone, continueCursor, splitCursor: null, pageStatus: null }, jobValue);
}

function scheduleValue(schedule: CronSchedule): Value {
  const entries: [string, Value][] = Object.entries(schedule).map(([name, value]) => [name, typeof value === "number" ? int(value) : (value as string)]);
  return makeObject(entries);
}

function runValue(job: CronJob, run: CronRun): Value {
  const status =
    run.status.type === "success"
      ? makeObject([["type", "success"], ["result", makeObject([["type", "default"], ["value", run.status.value]])]])
      : run.status.type === "err"
        ? makeObject([["type", "err"], ["error", run.status.error]])
        : makeObject([["type", "canceled"], ["num_canceled", int(run.status.skipped)]]);
  return makeObject([
    ["_id", job.id],
    ["_creationTime", run.at],
    ["name", run.cron],
    ["ts", ns(run.scheduledFor)],
    ["udfPath", run.udfPath],
    ["udfArgs", bytes(job.spec.args)],
    ["status", status],
    ["logLines", makeObject([["logLines", run.logLines], ["isTruncated", false]])],
    ["executionTime", run.executionTime],
  ]);
}

function jobsOf({ engine, namespace }: SystemCall): CronJob[] {
  return engine.crons.all().filter((job) => job.component === namespace);
}

export function cronSpecValue({ spec }: { spec: CronJob["spec"] }): Value {
  return makeObject([["cronSchedule", scheduleValue(spec.schedule)], ["udfPath", spec.udfPath], ["udfArgs", bytes(spec.args)]]);
}

function listCronJobs(call: SystemCall): Value {
  return jobsOf(call).map((job) => {
    const last = job.runs[job.runs.length - 1];
    const nextRun = makeObject([
      ["_id", job.id],
      ["_creationTime", job.creationTime],
      ["cronJobId", job.id],
      ["state", makeObject([["type", job.running ? "inProgress" : "pending"]])],
      ["prevTs", job.prevMs === null ? null : ns(job.prevMs)],
      ["nextTs", ns(job.nextMs)],
    ]);
    return makeObject([
      ["_id", job.id],
      ["_creationTime", job.creationTime],
      ["name", job.spec.name],
      ["cronSpec", cronSpecValue(job)],
      ["lastRun", last === undefined ? null : runValue(job, last)],
      ["nextRun", nextRun],
    ]);
  });
}

function listCronJobRuns(call: SystemCall): Value {
  return jobsOf(call).flatMap((job) => job.runs.slice(-KEPT_RUNS).map((run) => runValue(job, run)));
}

export const JOB_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/paginatedScheduledJobs:default", { kind: "Query", args: takes({ paginationOpts: pagination, udfPath: optional(orNull(string)) }), run: paginatedScheduledJobs }],
  ["frontend/listCronJobs:default", { kind: "Query", args: takes({}), run: listCronJobs }],
  ["frontend/listCronJobRuns:default", { kind: "Query", args: takes({}), run: listCronJobRuns }],
];
