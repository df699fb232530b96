/**
 * The inverted index of one text field: for each term the documents that hold it, kept up to date with every write.
 *
 * It is an immutable value like the table it belongs to, so a transaction searches its own writes and an old snapshot its own state.
 */

import { parseFieldPath, valueAt, type FieldPath } from "../values/names.js";
import type { ValueObject } from "../values/value.js";
import { Tree } from "./tree.js";

const MAX_TOKEN_BYTES = 32;

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

export class TextIndex {
  private constructor(
    private readonly path: FieldPath,
    private readonly terms: Tree<Tree<Posting>>,
    /** Tokens of all documents. */
    readonly tokens: number,
  ) {}

  static empty(field: string): TextIndex {
    return new TextIndex(parseFieldPath(field), Tree.empty(), 0);
  }

  /** The index after one document changed. */
  changed(before: TextDocument | null, after: TextDocument | null): TextIndex {
    if (before !== null && after !== null && valueAt(before.value, this.path) === valueAt(after.value, this.path)) return this;
    let { terms, tokens } = this;
    if (before !== null) {
      const old = tokensAt(before.value, this.path);
      tokens -= old.length;
      for (const term of new Set(old)) {
        const postings = (terms.get(term) as Tree<Posting>).delete(before.id);
        terms = postings.size === 0 ? terms.delete(term) : terms.set(term, postings);
      }
    }
    if (after !== null) {
      const { id, creationTime } = after;
      const found = tokensAt(after.value, this.path);
      tokens += found.length;
      for (const [term, count] of counted(found)) {
        terms = terms.set(term, (terms.get(term) ?? Tree.empty<Posting>()).set(id, { id, creationTime, count, length: found.length }));
      }
    }
    return new TextIndex(this.path, terms, tokens);
  }

  /** Documents that hold this term. */
  documents(term: string): Tree<Posting> {
    return this.terms.get(term) ?? Tree.empty();
  }

  /** Terms that start like this. */
  *startingWith(prefix: string): Generator<string> {
    for (const [term] of this.terms.entries(prefix, `${prefix}\uffff`)) yield term;
  }
}

function counted(tokens: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}
