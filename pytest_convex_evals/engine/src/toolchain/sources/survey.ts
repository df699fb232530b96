/** One look over all files before reading: which variables change, and which statements belong to a variable. */
import ts from "typescript";
import type { Interpreter } from "./interpreter.js";
import { resolveModule, specifierOf } from "./modules.js";
import { identifiersIn } from "./exports.js";
import { isModuleLevel, symbolAt } from "./names.js";

export function survey(it: Interpreter): void {
  for (const file of it.project.files.values()) {
    changes(it, file);
    for (const statement of file.statements) attach(it, statement);
  }
}

function changes(it: Interpreter, file: ts.SourceFile): void {
  const todo: ts.Node[] = [file];
  for (let node = todo.pop(); node !== undefined; node = todo.pop()) {
    const target = changed(node);
    const symbol = target && symbolAt(it, target.root);
    if (target !== undefined && symbol !== undefined) {
      it.changing.add(symbol);
      const variable = symbol.declarations?.[0];
      if (
        target.value !== undefined &&
        variable !== undefined &&
        ts.isVariableDeclaration(variable) &&
        isModuleLevel(variable)
      ) {
        it.assigned.set(symbol, [...(it.assigned.get(symbol) ?? []), target.value]);
      }
    }
    ts.forEachChild(node, (child) => void todo.push(child));
  }
}

/** The variable that a node changes, and its new value where the whole of it is replaced. */
function changed(node: ts.Node): { root: ts.Identifier; value: ts.Expression | undefined } | undefined {
  if (ts.isBinaryExpression(node)) {
    const operator = node.operatorToken.kind;
    if (operator < ts.SyntaxKind.FirstAssignment || operator > ts.SyntaxKind.LastAssignment) return undefined;
    const root = rootOf(node.left);
    return root && { root, value: root === node.left ? node.right : undefined };
  }
  const counts =
    ts.isPostfixUnaryExpression(node) ||
    (ts.isPrefixUnaryExpression(node) &&
      (node.operator === ts.SyntaxKind.PlusPlusToken || node.operator === ts.SyntaxKind.MinusMinusToken));
  const root = counts ? rootOf(node.operand) : undefined;
  return root && { root, value: undefined };
}

function rootOf(node: ts.Node): ts.Identifier | undefined {
  let at = node;
  while (
    ts.isPropertyAccessExpression(at) ||
    ts.isElementAccessExpression(at) ||
    ts.isNonNullExpression(at) ||
    ts.isParenthesizedExpression(at) ||
    ts.isCallExpression(at)
  ) {
    at = at.expression;
  }
  return ts.isIdentifier(at) ? at : undefined;
}

/** `triggers.register(…)`, also in a loop: whoever uses `triggers` uses what was registered. */
function attach(it: Interpreter, statement: ts.Statement): void {
  const acts =
    ts.isExpressionStatement(statement) ||
    ts.isForOfStatement(statement) ||
    ts.isForStatement(statement) ||
    ts.isIfStatement(statement) ||
    ts.isBlock(statement);
  if (!acts) return;
  const todo: ts.Node[] = [statement];
  for (let node = todo.pop(); node !== undefined; node = todo.pop()) {
    if (ts.isFunctionLike(node) && !isLoopBody(node)) continue;
    if (ts.isExpressionStatement(node)) {
      const root = ts.isCallExpression(node.expression) ? rootOf(node.expression) : undefined;
      const variable = root && variableBehind(it, root, 0);
      const known = variable && it.attached.get(variable);
      if (variable !== undefined && !known?.includes(statement))
        it.attached.set(variable, [...(known ?? []), statement]);
    } else if (ts.isArrowFunction(node) && !ts.isBlock(node.body) && ts.isCallExpression(node.body)) {
      const root = rootOf(node.body);
      const variable = root && variableBehind(it, root, 0);
      if (variable !== undefined) it.attached.set(variable, [...(it.attached.get(variable) ?? []), statement]);
    }
    ts.forEachChild(node, (child) => void todo.push(child));
  }
}

/** `[…].forEach(one => …)` is a loop in other words. */
function isLoopBody(node: ts.Node): boolean {
  const parent = node.parent as ts.Node | undefined;
  return (
    parent !== undefined &&
    ts.isCallExpression(parent) &&
    ts.isPropertyAccessExpression(parent.expression) &&
    parent.expression.name.text === "forEach"
  );
}

/** The module-level variable that a name means, also in another file. */
function variableBehind(it: Interpreter, name: ts.Identifier, hops: number): ts.VariableDeclaration | undefined {
  const declaration = symbolAt(it, name)?.declarations?.[0];
  if (declaration === undefined || hops > 5) return undefined;
  if (ts.isVariableDeclaration(declaration)) return isModuleLevel(declaration) ? declaration : undefined;
  const [statement, wanted] = ts.isImportSpecifier(declaration)
    ? [declaration.parent.parent.parent, (declaration.propertyName ?? declaration.name).text]
    : ts.isImportClause(declaration)
      ? [declaration.parent, "default"]
      : [undefined, ""];
  const specifier =
    statement !== undefined && ts.isImportDeclaration(statement) ? specifierOf(statement.moduleSpecifier) : undefined;
  const target =
    specifier === undefined ? undefined : resolveModule(it.project.files, name.getSourceFile().fileName, specifier);
  const file = target !== undefined && "file" in target ? it.project.files.get(target.file) : undefined;
  for (const one of file?.statements ?? []) {
    if (ts.isVariableStatement(one)) {
      const found = one.declarationList.declarations.find((v) =>
        identifiersIn(v.name).some((id) => id.text === wanted),
      );
      if (found !== undefined) return found;
    }
    if (wanted === "default" && ts.isExportAssignment(one) && ts.isIdentifier(one.expression))
      return variableBehind(it, one.expression, hops + 1);
  }
  return undefined;
}
