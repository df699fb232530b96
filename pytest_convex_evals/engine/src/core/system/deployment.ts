/** System functions that describe the deployment: schemas, functions, components, environment. */

import { docCount, isSystemTable } from "../db/tables.js";
import { findFunction, type ModuleInfo } from "../deployment.js";
import type { Engine } from "../engine.js";
import { parseFunctionPath } from "../functions/paths.js";
import { schemaJson } from "../schema/schema.js";
import { KEY_END } from "../values/order.js";
import { makeObject, parseValue, type Json, type Value } from "../values/value.js";
import { pagination, string, takes } from "./arguments.js";
import type { SystemCall, SystemFunction } from "./functions.js";
import { cronSpecValue } from "./jobs.js";

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
  const routes = (module.httpRoutes ?? []).map(({ method, path }) =>
    makeObject([
      ["name", `${method} ${path}`],
      ["udfType", "HttpAction"],
      ["visibility", makeObject([["kind", "public"]])],
      ["args", null],
      ["returns", null],
    ]),
  );
  const crons: Value = (module.crons ?? []).map((spec) => [spec.name, cronSpecValue({ spec })]);
  return [
    module.path,
    makeObject([["functions", [...functions, ...routes]], ["sourcePackageId", null], ...(module.crons === null ? [] : ([["cronSpecs", crons]] as [string, Value][]))]),
  ];
}

/** The JSON text of what a function takes, or null when there is no such function. */
function argsValidator({ engine, namespace, args }: SystemCall): Value {
  const path = parseFunctionPath(args["function"] as string);
  const component = engine.deployment.component(namespace);
  return component === null ? null : (findFunction(component, path.module, path.fn)?.fn.argsJson ?? null);
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

const query = (args: Parameters<typeof takes>[0], run: (call: SystemCall) => Value): SystemFunction => ({ kind: "Query", args: takes(args), run });

export const DEPLOYMENT_FUNCTIONS: [string, SystemFunction][] = [
  ["frontend/getSchemas:default", query({}, getSchemas)],
  ["frontend/getSchemas:schemaValidationProgress", query({}, () => null)],
  ["frontend/components:list", query({}, listComponents)],
  ["frontend/modules:list", query({}, listModules)],
  ["frontend/modules:listForAllComponents", query({}, (call) => call.engine.deployment.components().map((component) => [call.engine.componentId(component.path), listModules({ ...call, namespace: component.path })]))],
  ["frontend/modules:argsValidator", query({ function: string }, argsValidator)],
  ["frontend/getTableMapping:default", query({}, tableMapping)],
  ["frontend/tableSize:sizeOfAllTables", query({}, sizeOfAll)],
  ["frontend/listEnvironmentVariables:default", query({}, environment)],
  ["frontend/getVersion:default", query({}, ({ engine }) => engine.deployment.definitions.get("")?.serverVersion ?? null)],
  ["frontend/deploymentState:deploymentState", query({}, () => makeObject([["state", "running"]]))],
  ["frontend/convexCloudUrl:default", query({}, ({ engine }) => engine.cloudUrl)],
  ["frontend/convexSiteUrl:default", query({}, ({ engine }) => engine.siteUrl)],
  ["cli/modules:apiSpec", query({}, ({ engine, namespace }) => parseValue(apiSpec(engine, namespace)))],
  ["cli/convexUrl:cloudUrl", query({}, ({ engine }) => engine.cloudUrl)],
  ["cli/convexUrl:siteUrl", query({}, ({ engine }) => engine.siteUrl)],
  ["cli/queryEnvironmentVariables:default", query({}, environment)],
  ["cli/queryEnvironmentVariables:get", query({ name: string }, ({ engine, args }) => {
    const name = args["name"] as string;
    const value = engine.env.get(name) ?? engine.builtinEnv()[name];
    return value === undefined ? null : makeObject([["name", name], ["value", value]]);
  })],
  ["cli/tables:default", query({ paginationOpts: pagination }, cliTables)],
  ["cli/queryTable:default", query({ tableName: string }, ({ tx, namespace, args }) => {
    tx.reads.add(namespace, args["tableName"] as string, "by_id", "", KEY_END);
    return Number(tx.base.ts % 1_000_000_007n);
  })],
];
