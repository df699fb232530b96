/**
 * The inverted index of one text field: for each term the documents that hold it.
 *
 * It is an immutable value like the table it belongs to, so a transaction searches its own writes and an old snapshot its own state. A
 * write only notes which document changed; the first search after it indexes what was noted, and joins it with the rest once that has
 * grown. So writing costs next to nothing, whatever the text, and searching never reads all documents.
 */

import { parseFieldPath, valueAt, type FieldPath } from "../values/names.js";
import { compareStrings } from "../values/order.js";
import type { ValueObject } from "../values/value.js";
import { Tree } from "./tree.js";

const MAX_TOKEN_BYTES = 32;
/** Changes are joined with the rest when they exceed these and their share of it. */
const FEW_DOCUMENTS = 64;
const FEW_TOKENS = 2000;
const SHARE = 32;

/** What an index needs of a document. */
export interface TextDocument {
  readonly id: string;
  readonly value: ValueObject;
  readonly creationTime: number;
}

/** One document under one term. */
export interface Posting {
  readonly id: string;
  readonly creationTime: number;
  /** How often the term occurs in the field. */
  readonly count: number;
  /** Tokens of the whole field. */
  readonly length: number;
}

/** Maximal runs of letters and digits of any script in lower case; those of 32 bytes and more are dropped. */
export function tokenize(text: string): string[] {
  const tokens: string[] = [];
  for (const match of text.matchAll(/[\p{Alphabetic}\p{N}]+/gu)) {
    // Each character for itself: a sigma at the end of a word has no form of its own.
    if (Buffer.byteLength(match[0]) < MAX_TOKEN_BYTES) tokens.push(match[0].replaceAll("Σ", "σ").toLowerCase());
  }
  return tokens;
}

export function tokensAt(value: ValueObject, path: FieldPath): string[] {
  const found = valueAt(value, path);
  return typeof found === "string" ? tokenize(found) : [];
}

/** Documents that were indexed together. */
class Segment {
  private readonly postings = new Map<string, Posting[]>();
  /** Number of tokens by id. */
  private readonly lengths = new Map<string, number>();
  private sorted: string[] | null = null;
  tokens = 0;

  get size(): number {
    return this.lengths.size;
  }

  lengthOf(id: string): number | undefined {
    return this.lengths.get(id);
  }

  documents(term: string): readonly Posting[] {
    return this.postings.get(term) ?? [];
  }

  /** Terms in byte order, from the first that starts like this. */
  *startingWith(prefix: string): Generator<string> {
    this.sorted ??= [...this.postings.keys()].sort(compareStrings);
    const { sorted } = this;
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareStrings(sorted[middle] as string, prefix) < 0) low = middle + 1;
      else high = middle;
    }
    for (let at = low; at < sorted.length && (sorted[at] as string).startsWith(prefix); at++) yield sorted[at] as string;
  }

  add({ id, creationTime, value }: TextDocument, path: FieldPath): void {
    const tokens = tokensAt(value, path);
    this.measure(id, tokens.length);
    for (const [term, count] of counted(tokens)) this.put(term, { id, creationTime, count, length: tokens.length });
  }

  /** This one without some documents, and another one. */
  joined(other: Segment, without: ReadonlySet<string>): Segment {
    const all = new Segment();
    for (const [id, length] of this.lengths) if (!without.has(id)) all.measure(id, length);
    for (const [id, length] of other.lengths) all.measure(id, length);
    for (const [term, list] of this.postings) {
      const kept = list.filter(({ id }) => !without.has(id));
      if (kept.length > 0) all.postings.set(term, kept);
    }
    for (const [term, list] of other.postings) for (const posting of list) all.put(term, posting);
    return all;
  }

  private measure(id: string, length: number): void {
    this.lengths.set(id, length);
    this.tokens += length;
  }

  private put(term: string, posting: Posting): void {
    const list = this.postings.get(term);
    if (list === undefined) this.postings.set(term, [posting]);
    else list.push(posting);
  }
}

/** What changed since a segment was made, indexed. */
interface Changes {
  readonly changed: ReadonlySet<string>;
  readonly fresh: Segment;
}

export class TextIndex {
  private changes: Changes | null = null;

  private constructor(
    private readonly path: FieldPath,
    private segment: Segment,
    /** By id: what a document has become, or null when it is gone. */
    private pending: Tree<TextDocument | null>,
  ) {}

  static empty(field: string): TextIndex {
    return new TextIndex(parseFieldPath(field), new Segment(), Tree.empty());
  }

  /** The index after one document changed. */
  changed(before: TextDocument | null, after: TextDocument | null): TextIndex {
    const id = (after ?? before)?.id;
    if (id === undefined) return this;
    if (before !== null && after !== null && valueAt(before.value, this.path) === valueAt(after.value, this.path)) return this;
    const unknown = after === null && this.segment.lengthOf(id) === undefined;
    return new TextIndex(this.path, this.segment, unknown ? this.pending.delete(id) : this.pending.set(id, after));
  }

  /** Tokens of all documents. */
  get tokens(): number {
    const { changed, fresh } = this.settled();
    let tokens = this.segment.tokens + fresh.tokens;
    for (const id of changed) tokens -= this.segment.lengthOf(id) ?? 0;
    return tokens;
  }

  /** Documents that hold this term. */
  documents(term: string): readonly Posting[] {
    const { changed, fresh } = this.settled();
    const old = this.segment.documents(term);
    if (changed.size === 0) return old;
    return [...old.filter(({ id }) => !changed.has(id)), ...fresh.documents(term)];
  }

  /** Terms that start like this and that a document may hold. */
  startingWith(prefix: string): Set<string> {
    const { fresh } = this.settled();
    return new Set([...this.segment.startingWith(prefix), ...fresh.startingWith(prefix)]);
  }

  /** Indexes what was noted. This changes how the index is held, not what it says. */
  private settled(): Changes {
    if (this.changes !== null) return this.changes;
    const fresh = new Segment();
    const changed = new Set<string>();
    for (const [id, document] of this.pending.entries()) {
      changed.add(id);
      if (document !== null) fresh.add(document, this.path);
    }
    this.changes = { changed, fresh };
    if (changed.size > FEW_DOCUMENTS + this.segment.size / SHARE || fresh.tokens > FEW_TOKENS + this.segment.tokens / SHARE) {
      this.segment = this.segment.joined(fresh, changed);
      this.pending = Tree.empty();
      this.changes = { changed: new Set(), fresh: new Segment() };
    }
    return this.changes;
  }
}

function counted(tokens: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}
