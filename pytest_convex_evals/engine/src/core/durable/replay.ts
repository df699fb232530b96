/** Reads a log back: the state after its last whole entry. */

import { makeTable, tableKey, tableWith, Doc, type Table } from "../db/tables.js";
import { FILES_TABLE, FileContent } from "../storage/content.js";
import { parseValue, type Json, type ValueObject } from "../values/value.js";
import type { Entry } from "./entries.js";

export interface Recovered {
  ts: bigint;
  created: number;
  /** With the two indexes that every table has; a schema adds the others. */
  tables: Map<string, Table>;
  facts: Map<string, string>;
}

interface Row {
  json: Record<string, Json>;
  hidden: unknown;
}
interface Rows {
  namespace: string;
  name: string;
  number: number;
  rows: Map<string, Row>;
}

export class Replay {
  private ts = 0n;
  private created = 0;
  private tables = new Map<string, Rows>();
  private readonly facts = new Map<string, string>();
  /** The snapshot at the start of the log is all there. */
  whole = false;

  apply(entry: Entry): void {
    if (entry.ts !== undefined) this.ts = BigInt(entry.ts);
    if (entry.created !== undefined) this.created = entry.created;
    if (entry.clear === true) this.tables.clear();
    if (entry.tables !== undefined) this.restructure(entry.tables);
    for (const [namespace, table, document, hidden] of entry.writes ?? []) {
      const { rows } = this.tables.get(tableKey(namespace, table)) as Rows;
      if (typeof document === "string") rows.delete(document);
      else rows.set(document["_id"] as string, { json: document, hidden });
    }
    for (const prefix of entry.forget ?? []) for (const key of this.facts.keys()) if (key.startsWith(prefix)) this.facts.delete(key);
    for (const [key, text] of entry.facts ?? []) {
      if (text === null) this.facts.delete(key);
      else this.facts.set(key, text);
    }
    if (entry.end === true) this.whole = true;
  }

  private restructure(wanted: readonly [string, string, number][]): void {
    const before = this.tables;
    this.tables = new Map();
    for (const [namespace, name, number] of wanted) {
      const key = tableKey(namespace, name);
      const present = before.get(key);
      this.tables.set(key, present?.number === number ? present : { namespace, name, number, rows: new Map() });
    }
  }

  /** The state; `contents` is the folder of stored files. */
  finish(contents: string): Recovered {
    const tables = new Map<string, Table>();
    for (const [key, { namespace, name, number, rows }] of this.tables) {
      const docs: Doc[] = [];
      for (const [id, { json, hidden }] of rows) {
        docs.push(new Doc(id, parseValue(json) as ValueObject, name === FILES_TABLE ? FileContent.stored(hidden, contents) : hidden));
        rows.delete(id);
      }
      tables.set(key, tableWith(makeTable(namespace, name, number), docs));
    }
    return { ts: this.ts, created: this.created, tables, facts: this.facts };
  }
}
