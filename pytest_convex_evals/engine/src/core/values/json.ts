/** JSON of others: looked at, never converted, so that a `toString` of the sender stays a field like any other. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(json: unknown): json is JsonObject {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

export function objectOf(json: unknown, refuse: () => never): JsonObject {
  return isJsonObject(json) ? json : refuse();
}

export function textOf(json: unknown, refuse: () => never): string {
  return typeof json === "string" ? json : refuse();
}

/** A list that may be left out. */
export function listOf(json: unknown, refuse: () => never): readonly unknown[] {
  if (json === undefined || json === null) return [];
  return Array.isArray(json) ? (json as unknown[]) : refuse();
}

export function parseJson(text: string, refuse: () => never): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return refuse();
  }
}
