/** Identifiers and dotted field paths. */

import { UserError } from "../errors.js";
import { isObject, type MaybeValue } from "./value.js";

export type FieldPath = readonly string[];

/** The reason why a text is not an identifier, or null. */
export function identifierProblem(name: string): string | null {
  if (name.length > 64) return `Identifiers must be 64 characters or less, but it is ${name.length} characters long`;
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return "Identifiers must start with a letter and can only contain letters, digits, and underscores.";
  }
  return /^_+$/.test(name) ? "Identifiers cannot have only underscores." : null;
}

export function isIdentifier(name: string): boolean {
  return identifierProblem(name) === null;
}

export function parseFieldPath(text: string): FieldPath {
  const parts = partsOf(text);
  for (const part of parts) {
    const problem = identifierProblem(part);
    if (problem !== null) throw new UserError("InvalidFieldPath", `Invalid field path "${text}": ${problem}`);
  }
  return parts;
}

/** The path, or null when a part of it is no identifier. */
export function fieldPathOf(text: string): FieldPath | null {
  const parts = partsOf(text);
  return parts.every(isIdentifier) ? parts : null;
}

function partsOf(text: string): string[] {
  return text.replace(/^\.+|\.+$/g, "").split(".");
}

/** Field paths traverse objects only. */
export function valueAt(value: MaybeValue, path: FieldPath): MaybeValue {
  let current = value;
  for (const part of path) {
    if (!isObject(current)) return undefined;
    current = current[part];
  }
  return current;
}
