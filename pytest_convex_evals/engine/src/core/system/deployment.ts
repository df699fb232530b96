/** System functions that describe the deployment: schemas, functions, crons, components, environment. */

import { docCount, isSystemTable } from "../db/tables.js";
import type { CronSchedule, ModuleInfo } from "../deployment.js";
import { schemaJson } from "../schema/schema.js";
import type { CronJob, CronRun } from "../time/crons.js";
import { KEY_END } from "../values/order.js";
import { makeObject, parseValue, type Json, type Value } from "../values/value.js";
import type { SystemCall, SystemFunction } from "./functions.js";
import type { Engine } from "../engine.js";

const KEPT_RUNS = 5;
const NS_PER_MS = 1_000_000;

function getSchemas({ engine, namespace }: SystemCall): Value {
  const schema = engine.db.schemas.get(namespace);
  return makeObject(schema === undefined ? [] : [["active", JSON.stringify(schemaJson(schema))]]);
}

/** The functions of a component in the shape of `convex function-spec`. */
export function apiSpec(engine: Engine, namespace: string): Json {
  const component = engine.deployment.component(namespace);
  const spec: Json[] = [];
  for (const module of component?.definition.modules.values() ?? []) {
    for (const fn of module.functions) {
      spec.push({
        args: JSON.parse(fn.argsJson) as Json,
        functionType: fn.kind,
        identifier: `${module.path}:${fn.name}`,
        returns: fn.returnsJson === null ? null : (JSON.parse(fn.returnsJson) as Json),
        visibility: { kind: fn.visibility ?? "public" },
      });
    }
    for (const route of module.httpRoutes ?? []) spec.push({ functionType: "HttpAction", method: route.method, path: route.path });
  }
  return spec;
}

const int = (value: number): bigint => BigInt(Math.round(value));
const ns = (ms: number): bigint => (Number.isFinite(ms) ? BigInt(Math.floor(ms)) * BigInt(NS_PER_MS) : 0n);

function scheduleValue(schedule: CronSchedule): Value {
  const entries: [string, Value][] = Object.entries(schedule).map(([name, value]) => [name, typeof value === "number" ? int(value) : (value as string)]);
  return makeObject(entries);
}

function argsBytes(args: unknown[]): Value {
  return new Uint8Array(Buffer.from(JSON.stringify(args)));
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
    ["udfArgs", argsBytes(job.spec.args)],
    ["status", status],
    ["logLines", makeObject([["logLines", run.logLines], ["isTruncated", false]])],
    ["executionTime", run.executionTime],
  ]);
}

function listCronJobs({ engine, namespace }: SystemCall): Value {
  return engine.crons
    .all()
    .filter((job) => job.component === namespace)
    .map((job) => {
      const last = job.runs[job.runs.length - 1];
      return makeObject([
        ["_id", job.id],
        ["_creationTime", job.creationTime],
        ["name", job.spec.name],
        ["cronSpec", makeObject([["cronSchedule", scheduleValue(job.spec.schedule)], ["udfPath", job.spec.udfPath], ["udfArgs", argsBytes(job.spec.args)]])],
        ["lastRun", last === undefined ? null : runValue(job, last)],
        [
          "nextRun",
          makeObject([
            ["_id", job.id],
            ["_creationTime", job.creationTime],
            ["cronJobId", job.id],
            ["state", makeObject([["type", job.running ? "inProgress" : "pending"]])],
            ["prevTs", job.prevMs === null ? null : ns(job.prevMs)],
            ["nextTs", ns(job.nextMs)],
          ]),
        ],
      ]);
    });
}

function listCronJobRuns({ engine, namespace }: SystemCall): Value {
  return engine.crons
    .all()
    .filter((job) => job.component === namespace)
    .flatMap((job) => job.runs.slice(-KEPT_RUNS).map((run) => runValue(job, run)));
}

function listComponents({ engine }: SystemCall): Value {
  return engine.deployment.components().map((component) =>
    makeObject([
      ["id", engine.componentId(component.path)],
      ...(component.path === "" ? [] : ([["name", component.name]] as [string, Value][])),
      ["path", component.path],
      ["args", makeObject([])],
      ["state", "active"],
      ["httpPrefix", component.httpPrefix],
    ]),
  );
}

function userTables({ tx, namespace }: SystemCall): string[] {
  return [...tx.tables.values()]
    .filter((table) => table.namespace === namespace && !isSystemTable(table.name))
    .map((table) => table.name)
    .sort();
}

function cliTables(call: SystemCall): Value {
  return makeObject([
    ["page", userTables(call).map((name) => makeObject([["name", name]]))],
    ["isDone", true],
    ["continueCursor", "end"],
  ]);
}

function tableMapping({ tx, namespace }: SystemCall): Value {
  const names: Record<string, string> = { _scheduled_functions: "_scheduled_jobs", _storage: "_file_storage" };
  return makeObject(
    [...tx.tables.values()].filter((table) => table.namespace === namespace).map((table) => [String(table.number), names[table.name] ?? table.name]),
  );
}

function environment({ engine }: SystemCall): Value {
  return [...engine.env.keys()].sort().map((name) => makeObject([["name", name], ["value", engine.env.get(name) as string]]));
}

function moduleValue(module: ModuleInfo): Value {
  const functions = module.functions.map((fn) =>
    makeObject([
      ["name", fn.name],
      ["udfType", fn.kind],
      ["visibility", makeObject([["kind", fn.visibility ?? "public"]])],
      ["args", fn.argsJson],
      ["returns", fn.returnsJson],
    ]),
  );
  return [module.path, makeObject([["functions", functions], ["sourcePackageId", null]])];
}

function listModules({ engine, namespace }: SystemCall): Value {
  return [...(engine.deployment.component(namespace)?.definition.modules.values() ?? [])].map(moduleValue);
}

function sizeOfAll({ tx, namespace }: SystemCall): Value {
  let size = 0;
  for (const table of tx.tables.values()) {
    if (table.namespace !== namespace || isSystemTable(table.name)) continue;
    tx.reads.add(namespace, table.name, "by_id", "", KEY_END);
    size += docCount(table);
  }
  return size;
}

const query = (args: readonly string[], run: (call: SystemCall) => Value): SystemFunction => ({ kind: "Query", args, run });

export const DEPLOYMENT_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/getSchemas:default", query([], getSchemas)],
  ["frontend/getSchemas:schemaValidationProgress", query([], () => null)],
  ["frontend/listCronJobs:default", query([], listCronJobs)],
  ["frontend/listCronJobRuns:default", query([], listCronJobRuns)],
  ["frontend/components:list", query([], listComponents)],
  ["frontend/modules:list", query([], listModules)],
  ["frontend/modules:listForAllComponents", query([], (call) => call.engine.deployment.components().map((component) => [call.engine.componentId(component.path), listModules({ ...call, namespace: component.path })]))],
  ["frontend/getTableMapping:default", query([], tableMapping)],
  ["frontend/tableSize:sizeOfAllTables", query([], sizeOfAll)],
  ["frontend/listEnvironmentVariables:default", query([], environment)],
  ["frontend/getVersion:default", query([], ({ engine }) => engine.deployment.definitions.get("")?.serverVersion ?? null)],
  ["frontend/deploymentState:deploymentState", query([], () => makeObject([["state", "running"]]))],
  ["frontend/convexCloudUrl:default", query([], ({ engine }) => engine.cloudUrl)],
  ["frontend/convexSiteUrl:default", query([], ({ engine }) => engine.siteUrl)],
  ["cli/modules:apiSpec", query([], ({ engine, namespace }) => parseValue(apiSpec(engine, namespace)))],
  ["cli/convexUrl:cloudUrl", query([], ({ engine }) => engine.cloudUrl)],
  ["cli/convexUrl:siteUrl", query([], ({ engine }) => engine.siteUrl)],
  ["cli/queryEnvironmentVariables:default", query([], environment)],
  ["cli/queryEnvironmentVariables:get", query(["name"], ({ engine, args }) => {
    const name = String(args["name"]);
    const value = engine.env.get(name) ?? engine.builtinEnv()[name];
    return value === undefined ? null : makeObject([["name", name], ["value", value]]);
  })],
  ["cli/tables:default", query(["paginationOpts"], cliTables)],
  ["cli/queryTable:default", query(["tableName"], ({ tx, namespace, args }) => {
    tx.reads.add(namespace, String(args["tableName"]), "by_id", "", KEY_END);
    return Number(tx.base.ts % 1_000_000_007n);
  })],
];
