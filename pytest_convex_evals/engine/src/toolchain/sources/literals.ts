/** Object and array literals, with spreads. */
import ts from "typescript";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import type { Interpreter } from "./interpreter.js";
import { lookup } from "./names.js";
import { derived, object, type Fn, type Obj, type Val } from "./values.js";

const MAX_PARTS = 1_000;

export function objectLiteral(it: Interpreter, node: ts.ObjectLiteralExpression, env: Env): Val {
  const made = object();
  for (const part of node.properties.slice(0, MAX_PARTS)) add(it, made, part, env);
  if (node.properties.length > MAX_PARTS) made.open = true;
  return made;
}

function add(it: Interpreter, made: Obj, part: ts.ObjectLiteralElementLike, env: Env): void {
  if (ts.isSpreadAssignment(part)) return spread(made, evaluate(it, part.expression, env));
  if (ts.isShorthandPropertyAssignment(part)) return put(made, part.name.text, lookup(it, part.name, env));
  const key = keyOf(it, part.name, env);
  if (ts.isPropertyAssignment(part)) return put(made, key, evaluate(it, part.initializer, env));
  const fn: Fn = { k: "function", node: part, env, self: undefined };
  if (ts.isMethodDeclaration(part)) return put(made, key, fn);
  if (ts.isGetAccessor(part) && key !== undefined) made.getters.set(key, fn);
}

function put(made: Obj, key: string | undefined, value: Val): void {
  if (key !== undefined) {
    made.props.set(key, value);
    made.getters.delete(key);
    return;
  }
  made.open = true;
  made.rest.push(value);
}

function spread(made: Obj, value: Val): void {
  if (value.k === "const") return;
  if (value.k !== "object") {
    made.open = true;
    made.rest.push(value);
    return;
  }
  for (const [key, item] of value.props) put(made, key, item);
  for (const [key, getter] of value.getters) made.getters.set(key, getter);
  made.open ||= value.open;
  made.rest.push(...value.rest);
}

function keyOf(it: Interpreter, name: ts.PropertyName, env: Env): string | undefined {
  if (ts.isComputedPropertyName(name)) {
    const value = evaluate(it, name.expression, env);
    return value.k === "const" ? String(value.value) : undefined;
  }
  return name.text;
}

export function arrayLiteral(it: Interpreter, node: ts.ArrayLiteralExpression, env: Env): Val {
  const { values, open } = list(it, node.elements, env);
  return { k: "array", items: values, open };
}

/** Elements of an array or arguments of a call, with spreads unfolded where they are known. */
export function list(it: Interpreter, nodes: readonly ts.Expression[], env: Env): { values: Val[]; open: boolean } {
  const values: Val[] = [];
  let open = nodes.length > MAX_PARTS;
  for (const node of nodes.slice(0, MAX_PARTS)) {
    if (values.length >= MAX_PARTS) return { values, open: true };
    if (!ts.isSpreadElement(node)) {
      values.push(evaluate(it, node, env));
      continue;
    }
    const spreaded = evaluate(it, node.expression, env);
    if (spreaded.k === "array") values.push(...spreaded.items.slice(0, MAX_PARTS));
    else values.push(derived([spreaded]));
    open ||= spreaded.k !== "array" || spreaded.open;
  }
  return { values, open };
}
