/** What an assignment does to what a name stands for: the old value or the new one, since order is not followed. */
import ts from "typescript";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import type { Interpreter } from "./interpreter.js";
import { symbolAt } from "./names.js";
import { derived, union, type Val } from "./values.js";

export function assign(it: Interpreter, target: ts.Expression, value: Val, env: Env): void {
  if (ts.isIdentifier(target)) {
    const symbol = symbolAt(it, target);
    if (symbol !== undefined && !env.update(symbol, (old) => either(old, value))) env.set(symbol, value);
  } else if (ts.isPropertyAccessExpression(target) || ts.isElementAccessExpression(target)) {
    assignInto(it, target, value, env);
  } else if (ts.isParenthesizedExpression(target) || ts.isNonNullExpression(target) || ts.isAsExpression(target)) {
    assign(it, target.expression, value, env);
  } else {
    ts.forEachChild(target, (child) => spreadOut(it, child, value, env));
  }
}

const either = (old: Val, value: Val): Val => (old.k === "const" && old.value == null ? value : union([old, value]));

/** `[a, b] = value`, `({ a, b: c } = value)`. */
function spreadOut(it: Interpreter, node: ts.Node, value: Val, env: Env): void {
  if (ts.isShorthandPropertyAssignment(node)) assign(it, node.name, derived([value]), env);
  else if (ts.isPropertyAssignment(node)) assign(it, node.initializer, derived([value]), env);
  else if (ts.isExpression(node)) assign(it, node, derived([value]), env);
}

function assignInto(
  it: Interpreter,
  target: ts.PropertyAccessExpression | ts.ElementAccessExpression,
  value: Val,
  env: Env,
): void {
  const of = target.expression;
  const name = ts.isPropertyAccessExpression(target) ? target.name.text : undefined;
  if (ts.isElementAccessExpression(target)) evaluate(it, target.argumentExpression, env);
  if (of.kind === ts.SyntaxKind.ThisKeyword && env.self?.k === "local" && name !== undefined) {
    const old = env.self.fields.get(name);
    env.self.fields.set(name, old === undefined ? value : either(old, value));
    return;
  }
  absorb(it, of, [value], env, name);
}

/** Something is put into a container that a name stands for: `list.push(x)`, `map.set(k, x)`, `total.a = x`. */
export function absorb(it: Interpreter, container: ts.Expression, values: Val[], env: Env, name?: string): void {
  const symbol = ts.isIdentifier(container) ? symbolAt(it, container) : undefined;
  if (symbol === undefined) return;
  env.update(symbol, (old) => {
    if (old.k === "array") return { k: "array", items: [...old.items.slice(0, 1_000), ...values], open: true };
    if (old.k === "object" && name !== undefined) {
      const before = old.props.get(name);
      return {
        ...old,
        props: new Map(old.props).set(name, before === undefined ? values[0]! : either(before, values[0]!)),
      };
    }
    if (old.k === "object") return { ...old, open: true, rest: [...old.rest, ...values] };
    const plain =
      old.k === "derived" || (old.k === "instance" && old.callee.k === "root" && old.callee.source === "global");
    return plain ? derived([old, ...values]) : old;
  });
}
