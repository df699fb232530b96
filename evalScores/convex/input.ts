// What comes from outside: names are checked, long texts are cut, content has a digest.
import { getConvexSize, type Value } from "convex/values";
import { refusal } from "./errors";
import { MAX_CELL_TEXT, MAX_DOCUMENT, MAX_NAME, MAX_TEXT } from "./limits";

export function checkName(what: string, value: string): void {
  if (value.trim() === "") throw refusal("invalid", `The ${what} is empty.`);
  if (value.length > MAX_NAME) throw refusal("too_large", `The ${what} has ${value.length} characters; at most ${MAX_NAME} are allowed.`);
}

export function checkCount(what: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least)
    throw refusal("invalid", `The ${what} is ${value}; it must be a whole number from ${least} up.`);
}

/** A time or duration: finite and not negative. */
export function checkAmount(what: string, value: number | null): void {
  if (value !== null && !(Number.isFinite(value) && value >= 0))
    throw refusal("invalid", `The ${what} is ${value}; it must be a number from 0 up.`);
}

export function checkUnique(what: string, values: string[]): void {
  const seen = new Set<string>();
  for (const value of values) {
    if (seen.has(value)) throw refusal("invalid", `${value} is there twice among the ${what}.`);
    seen.add(value);
  }
}

/** The text, or its beginning and how much is missing; never half a character. */
export function cut(text: string, limit = MAX_TEXT): string {
  if (text.length <= limit) return text;
  const kept = text.slice(0, limit).replace(/[\uD800-\uDBFF]$/, "");
  return `${kept}\n… ${text.length - kept.length} more characters`;
}

/** Cuts the texts of one cell, so that together they stay below a limit too. */
export class TextBudget {
  private left = MAX_CELL_TEXT;

  cut(text: string): string {
    const kept = cut(text, Math.min(MAX_TEXT, this.left));
    this.left = Math.max(0, this.left - kept.length);
    return kept;
  }

  cutReason<T extends { kind: string; reason?: string }>(verdict: T): T {
    return verdict.reason === undefined ? verdict : { ...verdict, reason: this.cut(verdict.reason) };
  }
}

export function checkSize(what: string, value: Value): void {
  const size = getConvexSize(value);
  if (size > MAX_DOCUMENT) throw refusal("too_large", `The ${what} has ${size} bytes; at most ${MAX_DOCUMENT} are allowed.`);
}

export async function sha256Hex(text: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The same for the same content, whatever the order of its fields. */
export function digest(content: unknown): Promise<string> {
  return sha256Hex(JSON.stringify(content, sortedFields));
}

function sortedFields(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The halves of `category/name`. */
export function splitEvalPath(evalPath: string): { category: string; name: string } {
  const [category, name, ...rest] = evalPath.split("/");
  if (!category || !name || rest.length > 0)
    throw refusal("invalid", `The eval ${JSON.stringify(evalPath)} is not of the form category/name.`);
  return { category, name };
}
