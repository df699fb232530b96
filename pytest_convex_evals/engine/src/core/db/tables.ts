/**
 * Tables as immutable values: documents, their index trees, and the operations that return changed tables.
 *
 * A table belongs to a namespace, which is the path of a component ("" is the app).
 */

import { encodeKey } from "../values/order.js";
import { encodeText, valueSize, type Value, type ValueObject } from "../values/value.js";
import { parseFieldPath, valueAt, type FieldPath } from "../values/names.js";
import { TextIndex } from "./text.js";
import { Tree } from "./tree.js";

/** A stored document. Its JSON text is made once, on the first read that needs it. */
export class Doc {
  private text: string | undefined;
  readonly size: number;

  constructor(
    readonly id: string,
    readonly value: ValueObject,
    /** Facts about a system row that its public fields do not show. */
    readonly hidden?: unknown,
  ) {
    this.size = valueSize(value);
  }

  get json(): string {
    this.text ??= encodeText(this.value);
    return this.text;
  }

  /** The JSON without keeping it. */
  get jsonOnce(): string {
    return this.text ?? encodeText(this.value);
  }

  get creationTime(): number {
    return this.value["_creationTime"] as number;
  }

  field(name: string): Value | undefined {
    return this.value[name];
  }
}

/** A tree is made anew for one new document in so many. */
const REBUILD_SHARE = 4;

export interface Index {
  readonly name: string;
  /** As declared, with `_creationTime` appended; `by_id` has none. */
  readonly fields: readonly string[];
  readonly paths: readonly FieldPath[];
  readonly staged: boolean;
  readonly tree: Tree<Doc>;
}

export interface Table {
  readonly namespace: string;
  readonly name: string;
  readonly number: number;
  readonly indexes: ReadonlyMap<string, Index>;
  /** By the field they search; search indexes on one field share one. */
  readonly texts: ReadonlyMap<string, TextIndex>;
}

export function makeIndex(name: string, fields: readonly string[], staged = false): Index {
  return { name, fields, paths: fields.map(parseFieldPath), staged, tree: Tree.empty() };
}

export function makeTable(namespace: string, name: string, number: number): Table {
  return {
    namespace,
    name,
    number,
    indexes: new Map([
      ["by_id", makeIndex("by_id", [])],
      ["by_creation_time", makeIndex("by_creation_time", ["_creationTime"])],
    ]),
    texts: new Map(),
  };
}

export function tableKey(namespace: string, name: string): string {
  return `${namespace}\u0000${name}`;
}

export function isSystemTable(name: string): boolean {
  return name.startsWith("_");
}

/** Index fields, then the id. */
export function indexKey(index: Pick<Index, "paths">, doc: Doc): string {
  let key = "";
  for (const path of index.paths) key += encodeKey(valueAt(doc.value, path));
  return key + encodeKey(doc.id);
}

export function docById(table: Table, id: string): Doc | undefined {
  return table.indexes.get("by_id")?.tree.get(encodeKey(id));
}

export function docCount(table: Table): number {
  return table.indexes.get("by_id")?.tree.size ?? 0;
}

export function docsOf(table: Table, ascending = true): Iterable<Doc> {
  const index = table.indexes.get("by_creation_time");
  return (function* () {
    if (index) for (const [, doc] of index.tree.entries("", "\uffff", ascending)) yield doc;
  })();
}

/** The table after one document changed: `before` is gone, `after` is there. */
export function withChange(table: Table, before: Doc | null, after: Doc | null): Table {
  const indexes = new Map<string, Index>();
  for (const [name, index] of table.indexes) {
    let tree = index.tree;
    const oldKey = before === null ? null : indexKey(index, before);
    const newKey = after === null ? null : indexKey(index, after);
    if (oldKey !== null && oldKey !== newKey) tree = tree.delete(oldKey);
    if (newKey !== null) tree = tree.set(newKey, after as Doc);
    indexes.set(name, { ...index, tree });
  }
  const texts = table.texts.size === 0 ? table.texts : new Map([...table.texts].map(([field, text]) => [field, text.changed(before, after)]));
  return { ...table, indexes, texts };
}

/** The table with more documents. Where they are many compared with those it has, its trees are made anew, which is faster. */
export function withNew(table: Table, docs: readonly Doc[]): Table {
  if (docs.length * REBUILD_SHARE < docCount(table)) return docs.reduce((all, doc) => withChange(all, null, doc), table);
  const indexes = new Map<string, Index>();
  for (const [name, index] of table.indexes) indexes.set(name, filled(index, [...[...index.tree.entries()].map(([, doc]) => doc), ...docs]));
  const texts = new Map([...table.texts].map(([field, text]) => [field, docs.reduce((all, doc) => all.changed(null, doc), text)]));
  return { ...table, indexes, texts };
}

/** The table with exactly these declared indexes beside the two built-in ones; unchanged ones keep their trees. */
export function withIndexes(table: Table, declared: readonly { name: string; fields: readonly string[]; staged: boolean }[]): Table {
  const indexes = new Map<string, Index>();
  for (const name of ["by_id", "by_creation_time"]) indexes.set(name, table.indexes.get(name) as Index);
  for (const wanted of declared) {
    const present = table.indexes.get(wanted.name);
    if (present !== undefined && present.fields.join("\n") === wanted.fields.join("\n")) {
      indexes.set(wanted.name, { ...present, staged: wanted.staged });
      continue;
    }
    indexes.set(wanted.name, filled(makeIndex(wanted.name, wanted.fields, wanted.staged), [...docsOf(table)]));
  }
  return { ...table, indexes };
}

/** The table with an inverted index for exactly these fields; present ones are kept. */
export function withTexts(table: Table, fields: readonly string[]): Table {
  const texts = new Map<string, TextIndex>();
  for (const field of fields) {
    let text = table.texts.get(field);
    if (text === undefined) {
      text = TextIndex.empty(field);
      for (const doc of docsOf(table)) text = text.changed(null, doc);
    }
    texts.set(field, text);
  }
  return { ...table, texts };
}

/** An empty table with these documents put in at once. */
export function tableWith(table: Table, docs: readonly Doc[]): Table {
  const indexes = new Map([...table.indexes].map(([name, index]) => [name, filled(index, docs)]));
  const texts = new Map([...table.texts].map(([field, text]) => [field, docs.reduce((all, doc) => all.changed(null, doc), text)]));
  return { ...table, indexes, texts };
}

function filled(index: Index, docs: readonly Doc[]): Index {
  return {
    ...index,
    tree: Tree.of(
      docs.map((doc) => indexKey(index, doc)),
      docs,
    ),
  };
}
