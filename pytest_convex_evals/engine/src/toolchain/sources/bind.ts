/** Giving names to the parts of a value: declarations, parameters, destructuring. */
import ts from "typescript";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import type { Interpreter } from "./interpreter.js";
import { member } from "./member.js";
import { symbolAt } from "./names.js";
import { constant, derived, object, union, type Val } from "./values.js";

export function bindPattern(it: Interpreter, name: ts.BindingName, value: Val, env: Env): void {
  if (ts.isIdentifier(name)) {
    const symbol = symbolAt(it, name);
    if (symbol !== undefined) env.set(symbol, it.changing.has(symbol) ? unsettled(value, name.text) : value);
    return;
  }
  const taken: string[] = [];
  name.elements.forEach((element, index) => {
    if (ts.isOmittedExpression(element)) return;
    if (element.dotDotDotToken !== undefined) {
      bindPattern(it, element.name, ts.isObjectBindingPattern(name) ? without(value, taken) : after(value, index), env);
      return;
    }
    const key = ts.isArrayBindingPattern(name) ? String(index) : keyOf(it, element, env);
    if (key !== undefined) taken.push(key);
    const part = key === undefined ? derived([value]) : member(it, value, key);
    bindPattern(it, element.name, withDefault(it, part, element.initializer, env), env);
  });
}

/** A variable that changes is not the constant it starts as, since the order of events is not followed. */
function unsettled(value: Val, name: string): Val {
  if (value.k === "const") return value.value === undefined ? derived([], name) : union([value, derived([], name)]);
  if (value.k !== "object") return value;
  return {
    ...value,
    props: new Map(
      [...value.props].map(([key, part]) => [key, part.k === "const" ? unsettled(part, `${name}.${key}`) : part]),
    ),
  };
}

function keyOf(it: Interpreter, element: ts.BindingElement, env: Env): string | undefined {
  const key = element.propertyName ?? element.name;
  if (ts.isIdentifier(key) || ts.isStringLiteralLike(key) || ts.isNumericLiteral(key)) return key.text;
  if (!ts.isComputedPropertyName(key)) return undefined;
  const value = evaluate(it, key.expression, env);
  return value.k === "const" ? String(value.value) : undefined;
}

/** The default of a parameter or a pattern: used when the value is missing, possible when it is not known. */
export function withDefault(it: Interpreter, value: Val, initializer: ts.Expression | undefined, env: Env): Val {
  if (initializer === undefined) return value;
  if (value.k === "const" && value.value !== undefined) return value;
  const fallback = evaluate(it, initializer, env);
  return value.k === "const" ? fallback : union([value, fallback]);
}

function without(value: Val, taken: string[]): Val {
  if (value.k !== "object") return derived([value]);
  const rest = object([...value.props].filter(([key]) => !taken.includes(key)));
  return { ...rest, open: value.open, rest: value.rest, getters: value.getters };
}

function after(value: Val, index: number): Val {
  return value.k === "array" ? { k: "array", items: value.items.slice(index), open: value.open } : derived([value]);
}

/** Parameters of a function that is called with these values; what is not given is undefined. */
export function bindParameters(
  it: Interpreter,
  node: ts.SignatureDeclaration,
  args: readonly Val[],
  open: boolean,
  env: Env,
): void {
  node.parameters.forEach((parameter, index) => {
    if (parameter.dotDotDotToken !== undefined) {
      bindPattern(it, parameter.name, { k: "array", items: args.slice(index), open }, env);
      return;
    }
    const given = args[index] ?? (open ? derived([...args]) : constant(undefined));
    bindPattern(it, parameter.name, withDefault(it, given, parameter.initializer, env), env);
  });
}
