/** A state as entries of a log. */

import type { Snapshot } from "../db/database.js";
import { docsOf } from "../db/tables.js";
import { entryText, rowText, type Fact } from "./entries.js";

const CHUNK_CHARACTERS = 256 * 1024;

/** The entries that restore this state. Documents are printed while they are asked for. */
export function* snapshotEntries(snapshot: Snapshot, created: number, facts: readonly Fact[]): Generator<string> {
  yield entryText({ ts: snapshot.ts, created, tables: snapshot.tables.values() });
  let rows: string[] = [];
  let size = 0;
  for (const table of snapshot.tables.values()) {
    for (const doc of docsOf(table)) {
      const row = rowText(table.namespace, table.name, doc, doc.jsonOnce);
      rows.push(row);
      size += row.length;
      if (size < CHUNK_CHARACTERS) continue;
      yield `{"writes":[${rows.join(",")}]}`;
      [rows, size] = [[], 0];
    }
  }
  if (rows.length > 0) yield `{"writes":[${rows.join(",")}]}`;
  for (const fact of facts) yield entryText({ facts: [fact] });
  yield entryText({ end: true });
}
