/** What dashboards and `convex mcp` ask over HTTP beside the system functions: shapes, indexes, deletion of tables. */

import { docsOf, isSystemTable, tableKey, type Table } from "../db/tables.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { componentOf } from "./jobs.js";
import { shapeOfAll, type Shape } from "./shapes.js";

function userTables(engine: Engine, namespace: string): Table[] {
  const tables = [...engine.db.snapshot.tables.values()].filter((table) => table.namespace === namespace && !isSystemTable(table.name));
  return tables.sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function shapes(engine: Engine, component: string | null): Record<string, Shape> {
  const namespace = componentOf(engine, component);
  const names = engine.db.begin().tableNames(namespace);
  const tableName = (number: number): string | null => names.tableName(number)?.name || null;
  const values = function* (table: Table) {
    for (const doc of docsOf(table)) yield doc.value;
  };
  return Object.fromEntries(userTables(engine, namespace).map((table) => [table.name, shapeOfAll(values(table), tableName)]));
}

export function indexes(engine: Engine, component: string | null): { indexes: unknown[] } {
  const schema = engine.db.schemas.get(componentOf(engine, component));
  const found = [...(schema?.tables.values() ?? [])].flatMap((table) => {
    const entry = (name: string, staged: boolean, fields: unknown): unknown => ({ table: table.name, name, fields, staged, backfill: { state: "done" } });
    return [
      ...table.indexes.map(({ name, staged, fields }) => entry(name, staged, fields)),
      ...table.searchIndexes.map(({ name, staged, searchField, filterFields }) => entry(name, staged, { searchField, filterFields })),
      ...table.vectorIndexes.map(({ name, staged, vectorField, dimensions, filterFields }) => entry(name, staged, { vectorField, dimensions, filterFields })),
    ];
  });
  return { indexes: found };
}

/** All of them or none. A table that the schema declares stays. */
export async function deleteTables(engine: Engine, body: Record<string, unknown>): Promise<null> {
  const namespace = componentOf(engine, body["componentId"]);
  const { tableNames } = body;
  if (!Array.isArray(tableNames) || !tableNames.every((name) => typeof name === "string")) {
    throw new UserError("BadJsonBody", "missing or invalid field `tableNames`: it must be a list of names");
  }
  await engine.db.change(() => ({ tables: without(engine, namespace, tableNames as string[]) }));
  return null;
}

function without(engine: Engine, namespace: string, tableNames: readonly string[]): Map<string, Table> {
  const tables = new Map(engine.db.snapshot.tables);
  for (const name of tableNames) {
    if (isSystemTable(name)) throw new UserError("InvalidTableName", `Cannot delete system table "${name}"`);
    if (engine.db.schemas.get(namespace)?.tables.has(name) === true) {
      throw new UserError("SchemaEnforcementError", `Failed to delete table "${name}" because it appears in the schema`);
    }
    tables.delete(tableKey(namespace, name));
  }
  return tables;
}
