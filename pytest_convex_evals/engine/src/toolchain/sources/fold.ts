/** Arithmetic and comparisons on constants. */
import ts from "typescript";
import { snippet } from "./encode.js";
import { constant, derived, truth, type Val } from "./values.js";

export const MAX_TEXT = 20_000;

export function fold(operator: ts.SyntaxKind, left: Val, right: Val): Val | undefined {
  if (left.k !== "const" || right.k !== "const") return undefined;
  const [a, b] = [left.value, right.value];
  if (operator === ts.SyntaxKind.EqualsEqualsEqualsToken) return constant(a === b);
  if (operator === ts.SyntaxKind.ExclamationEqualsEqualsToken) return constant(a !== b);
  if (operator === ts.SyntaxKind.PlusToken && (typeof a === "string" || typeof b === "string")) {
    const text = `${String(a)}${String(b)}`;
    return text.length > MAX_TEXT ? undefined : constant(text);
  }
  if (typeof a !== "number" || typeof b !== "number") return undefined;
  switch (operator) {
    case ts.SyntaxKind.PlusToken:
      return constant(a + b);
    case ts.SyntaxKind.MinusToken:
      return constant(a - b);
    case ts.SyntaxKind.AsteriskToken:
      return constant(a * b);
    case ts.SyntaxKind.SlashToken:
      return constant(a / b);
    case ts.SyntaxKind.PercentToken:
      return constant(a % b);
    case ts.SyntaxKind.AsteriskAsteriskToken:
      return constant(a ** b);
    case ts.SyntaxKind.LessThanToken:
      return constant(a < b);
    case ts.SyntaxKind.GreaterThanToken:
      return constant(a > b);
    case ts.SyntaxKind.LessThanEqualsToken:
      return constant(a <= b);
    case ts.SyntaxKind.GreaterThanEqualsToken:
      return constant(a >= b);
    default:
      return undefined;
  }
}

export function foldUnary(node: ts.PrefixUnaryExpression, value: Val): Val {
  const known = truth(value);
  if (node.operator === ts.SyntaxKind.ExclamationToken && known !== undefined) return constant(!known);
  if (value.k === "const" && typeof value.value === "number") {
    if (node.operator === ts.SyntaxKind.MinusToken) return constant(-value.value);
    if (node.operator === ts.SyntaxKind.PlusToken) return value;
  }
  return derived([value], snippet(node));
}
