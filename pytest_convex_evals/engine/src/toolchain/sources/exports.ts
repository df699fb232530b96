/** What a file of the submission exports, through any chain of re-exports. */
import ts from "typescript";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import type { Interpreter } from "./interpreter.js";
import { outside, resolveModule, specifierOf } from "./modules.js";
import { classOf, declarationOf, declared, enumOf, fromModule, lookup } from "./names.js";
import type { Val } from "./values.js";

/** The value that a file of the submission exports under a name. */
export function exported(it: Interpreter, path: string, name: string): Val | undefined {
  const file = it.project.files.get(path);
  const marker = file?.endOfFileToken;
  if (file === undefined || marker === undefined || it.running.filter((n) => n === marker).length > 8) return undefined;
  it.running.push(marker);
  const { named, wildcards } = indexOf(file);
  try {
    for (const statement of [...(named.get(name) ?? []), ...wildcards]) {
      const value = exportedBy(it, statement, path, name);
      if (value !== undefined) return value;
    }
    return passedOn(it, file, name);
  } finally {
    it.running.pop();
  }
}

function exportedBy(it: Interpreter, statement: ts.Statement, path: string, name: string): Val | undefined {
  const env = it.moduleEnv(path);
  if (ts.isExportAssignment(statement)) return name === "default" ? once(it, statement, env) : undefined;
  if (ts.isExportDeclaration(statement)) return reexported(it, statement, path, name);
  if (!hasModifier(statement, ts.SyntaxKind.ExportKeyword)) return undefined;
  if (ts.isVariableStatement(statement)) {
    for (const variable of statement.declarationList.declarations) {
      const found = identifiersIn(variable.name).find((one) => one.text === name);
      if (found !== undefined) return lookup(it, found, env);
    }
    return undefined;
  }
  if (!ts.isFunctionDeclaration(statement) && !ts.isClassDeclaration(statement) && !ts.isEnumDeclaration(statement))
    return undefined;
  const isDefault = hasModifier(statement, ts.SyntaxKind.DefaultKeyword);
  if (isDefault ? name !== "default" : statement.name?.text !== name) return undefined;
  if (ts.isFunctionDeclaration(statement)) {
    return statement.body === undefined ? undefined : { k: "function", node: statement, env, self: undefined };
  }
  return ts.isClassDeclaration(statement) ? classOf(it, statement, env) : enumOf(it, statement);
}

/** `export * from "package"`: taken to export what nothing else does. */
function passedOn(it: Interpreter, file: ts.SourceFile, name: string): Val | undefined {
  for (const statement of file.statements) {
    if (!ts.isExportDeclaration(statement) || statement.exportClause !== undefined) continue;
    const specifier = specifierOf(statement.moduleSpecifier);
    const target = specifier === undefined ? undefined : resolveModule(it.project.files, file.fileName, specifier);
    if (target !== undefined && !("file" in target) && name !== "default") return outside(target, name);
  }
  return undefined;
}

/** `export default …`, read once. */
function once(it: Interpreter, statement: ts.ExportAssignment, env: Env): Val {
  const known = it.remembered.get(statement);
  if (known !== undefined) {
    it.touch(known.frame);
    return known.value;
  }
  const { value, frame } = it.framed(() => evaluate(it, statement.expression, env));
  it.remembered.set(statement, { value, frame, env });
  return value;
}

function reexported(it: Interpreter, statement: ts.ExportDeclaration, path: string, name: string): Val | undefined {
  const specifier = specifierOf(statement.moduleSpecifier);
  const clause = statement.exportClause;
  if (clause === undefined) {
    const target = specifier === undefined ? undefined : resolveModule(it.project.files, path, specifier);
    if (target === undefined || name === "default") return undefined;
    return "file" in target ? exported(it, target.file, name) : undefined;
  }
  if (ts.isNamespaceExport(clause))
    return clause.name.text === name && specifier !== undefined ? fromModule(it, path, specifier, "*") : undefined;
  for (const one of clause.elements) {
    if (one.name.text !== name) continue;
    const inner = one.propertyName ?? one.name;
    if (specifier !== undefined) return fromModule(it, path, specifier, inner.text);
    const symbol = it.checker.getExportSpecifierLocalTargetSymbol(one);
    const declaration = symbol && declarationOf(symbol);
    return symbol && declaration && declared(it, declaration, symbol, it.moduleEnv(path));
  }
  return undefined;
}

/** The names that a file exports, as far as they can be values. */
export function exportNames(it: Interpreter, path: string, seen = new Set<string>()): string[] {
  const file = it.project.files.get(path);
  if (file === undefined || seen.has(path)) return [];
  seen.add(path);
  const { named, wildcards } = indexOf(file);
  const names = new Set(named.keys());
  for (const statement of wildcards) {
    const specifier = specifierOf(statement.moduleSpecifier);
    const target = specifier === undefined ? undefined : resolveModule(it.project.files, path, specifier);
    if (target === undefined || !("file" in target)) continue;
    for (const name of exportNames(it, target.file, seen)) if (name !== "default") names.add(name);
  }
  return [...names];
}

interface ExportIndex {
  named: Map<string, ts.Statement[]>;
  wildcards: ts.ExportDeclaration[];
}

const indexes = new WeakMap<ts.SourceFile, ExportIndex>();

/** Which statement exports which name, worked out once per file. */
function indexOf(file: ts.SourceFile): ExportIndex {
  let index = indexes.get(file);
  if (index !== undefined) return index;
  indexes.set(file, (index = { named: new Map(), wildcards: [] }));
  for (const statement of file.statements) {
    if (ts.isExportDeclaration(statement) && statement.exportClause === undefined) index.wildcards.push(statement);
    for (const name of namesOf(statement)) index.named.set(name, [...(index.named.get(name) ?? []), statement]);
  }
  return index;
}

function namesOf(statement: ts.Statement): string[] {
  if (ts.isExportAssignment(statement)) return ["default"];
  if (ts.isExportDeclaration(statement)) {
    const clause = statement.exportClause;
    if (clause === undefined) return [];
    return ts.isNamedExports(clause) ? clause.elements.map((one) => one.name.text) : [clause.name.text];
  }
  if (!hasModifier(statement, ts.SyntaxKind.ExportKeyword)) return [];
  if (hasModifier(statement, ts.SyntaxKind.DefaultKeyword)) return ["default"];
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap((one) => identifiersIn(one.name).map((id) => id.text));
  }
  const named =
    ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement) || ts.isEnumDeclaration(statement);
  return named && statement.name !== undefined ? [statement.name.text] : [];
}

export function identifiersIn(name: ts.BindingName): ts.Identifier[] {
  if (ts.isIdentifier(name)) return [name];
  return name.elements.flatMap((one) => (ts.isOmittedExpression(one) ? [] : identifiersIn(one.name)));
}

export const hasModifier = (node: ts.Node, kind: ts.SyntaxKind): boolean =>
  ts.canHaveModifiers(node) && (ts.getModifiers(node)?.some((modifier) => modifier.kind === kind) ?? false);
