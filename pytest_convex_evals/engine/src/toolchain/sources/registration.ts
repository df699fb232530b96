/** Convex functions: calls to a builder of `_generated/server` or `convex/server`, also one wrapped by a package. */
import type ts from "typescript";
import { knownBuilder } from "./known.js";
import { originOf } from "./origin.js";
import type { FunctionKind, Registration, Val } from "./values.js";

export interface Builder {
  kind: FunctionKind;
  visibility: "public" | "internal";
  wrapped: boolean;
}

export function builderOf(value: Val, depth = 0): Builder | undefined {
  if (depth > 5) return undefined;
  if (value.k === "root") {
    const known = knownBuilder(value.source, value.module, value.name);
    return known && { ...known, wrapped: false };
  }
  if (value.k === "union")
    return value.options.map((one) => builderOf(one, depth + 1)).find((one) => one !== undefined);
  if (value.k !== "result" || originOf(value.callee)?.source !== "package") return undefined;
  // customMutation(mutation, …) and its like: what wraps a builder is a builder.
  for (const arg of value.args) {
    const inner = builderOf(arg, depth + 1);
    if (inner !== undefined) return { ...inner, wrapped: true };
  }
  return undefined;
}

export function register(callee: Val, args: Val[], node: ts.Node): Registration | undefined {
  const builder = builderOf(callee);
  return builder && { k: "registration", ...builder, options: args[0], builder: callee, node };
}
