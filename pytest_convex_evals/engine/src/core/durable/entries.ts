/**
 * Entries of the log: what one change did, as one line of JSON.
 *
 *   ts, created   timestamp of the change, newest creation time so far
 *   clear         all documents and tables went away first
 *   tables        all tables after the change, when it made or dropped some: [namespace, name, number]
 *   writes        [namespace, table, document, hidden facts] or, for a deletion, [namespace, table, id]
 *   forget        prefixes of facts that went away first
 *   facts         [key, text], or null for one that went away
 *   end           the last entry of a snapshot; what follows came later
 *
 * A snapshot is written as such entries too, so that there is one reader.
 */

import type { Write } from "../db/database.js";
import type { Doc, Table } from "../db/tables.js";
import type { Json } from "../values/value.js";

export type Fact = readonly [key: string, text: string | null];

export interface Change {
  ts?: bigint;
  created?: number;
  clear?: boolean;
  tables?: Iterable<Table> | null;
  writes?: readonly Write[];
  forget?: readonly string[];
  facts?: readonly Fact[];
  end?: boolean;
}

type Row = [namespace: string, table: string, document: Record<string, Json> | string, hidden?: unknown];

/** An entry as it is read back. */
export interface Entry {
  ts?: string;
  created?: number;
  clear?: true;
  tables?: [namespace: string, name: string, number: number][];
  writes?: Row[];
  forget?: string[];
  facts?: [string, string | null][];
  end?: true;
}

export function entryText(change: Change): string {
  const parts: string[] = [];
  if (change.ts !== undefined) parts.push(`"ts":"${change.ts}"`);
  if (change.created !== undefined) parts.push(`"created":${change.created}`);
  if (change.clear === true) parts.push('"clear":true');
  if (change.tables) parts.push(`"tables":${JSON.stringify([...change.tables].map(({ namespace, name, number }) => [namespace, name, number]))}`);
  if (change.writes !== undefined && change.writes.length > 0) parts.push(`"writes":[${change.writes.map(writeText).join(",")}]`);
  if (change.forget !== undefined) parts.push(`"forget":${JSON.stringify(change.forget)}`);
  if (change.facts !== undefined && change.facts.length > 0) parts.push(`"facts":${JSON.stringify(change.facts)}`);
  if (change.end === true) parts.push('"end":true');
  return `{${parts.join(",")}}`;
}

function writeText(write: Write): string {
  if (write.after !== null) return rowText(write.namespace, write.table, write.after, write.after.json);
  return `[${JSON.stringify(write.namespace)},${JSON.stringify(write.table)},${JSON.stringify(write.id)}]`;
}

export function rowText(namespace: string, table: string, doc: Doc, json: string): string {
  const hidden = doc.hidden === undefined ? "" : `,${JSON.stringify(doc.hidden)}`;
  return `[${JSON.stringify(namespace)},${JSON.stringify(table)},${json}${hidden}]`;
}
