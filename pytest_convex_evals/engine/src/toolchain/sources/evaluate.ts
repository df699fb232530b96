/** What an expression stands for; reading it also records the uses inside it. */
import ts from "typescript";
import { assign } from "./assign.js";
import { call, instantiate } from "./call.js";
import { snippet } from "./encode.js";
import type { Env } from "./env.js";
import { fold, foldUnary, MAX_TEXT } from "./fold.js";
import type { Interpreter } from "./interpreter.js";
import { arrayLiteral, objectLiteral } from "./literals.js";
import { member } from "./member.js";
import { classOf, lookup } from "./names.js";
import { originOf } from "./origin.js";
import { recordUse, sink } from "./record.js";
import { constant, derived, truth, union, UNDEFINED, type Val } from "./values.js";

export function evaluate(it: Interpreter, node: ts.Expression, env: Env): Val {
  it.step();
  if (ts.isIdentifier(node)) return mention(it, node, lookup(it, node, env));
  if (ts.isPropertyAccessExpression(node)) {
    const of = evaluate(it, node.expression, env);
    return mention(it, node, node.name.text === "" ? of : member(it, of, node.name.text));
  }
  if (ts.isElementAccessExpression(node)) return element(it, node, env);
  if (ts.isCallExpression(node)) return call(it, node, env);
  if (ts.isNewExpression(node)) return instantiate(it, node, env);
  if (ts.isObjectLiteralExpression(node)) return objectLiteral(it, node, env);
  if (ts.isArrayLiteralExpression(node)) return arrayLiteral(it, node, env);
  if (ts.isBinaryExpression(node)) return binary(it, node, env);
  if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return { k: "function", node, env, self: undefined };
  if (ts.isClassExpression(node)) return classOf(it, node, env);
  if (ts.isConditionalExpression(node)) return conditional(it, node, env);
  if (ts.isPrefixUnaryExpression(node)) return foldUnary(node, evaluate(it, node.operand, env));
  if (ts.isTemplateExpression(node)) return template(it, node, env);
  if (ts.isVoidExpression(node)) {
    evaluate(it, node.expression, env);
    return UNDEFINED;
  }
  const inner = wrapped(node);
  return inner === undefined ? leaf(it, node, env) : evaluate(it, inner, env);
}

/** `await x`, `(x)`, `x as T`, `x!` and the like stand for x. */
function wrapped(node: ts.Expression): ts.Expression | undefined {
  if (ts.isAwaitExpression(node) || ts.isParenthesizedExpression(node) || ts.isAsExpression(node))
    return node.expression;
  if (ts.isNonNullExpression(node) || ts.isSatisfiesExpression(node) || ts.isTypeAssertionExpression(node))
    return node.expression;
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}

function leaf(it: Interpreter, node: ts.Expression, env: Env): Val {
  if (ts.isStringLiteralLike(node)) return constant(node.text);
  if (ts.isNumericLiteral(node)) return constant(Number(node.text));
  if (ts.isBigIntLiteral(node)) return bigint(node.text);
  switch (node.kind) {
    case ts.SyntaxKind.TrueKeyword:
      return constant(true);
    case ts.SyntaxKind.FalseKeyword:
      return constant(false);
    case ts.SyntaxKind.NullKeyword:
      return constant(null);
    case ts.SyntaxKind.ThisKeyword:
      return env.self ?? derived([], "this");
    case ts.SyntaxKind.SuperKeyword:
      return env.self?.k === "local" ? (env.self.base ?? derived([], "super")) : derived([], "super");
    default:
      return derived(pieces(it, node, env), snippet(node));
  }
}

function bigint(text: string): Val {
  if (text.length > 400) return derived([], text.slice(0, 40));
  try {
    return constant(BigInt(text.replace(/n$/, "")));
  } catch {
    return derived([], text.slice(0, 40));
  }
}

/** Any other expression: made of the expressions inside it. */
function pieces(it: Interpreter, node: ts.Node, env: Env): Val[] {
  const found: Val[] = [];
  ts.forEachChild(node, (child) => {
    if (ts.isTypeNode(child)) return;
    if (ts.isExpression(child)) found.push(evaluate(it, child, env));
    else found.push(...pieces(it, child, env));
  });
  return found;
}

/** Something from a package that is named without being called or looked into. */
function mention(it: Interpreter, node: ts.Expression, value: Val): Val {
  const parent = node.parent as ts.Node | undefined;
  const looked =
    parent !== undefined &&
    "expression" in parent &&
    parent.expression === node &&
    (ts.isPropertyAccessExpression(parent) ||
      ts.isElementAccessExpression(parent) ||
      ts.isCallExpression(parent) ||
      ts.isNewExpression(parent));
  if (!looked && originOf(value)?.source === "package") recordUse(it, "reference", value, [], node);
  return value;
}

function element(it: Interpreter, node: ts.ElementAccessExpression, env: Env): Val {
  const of = evaluate(it, node.expression, env);
  const key = evaluate(it, node.argumentExpression, env);
  const keys = key.k === "union" ? key.options : [key];
  if (keys.every((one) => one.k === "const")) {
    return mention(it, node, union(keys.map((one) => member(it, of, String(one.value)))));
  }
  const items = of.k === "object" && !of.open ? [...of.props.values()] : of.k === "array" && !of.open ? of.items : [];
  return items.length > 0 && items.length <= 16 ? union(items) : derived([of, key], snippet(node));
}

function conditional(it: Interpreter, node: ts.ConditionalExpression, env: Env): Val {
  const condition = evaluate(it, node.condition, env);
  sink(it, condition, "condition");
  const known = truth(condition);
  if (known !== undefined) return evaluate(it, known ? node.whenTrue : node.whenFalse, env);
  return union([evaluate(it, node.whenTrue, env), evaluate(it, node.whenFalse, env)]);
}

function binary(it: Interpreter, node: ts.BinaryExpression, env: Env): Val {
  const operator = node.operatorToken.kind;
  if (operator >= ts.SyntaxKind.FirstAssignment && operator <= ts.SyntaxKind.LastAssignment) {
    const value = evaluate(it, node.right, env);
    if (operator === ts.SyntaxKind.EqualsToken) assign(it, node.left, value, env);
    else assign(it, node.left, derived([evaluate(it, node.left, env), value], snippet(node)), env);
    return value;
  }
  const left = evaluate(it, node.left, env);
  if (operator === ts.SyntaxKind.CommaToken) return evaluate(it, node.right, env);
  const shortcut = logical(operator, left);
  if (shortcut !== undefined) {
    sink(it, left, "condition");
    if (shortcut === "left") return left;
    const right = evaluate(it, node.right, env);
    return shortcut === "right" ? right : union([left, right]);
  }
  const right = evaluate(it, node.right, env);
  return fold(operator, left, right) ?? derived([left, right], snippet(node));
}

/** Which side of `&&`, `||`, `??` counts. */
function logical(operator: ts.SyntaxKind, left: Val): "left" | "right" | "both" | undefined {
  const known = truth(left);
  if (operator === ts.SyntaxKind.AmpersandAmpersandToken)
    return known === undefined ? "both" : known ? "right" : "left";
  if (operator === ts.SyntaxKind.BarBarToken) return known === undefined ? "both" : known ? "left" : "right";
  if (operator !== ts.SyntaxKind.QuestionQuestionToken) return undefined;
  if (left.k === "const") return left.value == null ? "right" : "left";
  return known === true ? "left" : "both";
}

function template(it: Interpreter, node: ts.TemplateExpression, env: Env): Val {
  const spans = node.templateSpans.map((span) => evaluate(it, span.expression, env));
  let text = node.head.text;
  for (const [index, span] of node.templateSpans.entries()) {
    const value = spans[index];
    if (value?.k !== "const") return derived(spans, snippet(node));
    text += `${String(value.value)}${span.literal.text}`;
    if (text.length > MAX_TEXT) return derived(spans, snippet(node));
  }
  return constant(text);
}
