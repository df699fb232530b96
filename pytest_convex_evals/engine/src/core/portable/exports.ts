/** `convex export`: an archive of all tables of all components, and of their files when asked for. */

import { docsOf, isSystemTable, type Table } from "../db/tables.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { fileOf, FILES_TABLE } from "../storage/files.js";
import { makeObject, type Value } from "../values/value.js";
import { line, noteOf } from "./documents.js";
import { writeZip, type ZipEntry } from "./zip.js";

interface Export {
  /** The snapshot that was written. */
  readonly ts: bigint;
  readonly completedAt: bigint;
  readonly archive: Buffer;
}

export class Exports {
  /** Only the latest is kept. */
  private latest: Export | null = null;

  constructor(private readonly engine: Engine) {}

  clear(): void {
    this.latest = null;
  }

  request(includeFiles: boolean): void {
    const { ts, tables } = this.engine.db.snapshot;
    const byNamespace = new Map<string, Table[]>();
    for (const table of tables.values()) byNamespace.set(table.namespace, [...(byNamespace.get(table.namespace) ?? []), table]);
    const entries = [...byNamespace].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([namespace, own]) => componentEntries(namespace, own, includeFiles));
    this.latest = { ts, completedAt: this.engine.clock.nowNs(), archive: writeZip(entries) };
    this.engine.stateChanged();
  }

  /** `_system/cli/exports:getLatest`. */
  describe(): Value {
    if (this.latest === null) return null;
    const { ts, completedAt } = this.latest;
    return makeObject([["state", "completed"], ["start_ts", ts], ["complete_ts", completedAt], ["zip_object_key", `snapshot_${ts}`]]);
  }

  archive(ts: string): Buffer {
    if (this.latest === null || String(this.latest.ts) !== ts) throw new UserError("ExportNotFound", `There is no export of the timestamp ${ts}`, undefined, 404);
    return this.latest.archive;
  }
}

function componentEntries(namespace: string, tables: readonly Table[], includeFiles: boolean): ZipEntry[] {
  const prefix = namespace === "" ? "" : namespace.split("/").map((name) => `_components/${name}/`).join("");
  const own = tables.filter((table) => !isSystemTable(table.name)).sort((a, b) => (a.name < b.name ? -1 : 1));
  const listing = own.map((table) => line(makeObject([["name", table.name], ["id", table.number]]))).join("");
  const files = includeFiles ? tables.find((table) => table.name === FILES_TABLE) : undefined;
  return [
    { name: `${prefix}_tables/documents.jsonl`, bytes: Buffer.from(listing) },
    ...own.flatMap((table) => tableEntries(prefix, table)),
    ...(files === undefined ? [] : fileEntries(prefix, files)),
  ];
}

function tableEntries(prefix: string, table: Table): ZipEntry[] {
  const documents: string[] = [];
  const notes: string[] = [`${JSON.stringify("any")}\n`];
  for (const doc of docsOf(table)) {
    documents.push(line(doc.value));
    const note = noteOf(doc.value);
    if (note !== null) notes.push(`${JSON.stringify({ [doc.id]: note })}\n`);
  }
  return [
    { name: `${prefix}${table.name}/documents.jsonl`, bytes: Buffer.from(documents.join("")) },
    { name: `${prefix}${table.name}/generated_schema.jsonl`, bytes: Buffer.from(notes.join("")) },
  ];
}

function fileEntries(prefix: string, table: Table): ZipEntry[] {
  const docs = [...docsOf(table)];
  const rows = docs.map((doc) => line(makeObject([...Object.entries(doc.value), ["internalId", fileOf(doc).uuid]])));
  return [
    { name: `${prefix}_storage/documents.jsonl`, bytes: Buffer.from(rows.join("")) },
    ...docs.map((doc) => ({ name: `${prefix}_storage/${doc.id}`, bytes: fileOf(doc).bytes })),
  ];
}
