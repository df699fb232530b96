/** What a transaction has read: disjoint key intervals per index. */

import { indexKey, isSystemTable, tableKey, type Doc, type Table } from "./tables.js";

export interface Interval {
  low: string;
  high: string;
}

/** A read that is not an index range, such as a text search: decides itself whether a write touches it. */
export type ReadPredicate = (doc: Doc) => boolean;

interface TableReads {
  system: boolean;
  intervals: Map<string, Interval[]>;
  predicates: ReadPredicate[];
}

export class ReadSet {
  private readonly tables = new Map<string, TableReads>();
  /** Number of disjoint intervals over user tables. */
  intervalCount = 0;

  private reads(namespace: string, table: string): TableReads {
    const key = tableKey(namespace, table);
    let reads = this.tables.get(key);
    if (reads === undefined) {
      reads = { system: isSystemTable(table), intervals: new Map(), predicates: [] };
      this.tables.set(key, reads);
    }
    return reads;
  }

  /** Adds [low, high), merging it with what it overlaps or touches. */
  add(namespace: string, table: string, index: string, low: string, high: string): void {
    if (low >= high) return;
    const reads = this.reads(namespace, table);
    let list = reads.intervals.get(index);
    if (list === undefined) {
      list = [];
      reads.intervals.set(index, list);
    }
    const before = list.length;
    let from = 0;
    let to = list.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((list[middle] as Interval).high < low) from = middle + 1;
      else to = middle;
    }
    let end = from;
    let merged: Interval = { low, high };
    while (end < list.length && (list[end] as Interval).low <= high) {
      const other = list[end] as Interval;
      merged = { low: other.low < merged.low ? other.low : merged.low, high: other.high > merged.high ? other.high : merged.high };
      end += 1;
    }
    list.splice(from, end - from, merged);
    if (!reads.system) this.intervalCount += list.length - before;
  }

  addPredicate(namespace: string, table: string, predicate: ReadPredicate): void {
    this.reads(namespace, table).predicates.push(predicate);
  }

  /** Whether replacing one version of a document by another changes what was read. */
  touchedBy(table: Table, before: Doc | null, after: Doc | null): boolean {
    const reads = this.tables.get(tableKey(table.namespace, table.name));
    if (reads === undefined) return false;
    for (const [name, list] of reads.intervals) {
      const index = table.indexes.get(name);
      if (index === undefined) return true;
      if (before !== null && contains(list, indexKey(index, before))) return true;
      if (after !== null && contains(list, indexKey(index, after))) return true;
    }
    return reads.predicates.some((holds) => (before !== null && holds(before)) || (after !== null && holds(after)));
  }
}

function contains(list: readonly Interval[], key: string): boolean {
  let from = 0;
  let to = list.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((list[middle] as Interval).high <= key) from = middle + 1;
    else to = middle;
  }
  const found = list[from];
  return found !== undefined && found.low <= key;
}
