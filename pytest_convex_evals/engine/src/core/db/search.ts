/**
 * Text search: tokens, matching, BM25 scores and order.
 *
 * A document matches when it contains at least one term of the query and satisfies all equality filters; the last term of the
 * query also matches as a prefix, at half the score.
 */

import { UserError } from "../errors.js";
import type { SearchIndex } from "../schema/schema.js";
import { parseFieldPath, valueAt } from "../values/names.js";
import { compareStrings, encodeKey, keyAfter, valuesEqual } from "../values/order.js";
import { parseMaybeValue, type MaybeValue } from "../values/value.js";
import { Heap } from "./heap.js";
import type { RowSource } from "./query.js";
import { docById, docCount, type Doc, type Table } from "./tables.js";
import { tokenize, tokensAt, type Posting, type TextIndex } from "./text.js";
import type { Transaction } from "./transaction.js";

const MAX_QUERY_TERMS = 16;
const MAX_FILTERS = 8;
const MAX_CANDIDATES = 1024;
const MAX_TERMS = 64;

export interface SearchPlan {
  run(tx: Transaction): RowSource;
}

interface Filter {
  path: readonly string[];
  value: MaybeValue;
}

interface Wanted {
  field: string;
  path: readonly string[];
  terms: readonly string[];
  filters: readonly Filter[];
  /** The same filter twice asks for two terms where a document has one: nothing is found. */
  contradicts: boolean;
}

export function compileSearch(tx: Transaction, namespace: string, table: string, name: string, json: unknown): SearchPlan {
  const full = `${table}.${name}`;
  const index = findSearchIndex(tx, namespace, table, name);
  let query: string | null = null;
  const filters: { field: string; value: MaybeValue }[] = [];
  for (const raw of (Array.isArray(json) ? json : []) as { type?: string; fieldPath?: string; value?: unknown }[]) {
    const field = String(raw.fieldPath);
    if (raw.type !== "Search") {
      filters.push({ field, value: parseMaybeValue(raw.value) });
      continue;
    }
    if (query !== null) {
      throw new UserError("DuplicateSearchFiltersError", `Search query against ${full} contains multiple search filters against "${field}". Only one is allowed.`);
    }
    if (field !== index.searchField) {
      throw new UserError(
        "IncorrectSearchField",
        `Search query against ${full} contains a search filter against "${field}", which doesn't match the indexed \`searchField\` "${index.searchField}".`,
      );
    }
    query = String(raw.value);
  }
  if (query === null) throw new UserError("MissingSearchFilterError", `Search query against ${full} does not contain any search filters.`);
  if (query !== "") checkFilters(full, index, filters.map(({ field }) => field));
  const terms = tokenize(query).slice(0, MAX_QUERY_TERMS);
  const wanted: Wanted = {
    field: index.searchField,
    path: parseFieldPath(index.searchField),
    terms,
    filters: filters.map(({ field, value }) => ({ path: parseFieldPath(field), value })),
    contradicts: new Set(filters.map(({ field, value }) => `${field}\n${encodeKey(value)}`)).size < filters.length,
  };
  return { run: (running) => new SearchScan(running, namespace, table, wanted) };
}

function checkFilters(full: string, index: SearchIndex, fields: readonly string[]): void {
  for (const field of fields) {
    if (index.filterFields.includes(field)) continue;
    throw new UserError(
      "IncorrectFilterFieldError",
      `Search query against ${full} contains an equality filter on "${field}" but that field isn't indexed for filtering in \`filterFields\`.`,
    );
  }
  if (fields.length > MAX_FILTERS) {
    throw new UserError(
      "TooManyFilterConditionsInSearchQueryError",
      `Search query against ${full} has too many filter conditions. Max: ${MAX_FILTERS} Actual: ${fields.length}`,
    );
  }
}

function findSearchIndex(tx: Transaction, namespace: string, table: string, name: string): SearchIndex {
  const full = `${table}.${name}`;
  const declared = tx.db.schemas.get(namespace)?.tables.get(table);
  const found = declared?.searchIndexes.find((index) => index.name === name);
  if (found === undefined) {
    const other = tx.table(namespace, table)?.indexes.has(name) === true || declared?.vectorIndexes.some((index) => index.name === name) === true;
    throw other ? new UserError("WrongIndexType", `Index ${full} is not a search index`) : new UserError("IndexNotFound", `Index ${full} not found.`);
  }
  if (found.staged) throw new UserError("IndexStaged", `Index ${full} is currently staged and not available to query until it is enabled.`);
  return found;
}

class SearchScan implements RowSource {
  private found: Generator<Doc> | null = null;
  private returned = 0;

  constructor(
    private readonly tx: Transaction,
    private readonly namespace: string,
    private readonly table: string,
    private readonly wanted: Wanted,
  ) {}

  next(): Doc | null {
    this.found ??= this.search();
    if (this.returned >= MAX_CANDIDATES) {
      throw new UserError(
        "SearchQueryScannedTooManyDocumentsError",
        `Search query scanned too many documents (fetched ${MAX_CANDIDATES}). Consider using a smaller limit, paginating the query, or using a filter field to limit the results.`,
      );
    }
    const { done, value: doc } = this.found.next() as IteratorResult<Doc, undefined>;
    if (done === true) return null;
    this.returned += 1;
    const key = encodeKey(doc.id);
    this.tx.reads.add(this.namespace, this.table, "by_id", key, keyAfter(key));
    this.tx.checkRanges();
    this.tx.countRead(this.table, doc);
    return doc;
  }

  private *search(): Generator<Doc> {
    const { tx, namespace, table, wanted } = this;
    const { path, terms } = wanted;
    if (terms.length === 0 || wanted.contradicts) return;
    tx.reads.addPredicate(namespace, table, (doc) => satisfies(doc, wanted.filters) && tokensAt(doc.value, path).some((token) => boostOf(token, terms) > 0));
    const state = tx.table(namespace, table);
    const text = state?.texts.get(wanted.field);
    if (state !== undefined && text !== undefined) yield* ranked(state, text, wanted);
  }
}

/** 1 for a term of the query, 0.5 for what only starts like its last one, 0 for others. */
function boostOf(token: string, terms: readonly string[]): number {
  if (terms.includes(token)) return 1;
  return token.startsWith(terms[terms.length - 1] as string) ? 0.5 : 0;
}

function satisfies(doc: Doc, filters: readonly Filter[]): boolean {
  return filters.every((filter) => valuesEqual(valueAt(doc.value, filter.path), filter.value));
}

/** Documents in order: by score, then newest first. */
function* ranked(table: Table, text: TextIndex, { terms, filters }: Wanted): Generator<Doc> {
  const scored = scores(text, keptTerms(text, terms, filters.length), docCount(table));
  const heap = new Heap([...scored.values()], isBefore);
  for (let next = heap.pop(); next !== undefined; next = heap.pop()) {
    const doc = docById(table, next.posting.id) as Doc;
    if (satisfies(doc, filters)) yield doc;
  }
}

function isBefore(a: Scored, b: Scored): boolean {
  if (a.score !== b.score) return a.score > b.score;
  if (a.posting.creationTime !== b.posting.creationTime) return a.posting.creationTime > b.posting.creationTime;
  return compareStrings(a.posting.id, b.posting.id) > 0;
}

interface Scored {
  posting: Posting;
  score: number;
}

/** BM25 in single precision. The terms of all documents are added in one order, so that equal documents have equal scores. */
function scores(text: TextIndex, kept: readonly [string, number][], total: number): Map<string, Scored> {
  const average = text.tokens / total;
  const found = new Map<string, Scored>();
  for (const [term, boost] of kept) {
    const documents = text.documents(term);
    const weight = boost * Math.log(1 + (total - documents.length + 0.5) / (documents.length + 0.5));
    for (const posting of documents) {
      const norm = 1.2 * (0.25 + (0.75 * fieldLength(posting.length)) / average);
      const part = Math.fround(weight * ((2.2 * posting.count) / (posting.count + norm)));
      const present = found.get(posting.id);
      if (present === undefined) found.set(posting.id, { posting, score: part });
      else present.score = Math.fround(present.score + part);
    }
  }
  return found;
}

/** At most 64 terms with those of the filters, each with its boost: exact before prefix, then in byte order. */
function keptTerms(text: TextIndex, terms: readonly string[], filters: number): [string, number][] {
  const found = text.startingWith(terms[terms.length - 1] as string);
  for (const term of terms) found.add(term);
  const all = [...found].map((term): [string, number] => [term, boostOf(term, terms)]);
  all.sort((a, b) => b[1] - a[1] || compareStrings(a[0], b[0]));
  const kept: [string, number][] = [];
  for (const entry of all) {
    if (kept.length >= MAX_TERMS - filters) break;
    if (text.documents(entry[0]).length > 0) kept.push(entry);
  }
  return kept;
}

/** Lengths are exact up to 40, then rounded down to eight steps per octave. */
function fieldLength(tokens: number): number {
  if (tokens <= 40) return tokens;
  let base = 40;
  let step = 2;
  while (tokens >= base + 8 * step) {
    base += 8 * step;
    step *= 2;
  }
  return base + Math.floor((tokens - base) / step) * step;
}
