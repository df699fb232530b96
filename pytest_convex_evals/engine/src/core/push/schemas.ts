/** Stored data against a pushed schema, and the change of tables and indexes when it becomes active. */

import { makeTable, tableKey, withIndexes, withTexts, type Table } from "../db/tables.js";
import { checkTables, freeTableNumbers, SYSTEM_TABLES } from "../db/database.js";
import { withoutSystemFields } from "../db/documents.js";
import type { Component, Deployment } from "../deployment.js";
import type { Engine } from "../engine.js";
import { checkValue } from "../validators/check.js";
import type { Schema, SchemaTable } from "../schema/schema.js";
import { isSubset, type Validator } from "../validators/validator.js";

export interface InvalidDocument {
  error: string;
  componentPath: string;
  tableName: string;
}

/** The first stored document that does not match the new schemas, in table name and then id order. */
export function firstInvalidDocument(engine: Engine, deployment: Deployment): InvalidDocument | null {
  for (const component of deployment.components()) {
    const { schema } = component.definition;
    if (schema === null || !schema.schemaValidation) continue;
    const old = engine.db.schemas.get(component.path);
    for (const [name, declared] of schema.tables) {
      const table = engine.db.tableOf(component.path, name);
      const type = declared.documentType;
      if (table === undefined || type === null) continue;
      const enforced = old?.schemaValidation === true ? old.tables.get(name)?.documentType : null;
      if (enforced !== null && enforced !== undefined && isSubset(enforced, type)) continue;
      const found = firstInvalid(engine, component, table, type);
      if (found !== null) return found;
    }
  }
  return null;
}

function firstInvalid(engine: Engine, component: Component, table: Table, type: Validator): InvalidDocument | null {
  const names = engine.db.begin().tableNames(component.path);
  const byId = table.indexes.get("by_id");
  for (const [, doc] of byId === undefined ? [] : byId.tree.entries()) {
    const problem = checkValue(type, withoutSystemFields(doc.value), names);
    if (problem !== null) {
      return {
        error: `Document with ID "${doc.id}" in table "${table.name}" does not match the schema: ${problem}`,
        componentPath: component.path,
        tableName: table.name,
      };
    }
  }
  return null;
}

/** Refuses schemas that need more tables than a component may have, with those that it has already. */
export function checkTableCount(engine: Engine, deployment: Deployment): void {
  for (const { path, definition } of deployment.components()) {
    const names = new Set(definition.schema?.tables.keys());
    for (const table of engine.db.snapshot.tables.values()) if (table.namespace === path && !SYSTEM_TABLES.has(table.name)) names.add(table.name);
    checkTables(names.size);
  }
}

/** Tables with the indexes of a deployment, and the schemas that it enforces. */
export interface Prepared {
  tables: Map<string, Table>;
  schemas: Map<string, Schema>;
}

/** Creates tables, builds and drops indexes: what holds once the deployment is active. */
export function preparedFor(deployment: Deployment, present: ReadonlyMap<string, Table>): Prepared {
  const prepared: Prepared = { tables: new Map(present), schemas: new Map() };
  if (deployment.root === null) addSystemTables(prepared.tables, "");
  for (const component of deployment.components()) prepareComponent(prepared, component);
  return prepared;
}

function addSystemTables(tables: Map<string, Table>, path: string): void {
  for (const [name, number] of SYSTEM_TABLES) {
    if (!tables.has(tableKey(path, name))) tables.set(tableKey(path, name), makeTable(path, name, number));
  }
}

function prepareComponent({ tables, schemas }: Prepared, component: Component): void {
  const { path } = component;
  const { schema } = component.definition;
  addSystemTables(tables, path);
  const declared = [...(schema?.tables.values() ?? [])];
  const number = freeTableNumbers(tables, path);
  const indexed = (item: SchemaTable): boolean => item.indexes.length + item.searchIndexes.length + item.vectorIndexes.length > 0;
  for (const table of [...declared.filter(indexed), ...declared.filter((item) => !indexed(item))]) {
    const key = tableKey(path, table.name);
    if (!tables.has(key)) tables.set(key, makeTable(path, table.name, number()));
  }
  for (const [key, table] of tables) {
    if (table.namespace !== path || SYSTEM_TABLES.has(table.name)) continue;
    const wanted = schema?.tables.get(table.name);
    tables.set(key, withTexts(withIndexes(table, wanted?.indexes ?? []), wanted?.searchIndexes.map((index) => index.searchField) ?? []));
  }
  if (schema !== null) schemas.set(path, schema);
}
