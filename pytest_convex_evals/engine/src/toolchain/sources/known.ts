/** The few facts about packages that reading a submission cannot supply by itself. */
import { constant, object, type FunctionKind, type Val } from "./values.js";

const TIMES = { SECOND: 1_000, MINUTE: 60_000, HOUR: 3_600_000, DAY: 86_400_000, WEEK: 604_800_000 };

type Known = number | Readonly<Record<string, number>>;

/** Exported constants, so that `20 * MINUTE` is a number. */
const CONSTANTS: ReadonlyMap<string, Readonly<Record<string, Known>>> = new Map<
  string,
  Readonly<Record<string, Known>>
>([
  ["@convex-dev/rate-limiter", TIMES],
  ["@convex-dev/workpool", { DEFAULT_RETRY_BEHAVIOR: { maxAttempts: 5, initialBackoffMs: 250, base: 2 } }],
]);

export function knownConstant(module: string, name: string): Val | undefined {
  const table = CONSTANTS.get(module);
  const known = table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
  if (known === undefined) return undefined;
  return typeof known === "number"
    ? constant(known)
    : object(Object.entries(known).map(([key, part]) => [key, constant(part)]));
}

type Builder = { kind: FunctionKind; visibility: "public" | "internal" };

const BUILDERS: ReadonlyMap<string, Builder> = new Map<string, Builder>([
  ["query", { kind: "query", visibility: "public" }],
  ["mutation", { kind: "mutation", visibility: "public" }],
  ["action", { kind: "action", visibility: "public" }],
  ["internalQuery", { kind: "query", visibility: "internal" }],
  ["internalMutation", { kind: "mutation", visibility: "internal" }],
  ["internalAction", { kind: "action", visibility: "internal" }],
  ["httpAction", { kind: "httpAction", visibility: "public" }],
]);

/** The function builder that a module exports under this name. */
export function knownBuilder(source: string, module: string, name: string): Builder | undefined {
  if (source === "generated" && module === "_generated/server") return BUILDERS.get(name);
  if (module === "convex/server" && name.endsWith("Generic")) return BUILDERS.get(name.slice(0, -"Generic".length));
  return undefined;
}

/** Methods of packages that make a Convex function: `export const done = pool.defineOnComplete({…})`. */
const MAKERS: ReadonlyMap<string, Builder> = new Map<string, Builder>([
  ["@convex-dev/workpool:defineOnComplete()", { kind: "mutation", visibility: "internal" }],
  ["@convex-dev/rate-limiter:hookAPI().getRateLimit", { kind: "query", visibility: "public" }],
  ["@convex-dev/rate-limiter:hookAPI().getServerTime", { kind: "mutation", visibility: "public" }],
]);

export const knownMaker = (pkg: string, member: string): Builder | undefined => MAKERS.get(`${pkg}:${member}`);

/** The package a module belongs to: `@a/b/c.js` is of `@a/b`. */
export function packageOf(module: string): string {
  const words = module.split("/");
  return module.startsWith("@") ? words.slice(0, 2).join("/") : words[0]!;
}
