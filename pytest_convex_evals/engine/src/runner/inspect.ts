/**
 * Rendering of console arguments as the default runtime does it: object-inspect with an indent of two and a depth of five.
 */

const INDENT = "  ";
const MAX_DEPTH = 5;

export function inspect(value: unknown, depth = 0, seen: readonly unknown[] = []): string {
  switch (typeof value) {
    case "undefined":
      return "undefined";
    case "boolean":
      return String(value);
    case "string":
      return quote(value);
    case "number":
      return Object.is(value, -0) ? "-0" : String(value);
    case "bigint":
      return `${value}n`;
    case "symbol":
      return String(value);
    case "function":
      return inspectFunction(value as (...args: never[]) => unknown, depth, seen);
    default:
      break;
  }
  if (value === null) return "null";
  const object = value as object;
  if (depth > MAX_DEPTH) return Array.isArray(object) ? "[Array]" : "[Object]";
  if (seen.includes(object)) return "[Circular]";
  const inner = (item: unknown): string => inspect(item, depth + 1, [...seen, object]);
  if (Array.isArray(object)) return inspectArray(object, inner, depth);
  const tag = Object.prototype.toString.call(object).slice(8, -1);
  if (tag === "Error" || object instanceof Error) return inspectError(object as Error, inner);
  if (tag === "Date") return String(object);
  if (tag === "RegExp") return String(object);
  if (tag === "Map") {
    const entries = [...(object as Map<unknown, unknown>)].map(([key, item]) => `${inner(key)} => ${inner(item)}`);
    return collection("Map", (object as Map<unknown, unknown>).size, entries, depth);
  }
  if (tag === "Set") return collection("Set", (object as Set<unknown>).size, [...(object as Set<unknown>)].map(inner), depth);
  return inspectObject(object, inner, depth, tag);
}

function quote(text: string): string {
  const escaped = text
    .replace(/(['\\])/g, "\\$1")
    // eslint-disable-next-line no-control-regex
    .replace(/[\x00-\x1f]/g, (char) => {
      const names: Record<string, string> = { "\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r" };
      const name = names[char];
      return name !== undefined ? `\\${name}` : `\\x${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
    });
  return `'${escaped}'`;
}

function entriesOf(object: object, inner: (item: unknown) => string): string[] {
  return Object.keys(object).map((key) => {
    const name = /[^\w$]/.test(key) || key === "" ? quote(key) : key;
    return `${name}: ${inner((object as Record<string, unknown>)[key])}`;
  });
}

function block(parts: readonly string[], depth: number): string {
  const line = `\n${INDENT.repeat(depth + 1)}`;
  return `${line}${parts.join(`,${line}`)}\n${INDENT.repeat(depth)}`;
}

function inspectArray(array: readonly unknown[], inner: (item: unknown) => string, depth: number): string {
  if (array.length === 0) return "[]";
  const parts = Array.from({ length: array.length }, (_, at) => (at in array ? inner(array[at]) : ""));
  return parts.some((part) => part.includes("\n")) ? `[${block(parts, depth)}]` : `[ ${parts.join(", ")} ]`;
}

function inspectError(error: Error, inner: (item: unknown) => string): string {
  const parts = entriesOf(error, inner);
  if ("cause" in error && !Object.keys(error).includes("cause")) parts.unshift(`[cause]: ${inner(error.cause)}`);
  return parts.length === 0 ? `[${String(error)}]` : `{ [${String(error)}] ${parts.join(", ")} }`;
}

function collection(name: string, size: number, parts: readonly string[], depth: number): string {
  return `${name} (${size}) {${parts.length === 0 ? "" : block(parts, depth)}}`;
}

function inspectObject(object: object, inner: (item: unknown) => string, depth: number, tag: string): string {
  const parts = entriesOf(object, inner);
  const prototype = Object.getPrototypeOf(object) as { constructor?: { name?: unknown } } | null;
  const constructorName = typeof prototype?.constructor?.name === "string" ? prototype.constructor.name : "";
  const isPlain = prototype === null || constructorName === "Object";
  const stringTag = !isPlain && Symbol.toStringTag in object ? tag : prototype === null ? "null prototype" : "";
  const shownName = isPlain ? (prototype === null ? "" : "") : constructorName;
  const bracket = stringTag === "" || stringTag === "null prototype" ? (stringTag === "" ? "" : "[Object: null prototype] ") : `[${stringTag}] `;
  const prefix = stringTag === "null prototype" ? bracket : `${shownName === "" ? "" : `${shownName} `}${bracket}`;
  return parts.length === 0 ? `${prefix}{}` : `${prefix}{${block(parts, depth)}}`;
}

function inspectFunction(fn: (...args: never[]) => unknown, depth: number, seen: readonly unknown[]): string {
  const head = `[Function${fn.name === "" ? " (anonymous)" : `: ${fn.name}`}]`;
  if (depth > MAX_DEPTH) return head;
  const parts = entriesOf(fn, (item) => inspect(item, depth + 1, [...seen, fn]));
  return parts.length === 0 ? head : `${head} { ${parts.join(", ")} }`;
}
