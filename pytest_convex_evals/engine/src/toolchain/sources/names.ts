/** What a name means: in scope, imported, exported by a file, or known everywhere. */
import ts from "typescript";
import { bindPattern } from "./bind.js";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import { execute } from "./execute.js";
import type { Interpreter } from "./interpreter.js";
import { exported } from "./exports.js";
import { outside, resolveModule, specifierOf } from "./modules.js";
import { ARGS, CTX, constant, derived, object, union, UNDEFINED, type Val } from "./values.js";

export function lookup(it: Interpreter, node: ts.Identifier, env: Env): Val {
  const symbol = symbolAt(it, node);
  if (symbol === undefined) return globalNamed(node.text);
  const local = env.get(symbol);
  const declaration = declarationOf(symbol);
  if (local !== undefined) {
    const variable = declaration && variableOf(declaration);
    if (variable !== undefined && isModuleLevel(variable)) declareModuleVariable(it, variable);
    return env.get(symbol) ?? local;
  }
  return declaration === undefined ? globalNamed(node.text) : declared(it, declaration, symbol, env);
}

/** Where a name gets its value: of the overloads of a function, the one with a body. */
export function declarationOf(symbol: ts.Symbol): ts.Declaration | undefined {
  const values = symbol.declarations?.filter(
    (one) => !ts.isTypeAliasDeclaration(one) && !ts.isInterfaceDeclaration(one),
  );
  return values?.find((one) => ts.isFunctionDeclaration(one) && one.body !== undefined) ?? values?.[0];
}

export function symbolAt(it: Interpreter, node: ts.Identifier): ts.Symbol | undefined {
  const parent = node.parent as ts.Node | undefined;
  if (parent !== undefined && ts.isShorthandPropertyAssignment(parent) && parent.name === node) {
    const value = it.checker.getShorthandAssignmentValueSymbol(parent);
    return value?.declarations && it.checker.getExportSymbolOfSymbol(value);
  }
  // `constructor(private x)` declares a field as well; names in the body mean the parameter.
  const own =
    parent !== undefined && ts.isParameter(parent) && ts.isParameterPropertyDeclaration(parent, parent.parent);
  const symbol = own
    ? it.checker.getSymbolsOfParameterPropertyDeclaration(parent, node.text)[0]
    : it.checker.getSymbolAtLocation(node);
  if (symbol === undefined || symbol.declarations === undefined) return undefined;
  // An exported variable has two symbols, one for the file and one for the world.
  return it.checker.getExportSymbolOfSymbol(symbol);
}

function globalNamed(name: string): Val {
  if (name === "undefined") return UNDEFINED;
  if (name === "Infinity") return constant(Infinity);
  if (name === "NaN") return constant(NaN);
  return { k: "root", source: "global", module: "global", name };
}

export function declared(it: Interpreter, node: ts.Declaration, symbol: ts.Symbol, env: Env): Val {
  const file = node.getSourceFile().fileName;
  if (ts.isImportSpecifier(node))
    return imported(it, file, node.parent.parent.parent, (node.propertyName ?? node.name).text);
  if (ts.isImportClause(node)) return imported(it, file, node.parent, "default");
  if (ts.isNamespaceImport(node)) return imported(it, file, node.parent.parent, "*");
  if (ts.isFunctionDeclaration(node)) return { k: "function", node, env: scopeOf(it, node, env), self: undefined };
  if (ts.isClassDeclaration(node)) return classOf(it, node, scopeOf(it, node, env));
  if (ts.isEnumDeclaration(node)) return enumOf(it, node);
  if (ts.isParameter(node)) return parameter(node);
  const variable = variableOf(node);
  if (variable === undefined) return derived([], symbol.name);
  if (isModuleLevel(variable)) {
    declareModuleVariable(it, variable);
    return it.moduleEnv(file).get(symbol) ?? derived([], symbol.name);
  }
  return localVariable(it, variable, symbol, env);
}

/** A variable that is read although its function is not being read: seen in dead code only. */
function localVariable(it: Interpreter, variable: ts.VariableDeclaration, symbol: ts.Symbol, env: Env): Val {
  if (variable.initializer === undefined || it.running.includes(variable)) return derived([], symbol.name);
  it.running.push(variable);
  const value = evaluate(it, variable.initializer, env);
  it.running.pop();
  bindPattern(it, variable.name, value, env);
  return env.get(symbol) ?? derived([value], symbol.name);
}

const scopeOf = (it: Interpreter, node: ts.Node, env: Env): Env =>
  node.parent.kind === ts.SyntaxKind.SourceFile ? it.moduleEnv(node.getSourceFile().fileName) : env;

const classes = new WeakMap<Env, Map<ts.Node, Val>>();

export function classOf(_it: Interpreter, node: ts.ClassLikeDeclaration, env: Env): Val {
  let known = classes.get(env);
  if (known === undefined) classes.set(env, (known = new Map()));
  let value = known.get(node);
  if (value === undefined) known.set(node, (value = { k: "class", node, env }));
  return value;
}

/** A parameter nothing is known about; by its name or type it may be Convex's context. */
export function parameter(node: ts.ParameterDeclaration): Val {
  const name = ts.isIdentifier(node.name) ? node.name.text : "";
  const type = node.type?.getText() ?? "";
  if (/^_?ctx$/.test(name) || /\b(Query|Mutation|Action)Ctx\b/.test(type)) return CTX;
  return name === "args" ? ARGS : derived([], name);
}

export function enumOf(it: Interpreter, node: ts.EnumDeclaration): Val {
  const value = object();
  let next = 0;
  for (const member of node.members) {
    const name = ts.isIdentifier(member.name) || ts.isStringLiteral(member.name) ? member.name.text : undefined;
    if (name === undefined) continue;
    const given = member.initializer && evaluate(it, member.initializer, it.moduleEnv(node.getSourceFile().fileName));
    value.props.set(name, given ?? constant(next));
    next = (given?.k === "const" && typeof given.value === "number" ? given.value : next) + 1;
  }
  return value;
}

function variableOf(node: ts.Node): ts.VariableDeclaration | undefined {
  let at: ts.Node = node;
  while (ts.isBindingElement(at) || ts.isObjectBindingPattern(at) || ts.isArrayBindingPattern(at)) at = at.parent;
  return ts.isVariableDeclaration(at) ? at : undefined;
}

/** Declared by a statement at module level, possibly inside a block of it; the variable of a loop is not. */
export function isModuleLevel(variable: ts.VariableDeclaration): boolean {
  if (!ts.isVariableStatement(variable.parent.parent)) return false;
  for (let at = variable.parent as ts.Node | undefined; at !== undefined; at = at.parent as ts.Node | undefined) {
    if (ts.isFunctionLike(at) || ts.isClassStaticBlockDeclaration(at)) return false;
  }
  return true;
}

/** Reads a module-level variable once; whoever mentions it touches all that its making touched. */
export function declareModuleVariable(it: Interpreter, variable: ts.VariableDeclaration): void {
  const known = it.remembered.get(variable);
  if (known !== undefined) return it.touch(known.frame);
  if (it.running.includes(variable)) return;
  const env = it.moduleEnv(variable.getSourceFile().fileName);
  it.running.push(variable);
  const { value, frame } = it.framed(() => {
    const options = variable.initializer === undefined ? [] : [evaluate(it, variable.initializer, env)];
    const symbol = ts.isIdentifier(variable.name) ? symbolAt(it, variable.name) : undefined;
    for (const later of (symbol && it.assigned.get(symbol)) ?? []) options.push(evaluate(it, later, env));
    const whole = options.length === 0 ? derived([], variable.name.getText()) : union(options);
    bindPattern(it, variable.name, whole, env);
    for (const statement of it.attached.get(variable) ?? []) execute(it, statement, env);
    return whole;
  });
  it.running.pop();
  it.remembered.set(variable, { value, frame, env });
}

function imported(it: Interpreter, from: string, node: ts.Node, name: string): Val {
  const specifier = ts.isImportDeclaration(node) ? specifierOf(node.moduleSpecifier) : undefined;
  return specifier === undefined ? derived([], name) : fromModule(it, from, specifier, name);
}

/** What `name` of a module means; `*` is the module itself. */
export function fromModule(it: Interpreter, from: string, specifier: string, name: string): Val {
  const target = resolveModule(it.project.files, from, specifier);
  if (!("file" in target)) return outside(target, name);
  return name === "*" ? { k: "namespace", file: target.file } : (exported(it, target.file, name) ?? derived([], name));
}
