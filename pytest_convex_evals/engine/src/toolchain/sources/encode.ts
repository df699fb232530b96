/**
 * Values as JSON.
 *
 * What is constant is written plainly. Everything else is an object with the key `$`: `undefined`, `number` (not
 * finite), `bigint`, `function` (a Convex function), `origin` (comes from an import, ctx or the arguments), `unknown`
 * (with the text and what went into it), `oneOf`, and `object` (entries; `open` when there may be more keys).
 */
import type ts from "typescript";
import { functionReference, originOf, type Origin } from "./origin.js";
import { ingredients, type Obj, type Val } from "./values.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const MAX_DEPTH = 6;
const MAX_ENTRIES = 100;
const MAX_PARTS = 500;
const MAX_TEXT = 2_000;

export function encode(value: Val, depth = 0, room = { left: MAX_PARTS }): Json {
  if (depth > MAX_DEPTH || --room.left < 0) return { $: "unknown", text: "…", from: [] };
  switch (value.k) {
    case "const":
      return encodeConstant(value.value);
    case "array":
      if (value.items.length > MAX_ENTRIES || value.open) return unknown(value, "[…]");
      return value.items.map((item) => encode(item, depth + 1, room));
    case "object":
      return encodeObject(value, depth, room);
    case "union":
      return { $: "oneOf", options: value.options.map((option) => encode(option, depth + 1, room)) };
    case "function":
      return { $: "unknown", text: "a function", from: [] };
    case "class":
      return { $: "unknown", text: "a class", from: [] };
    case "registration":
      return { $: "unknown", text: `a Convex ${value.kind}`, from: [] };
    case "namespace":
      return { $: "unknown", text: `the module ${value.file}`, from: [] };
    case "derived":
      return unknown(value, value.text);
    default: {
      const target = functionReference(value);
      if (target !== undefined) return { $: "function", path: target };
      const origin = originOf(value);
      return origin === undefined ? unknown(value) : { $: "origin", ...origin, from: sourcesOf(value) };
    }
  }
}

function encodeConstant(value: string | number | boolean | bigint | null | undefined): Json {
  if (value === undefined) return { $: "undefined" };
  if (typeof value === "bigint") return { $: "bigint", text: value.toString().slice(0, 400) };
  if (typeof value === "number" && !Number.isFinite(value)) return { $: "number", text: String(value) };
  return typeof value === "string" ? value.slice(0, MAX_TEXT) : value;
}

function encodeObject(value: Obj, depth: number, room: { left: number }): Json {
  const entries = [...value.props].slice(0, MAX_ENTRIES);
  const open = value.open || value.getters.size > 0 || value.props.size > MAX_ENTRIES;
  if (open || value.props.has("$")) {
    return { $: "object", open, entries: entries.map(([key, item]) => [key, encode(item, depth + 1, room)]) };
  }
  const plain = Object.create(null) as { [key: string]: Json };
  for (const [key, item] of entries) plain[key] = encode(item, depth + 1, room);
  return plain;
}

const unknown = (value: Val, text = ""): Json => ({ $: "unknown", text, from: sourcesOf(value) });

/** The named places that went into a value, as `args.userId` or `ctx.auth.getUserIdentity()`. */
function sourcesOf(value: Val): string[] {
  const found = new Set<string>();
  for (const part of ingredients(value)) {
    if (part.k !== "member" && part.k !== "result" && part.k !== "root") continue;
    const origin = originOf(part);
    if (origin !== undefined && found.size < 40) found.add(nameOf(origin));
  }
  // `args.user.name` says all that `args.user` would.
  const names = [...found].sort();
  return names.filter(
    (name) => !names.some((longer) => longer.startsWith(`${name}.`) || longer.startsWith(`${name}(`)),
  );
}

export function nameOf(origin: Origin): string {
  const root =
    origin.source === "ctx" || origin.source === "args" ? origin.source : `${origin.module}:${origin.export}`;
  return origin.member === "" ? root : `${root}.${origin.member}`;
}

/** A short piece of source text for messages. */
export function snippet(node: ts.Node): string {
  const text = node.getText().replace(/\s+/g, " ");
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
