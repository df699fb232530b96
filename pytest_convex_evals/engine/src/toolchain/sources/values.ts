/**
 * What an expression can stand for, as far as reading can tell.
 *
 * A value is immutable. `Root` is where things come from (a package, the generated files, `ctx`, the arguments of a
 * Convex function, a global); `Member`, `Result` and `Instance` are what was made of it.
 */
import type ts from "typescript";
import type { Env } from "./env.js";

export type Source = "package" | "generated" | "ctx" | "args" | "global";

export interface Const {
  k: "const";
  value: string | number | boolean | bigint | null | undefined;
}
export interface Obj {
  k: "object";
  props: Map<string, Val>;
  getters: Map<string, Fn>;
  open: boolean;
  rest: Val[];
}
export interface Arr {
  k: "array";
  items: Val[];
  open: boolean;
}
export interface Fn {
  k: "function";
  node: FunctionNode;
  env: Env;
  self: Val | undefined;
}
export interface Cls {
  k: "class";
  node: ts.ClassLikeDeclaration;
  env: Env;
}
export interface LocalInstance {
  k: "local";
  cls: Cls;
  args: Val[];
  fields: Map<string, Val>;
  base: Val | undefined;
}
export interface Namespace {
  k: "namespace";
  file: string;
}
export interface Root {
  k: "root";
  source: Source;
  module: string;
  name: string;
}
export interface Member {
  k: "member";
  of: Val;
  name: string;
}
export interface Result {
  k: "result";
  callee: Val;
  args: Val[];
  node: ts.Node;
  use: number | undefined;
}
export interface Instance {
  k: "instance";
  callee: Val;
  args: Val[];
  node: ts.Node;
  use: number | undefined;
}
export interface Union {
  k: "union";
  options: Val[];
}
export interface Derived {
  k: "derived";
  from: Val[];
  text: string;
}
export interface Registration {
  k: "registration";
  kind: FunctionKind;
  visibility: "public" | "internal" | "unknown";
  options: Val | undefined;
  wrapped: boolean;
  builder: Val;
  node: ts.Node;
}

export type FunctionKind = "query" | "mutation" | "action" | "httpAction" | "unknown";
export type FunctionNode = ts.FunctionLikeDeclaration | ts.ClassStaticBlockDeclaration;
export type Val =
  | Const
  | Obj
  | Arr
  | Fn
  | Cls
  | LocalInstance
  | Namespace
  | Root
  | Member
  | Result
  | Instance
  | Union
  | Derived
  | Registration;

export const UNDEFINED: Const = { k: "const", value: undefined };
export const CTX: Root = { k: "root", source: "ctx", module: "ctx", name: "" };
export const ARGS: Root = { k: "root", source: "args", module: "args", name: "" };

export const constant = (value: Const["value"]): Const => ({ k: "const", value });
export const derived = (from: Val[], text = ""): Derived => ({ k: "derived", from, text });
export const object = (entries: Iterable<[string, Val]> = []): Obj => ({
  k: "object",
  props: new Map(entries),
  getters: new Map(),
  open: false,
  rest: [],
});

/** One of several values; equal constants and the same value count once. */
export function union(values: Val[]): Val {
  const options: Val[] = [];
  for (const value of values.flatMap((v) => (v.k === "union" ? v.options : [v]))) {
    const known = options.some(
      (o) => o === value || (o.k === "const" && value.k === "const" && o.value === value.value),
    );
    if (!known && options.length < 16) options.push(value);
  }
  return options.length === 1 ? options[0]! : { k: "union", options };
}

/** Whether a value is known to be truthy or falsy; undefined where reading cannot tell. */
export function truth(value: Val): boolean | undefined {
  if (value.k === "const") return Boolean(value.value);
  if (value.k === "object" || value.k === "array" || value.k === "function" || value.k === "class") return true;
  return undefined;
}

const parts = (value: Val): Val[] => {
  switch (value.k) {
    case "object":
      return [...value.props.values(), ...value.rest];
    case "array":
      return value.items;
    case "member":
      return [value.of];
    case "result":
    case "instance":
      return [value.callee, ...value.args];
    case "union":
      return value.options;
    case "derived":
      return value.from;
    case "local":
      return value.base === undefined ? value.args : [value.base, ...value.args];
    default:
      return [];
  }
};

const cache = new WeakMap<Val, ReadonlySet<Val>>();

/** Every value that went into this one, itself included. */
export function ingredients(value: Val): ReadonlySet<Val> {
  const known = cache.get(value);
  if (known !== undefined) return known;
  const seen = new Set<Val>();
  const todo: Val[] = [value];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if (seen.has(next) || seen.size > 2_000) continue;
    seen.add(next);
    todo.push(...parts(next));
  }
  cache.set(value, seen);
  return seen;
}

/** The numbers of the uses whose results went into a value. */
export function usesIn(value: Val): number[] {
  const found: number[] = [];
  for (const part of ingredients(value)) {
    if ((part.k === "result" || part.k === "instance") && part.use !== undefined) found.push(part.use);
  }
  return found;
}
