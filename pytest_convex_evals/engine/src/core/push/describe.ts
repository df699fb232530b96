/** The answer of start_push: what was analysed, the tree of components, and how indexes would change. */

import type { Component, Definition, Deployment } from "../deployment.js";
import type { Engine } from "../engine.js";
import { schemaJson, type DatabaseIndex, type Schema } from "../schema/schema.js";
import { exportsOf } from "./definitions.js";

export function describePush(engine: Engine, id: string, deployment: Deployment): unknown {
  const analysis: Record<string, unknown> = {};
  for (const definition of deployment.definitions.values()) analysis[definition.path] = describeDefinition(engine, definition);
  const indexDiffs: Record<string, unknown> = {};
  for (const component of deployment.components()) {
    indexDiffs[component.path] = indexDiff(engine.db.schemas.get(component.path) ?? null, component.definition.schema);
  }
  return {
    environmentVariables: Object.fromEntries(engine.env),
    externalDepsId: null,
    componentDefinitionPackages: {},
    appAuth: [],
    analysis,
    app: describeComponent(deployment.root as Component),
    schemaChange: { allocatedComponentIds: {}, schemaIds: { push: id }, indexDiffs },
  };
}

function describeDefinition(engine: Engine, definition: Definition): unknown {
  const functions: Record<string, unknown> = {};
  for (const module of definition.modules.values()) {
    functions[module.path] = {
      functions: module.functions.map((fn) => ({
        name: fn.name,
        pos: null,
        udfType: fn.kind,
        visibility: fn.visibility === null ? null : { kind: fn.visibility },
        args: fn.argsJson,
        returns: fn.returnsJson,
      })),
      httpRoutes: module.httpRoutes === null ? null : module.httpRoutes.map((route) => ({ route, pos: null })),
      cronSpecs: module.crons === null ? null : module.crons.map((cron) => ({ identifier: cron.name, spec: { udfPath: cron.udfPath } })),
      sourceMapped: null,
    };
  }
  const isApp = definition.path === "";
  return {
    definition: {
      ...definition.config.raw,
      path: definition.path,
      exports: isApp ? { type: "branch", branch: [] } : exportsOf(definition.modules),
    },
    schema: definition.schema === null ? null : schemaJson(definition.schema),
    functions,
    udfConfig: { serverVersion: definition.serverVersion, importPhaseRngSeed: engine.importSeed, importPhaseUnixTimestamp: engine.importNow },
  };
}

function describeComponent(component: Component): unknown {
  const routes = component.definition.modules.get("http.js")?.httpRoutes ?? null;
  return {
    definitionPath: component.definition.path,
    componentPath: component.path,
    args: {},
    childComponents: Object.fromEntries([...component.children].map(([name, child]) => [name, describeComponent(child)])),
    httpRoutes: { httpModuleRoutes: routes, mounts: [...component.definition.config.httpMounts.keys()] },
    exports: {},
  };
}

function indexDiff(before: Schema | null, after: Schema | null): unknown {
  const list = (schema: Schema | null): Map<string, DatabaseIndex> =>
    new Map([...(schema?.tables.values() ?? [])].flatMap((table) => table.indexes.map((index): [string, DatabaseIndex] => [`${table.name}.${index.name}`, index])));
  const old = list(before);
  const now = list(after);
  const shown = (name: string, index: DatabaseIndex): unknown => ({ name, type: "database", fields: index.fields, staged: index.staged });
  const same = (a: DatabaseIndex | undefined, b: DatabaseIndex): boolean => a !== undefined && a.fields.join() === b.fields.join();
  const flipped = (staged: boolean): unknown[] =>
    [...now].filter(([name, index]) => same(old.get(name), index) && old.get(name)?.staged !== index.staged && index.staged === staged).map(([name, index]) => shown(name, index));
  return {
    added_indexes: [...now].filter(([name, index]) => !same(old.get(name), index)).map(([name, index]) => shown(name, index)),
    removed_indexes: [...old].filter(([name, index]) => !now.has(name) || !same(now.get(name), index)).map(([name, index]) => shown(name, index)),
    enabled_indexes: flipped(false),
    disabled_indexes: flipped(true),
  };
}
