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
import type { RowSource } from "./query.js";
import { docsOf, type Doc } from "./tables.js";
import type { Transaction } from "./transaction.js";

const MAX_QUERY_TERMS = 16;
const MAX_FILTERS = 8;
const MAX_CANDIDATES = 1024;
const MAX_TERMS = 64;
const MAX_TOKEN_BYTES = 32;

export interface SearchPlan {
  run(tx: Transaction): RowSource;
}

interface Filter {
  path: readonly string[];
  value: MaybeValue;
}

export function tokenize(text: string): string[] {
  const tokens: string[] = [];
  for (const match of text.matchAll(/[\p{Alphabetic}\p{N}]+/gu)) {
    if (Buffer.byteLength(match[0]) < MAX_TOKEN_BYTES) tokens.push(match[0].toLowerCase());
  }
  return tokens;
}

export function compileSearch(tx: Transaction, namespace: string, table: string, name: string, json: unknown): SearchPlan {
  const full = `${table}.${name}`;
  const index = findSearchIndex(tx, namespace, table, name);
  let query: string | null = null;
  const filters: Filter[] = [];
  for (const raw of (Array.isArray(json) ? json : []) as { type?: string; fieldPath?: string; value?: unknown }[]) {
    const field = String(raw.fieldPath);
    if (raw.type === "Search") {
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
    } else {
      if (query !== "" && !index.filterFields.includes(field)) {
        throw new UserError(
          "IncorrectFilterFieldError",
          `Search query against ${full} contains an equality filter on "${field}" but that field isn't indexed for filtering in \`filterFields\`.`,
        );
      }
      filters.push({ path: parseFieldPath(field), value: parseMaybeValue(raw.value) });
    }
  }
  if (query === null) throw new UserError("MissingSearchFilterError", `Search query against ${full} does not contain any search filters.`);
  if (query !== "" && filters.length > MAX_FILTERS) {
    throw new UserError(
      "TooManyFilterConditionsInSearchQueryError",
      `Search query against ${full} has too many filter conditions. Max: ${MAX_FILTERS} Actual: ${filters.length}`,
    );
  }
  const terms = tokenize(query).slice(0, MAX_QUERY_TERMS);
  const path = parseFieldPath(index.searchField);
  return { run: (running) => new SearchScan(running, namespace, table, path, terms, filters) };
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

interface Candidate {
  doc: Doc;
  score: number;
}

class SearchScan implements RowSource {
  private readonly found: Candidate[];
  private at = 0;

  constructor(
    private readonly tx: Transaction,
    private readonly namespace: string,
    private readonly table: string,
    path: readonly string[],
    terms: readonly string[],
    filters: readonly Filter[],
  ) {
    if (terms.length === 0) {
      this.found = [];
      return;
    }
    const matches = (doc: Doc): boolean => satisfies(doc, filters) && tokensOf(doc, path).some((token) => matchesTerm(token, terms) > 0);
    tx.reads.addPredicate(namespace, table, matches);
    this.found = rank(tx, namespace, table, path, terms, filters);
  }

  next(): Doc | null {
    if (this.at >= MAX_CANDIDATES) {
      throw new UserError(
        "SearchQueryScannedTooManyDocumentsError",
        `Search query scanned too many documents (fetched ${MAX_CANDIDATES}). Consider using a smaller limit, paginating the query, or using a filter field to limit the results.`,
      );
    }
    const candidate = this.found[this.at];
    if (candidate === undefined) return null;
    this.at += 1;
    const key = encodeKey(candidate.doc.id);
    this.tx.reads.add(this.namespace, this.table, "by_id", key, keyAfter(key));
    this.tx.checkRanges();
    this.tx.countRead(this.table, candidate.doc);
    return candidate.doc;
  }
}

function tokensOf(doc: Doc, path: readonly string[]): string[] {
  const value = valueAt(doc.value, path);
  return typeof value === "string" ? tokenize(value) : [];
}

/** 1 for an exact match, 0.5 for a prefix of the last term only, 0 for none. */
function matchesTerm(token: string, terms: readonly string[]): number {
  if (terms.includes(token)) return 1;
  return token.startsWith(terms[terms.length - 1] as string) ? 0.5 : 0;
}

function satisfies(doc: Doc, filters: readonly Filter[]): boolean {
  const distinct = new Set(filters.map((filter) => `${filter.path.join(".")}\n${encodeKey(filter.value)}`));
  if (distinct.size < filters.length) return false;
  return filters.every((filter) => valuesEqual(valueAt(doc.value, filter.path), filter.value));
}

function rank(tx: Transaction, namespace: string, table: string, path: readonly string[], terms: readonly string[], filters: readonly Filter[]): Candidate[] {
  const state = tx.table(namespace, table);
  if (state === undefined) return [];
  const frequency = new Map<string, number>();
  const documents: { doc: Doc; tokens: string[] }[] = [];
  let total = 0;
  let tokensTotal = 0;
  for (const doc of docsOf(state)) {
    const tokens = tokensOf(doc, path);
    total += 1;
    tokensTotal += tokens.length;
    const matched = new Set(tokens.filter((token) => matchesTerm(token, terms) > 0));
    for (const token of matched) frequency.set(token, (frequency.get(token) ?? 0) + 1);
    if (matched.size > 0) documents.push({ doc, tokens });
  }
  const kept = keptTerms(frequency, terms, filters.length);
  const average = total === 0 ? 0 : tokensTotal / total;
  const found: Candidate[] = [];
  for (const { doc, tokens } of documents) {
    if (!satisfies(doc, filters)) continue;
    const counts = new Map<string, number>();
    for (const token of tokens) if (kept.has(token)) counts.set(token, (counts.get(token) ?? 0) + 1);
    if (counts.size === 0) continue;
    let score = 0;
    for (const [token, tf] of counts) {
      const n = frequency.get(token) as number;
      const idf = Math.log(1 + (total - n + 0.5) / (n + 0.5));
      const norm = 1.2 * (0.25 + (0.75 * fieldLength(tokens.length)) / average);
      score = Math.fround(score + Math.fround((kept.get(token) as number) * idf * ((2.2 * tf) / (tf + norm))));
    }
    found.push({ doc, score });
  }
  found.sort((a, b) => b.score - a.score || b.doc.creationTime - a.doc.creationTime || compareStrings(b.doc.id, a.doc.id));
  return found.slice(0, MAX_CANDIDATES);
}

/** At most 64 terms with those of the filters: exact before prefix, then in byte order. */
function keptTerms(frequency: ReadonlyMap<string, number>, terms: readonly string[], filters: number): Map<string, number> {
  const all = [...frequency.keys()].map((token): [string, number] => [token, matchesTerm(token, terms)]);
  all.sort((a, b) => b[1] - a[1] || compareStrings(a[0], b[0]));
  return new Map(all.slice(0, MAX_TERMS - filters));
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
