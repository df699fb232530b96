/** Putting imported data into the database: what it would change, and the change itself, whole or not at all. */

import { checkDocument, checkSize, enforceSchema } from "../db/documents.js";
import { freeTableNumbers } from "../db/database.js";
import { docById, docCount, docsOf, isSystemTable, makeTable, tableKey, type Table } from "../db/tables.js";
import { docWith, type Transaction } from "../db/transaction.js";
import { Tree } from "../db/tree.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { FILES_TABLE } from "../storage/files.js";
import type { ImportedData, ImportedTable } from "./parse.js";

export type ImportMode = "requireEmpty" | "append" | "replace" | "replaceAll";
type Tables = ReadonlyMap<string, Table>;

export interface Change {
  readonly namespace: string;
  readonly table: string;
  readonly create: number;
  readonly delete: number;
  readonly present: number;
}

/** What an import would do to each table. Throws when its mode does not allow it. */
export function changesOf(engine: Engine, data: ImportedData, mode: ImportMode): Change[] {
  const { tables } = engine.db.snapshot;
  const created = new Map<string, number>();
  const add = (namespace: string, name: string, count: number): void => void created.set(tableKey(namespace, name), (created.get(tableKey(namespace, name)) ?? 0) + count);
  for (const table of data.tables) add(table.namespace, table.name, table.documents.length);
  for (const namespace of data.storages) add(namespace, FILES_TABLE, 0);
  for (const file of data.files) add(file.namespace, FILES_TABLE, 1);
  const cleared = clearedBy(tables, created, mode);
  const keys = [...created.keys(), ...[...cleared].filter((key) => !created.has(key))];
  return keys.map((key) => {
    const [namespace, table] = key.split("\u0000") as [string, string];
    if (engine.deployment.component(namespace) === null && namespace !== "") throw new UserError("InvalidImport", `There is no component "${namespace}"`);
    const stored = tables.get(key);
    const present = stored === undefined ? 0 : docCount(stored);
    if (mode === "requireEmpty" && present > 0) {
      throw new UserError("TableNotEmpty", `Table "${table}" already has ${present} documents: use --append to add to them or --replace to replace them`);
    }
    return { namespace, table, create: created.get(key) ?? 0, delete: cleared.has(key) ? present : 0, present };
  });
}

/** The tables that lose what they hold: those of the import, or every one. */
function clearedBy(tables: Tables, imported: ReadonlyMap<string, number>, mode: ImportMode): Set<string> {
  if (mode === "replace") return new Set([...imported.keys()].filter((key) => tables.has(key)));
  if (mode !== "replaceAll") return new Set();
  return new Set([...tables].filter(([key, table]) => imported.has(key) || !isSystemTable(table.name)).map(([key]) => key));
}

/** Makes the change. Returns the number of documents and files that were added. */
export async function applyImport(engine: Engine, data: ImportedData, mode: ImportMode): Promise<number> {
  const { db } = engine;
  const changes = changesOf(engine, data, mode);
  const cleared = new Set(changes.filter((change) => change.delete > 0).map((change) => tableKey(change.namespace, change.table)));
  const reshape = (tables: Tables): Tables => renumbered(withoutForgotten(engine, tables, data, mode), data);
  const emptied = new Map([...db.snapshot.tables].map(([key, table]) => [key, cleared.has(key) ? emptyOf(table) : table]));
  const shaped = reshape(emptied);
  const tx = db.begin();
  clear(tx, cleared);
  if (isSameShape(emptied, shaped)) {
    const count = fill(engine, tx, data);
    await db.commit(tx, null);
    return count;
  }
  // New numbers of tables need three steps. First a trial that nobody sees, so that an import that cannot be whole leaves no trace.
  fill(engine, db.begin({ ts: db.snapshot.ts, tables: shaped }), data);
  await db.commit(tx, null);
  await db.change(() => ({ tables: reshape(db.snapshot.tables) }));
  const second = db.begin();
  const count = fill(engine, second, data);
  await db.commit(second, null);
  return count;
}

function clear(tx: Transaction, cleared: ReadonlySet<string>): void {
  unlimit(tx);
  for (const key of cleared) {
    const table = tx.tables.get(key) as Table;
    for (const doc of [...docsOf(table)]) tx.write(table.namespace, table.name, doc, null);
  }
}

function unlimit(tx: Transaction): void {
  const unlimited = Number.MAX_SAFE_INTEGER;
  tx.limits = { ...tx.limits, documentsWritten: unlimited, bytesWritten: unlimited };
}

function emptyOf(table: Table): Table {
  return { ...table, indexes: new Map([...table.indexes].map(([name, index]) => [name, { ...index, tree: Tree.empty() }])) };
}

function isSameShape(before: Tables, after: Tables): boolean {
  return before.size === after.size && [...after].every(([key, table]) => before.get(key)?.number === table.number);
}

/** When everything is replaced, empty tables that neither the import nor a schema names are dropped. */
function withoutForgotten(engine: Engine, tables: Tables, data: ImportedData, mode: ImportMode): Tables {
  if (mode !== "replaceAll") return tables;
  const named = new Set(data.tables.map((table) => tableKey(table.namespace, table.name)));
  const isKept = (key: string, table: Table): boolean =>
    named.has(key) || isSystemTable(table.name) || engine.db.schemas.get(table.namespace)?.tables.has(table.name) === true;
  return new Map([...tables].filter(([key, table]) => isKept(key, table)));
}

/** Ids say which table they belong to by number: imported tables get the number of their ids, empty ones make way. */
function renumbered(before: Tables, data: ImportedData): Tables {
  const tables = new Map(before);
  const wanted = data.tables.filter((table): table is ImportedTable & { number: number } => table.number !== null);
  const keys = new Set(wanted.map((table) => tableKey(table.namespace, table.name)));
  for (const { namespace, name, number } of wanted) {
    const holder = [...tables.values()].find((table) => table.namespace === namespace && table.number === number && !keys.has(tableKey(namespace, table.name)));
    if (holder === undefined) continue;
    if (docCount(holder) > 0 || isSystemTable(holder.name)) {
      throw new UserError("TableConflict", `The ids of table "${name}" conflict with those of the existing table "${holder.name}"`);
    }
    tables.delete(tableKey(namespace, holder.name));
    const free = freeTableNumbers(new Map([...tables, ...wanted.map((table): [string, Table] => [`${table.namespace}|${table.number}`, makeTable(table.namespace, "", table.number)])]), namespace)();
    tables.set(tableKey(namespace, holder.name), { ...holder, number: free });
  }
  for (const { namespace, name, number } of wanted) {
    const key = tableKey(namespace, name);
    const present = tables.get(key);
    if (present !== undefined && present.number !== number && docCount(present) > 0) {
      throw new UserError("TableConflict", `The ids of the import belong to another table than those in "${name}": use --replace`);
    }
    tables.set(key, present === undefined ? makeTable(namespace, name, number) : { ...present, number });
  }
  return tables;
}

function fill(engine: Engine, tx: Transaction, data: ImportedData): number {
  unlimit(tx);
  for (const { namespace, name, documents } of data.tables) {
    const table = tx.ensureTable(namespace, name);
    for (const document of documents) {
      if (document.id !== null && docById(tx.table(namespace, name) as Table, document.id) !== undefined) {
        throw new UserError("DuplicateId", `Table "${name}" already has a document with the id ${document.id}`);
      }
      const fresh = document.id === null ? tx.newDoc(table, document.fields) : null;
      const doc = docWith(document.id ?? (fresh?.id as string), document.creationTime ?? fresh?.creationTime ?? tx.nextCreationTime(), document.fields);
      checkDocument(doc);
      enforceSchema(tx, table, doc);
      checkSize(doc);
      tx.write(namespace, name, null, doc);
    }
  }
  for (const file of data.files) engine.files.restore(tx, file);
  return data.files.length + data.tables.reduce((sum, table) => sum + table.documents.length, 0);
}
