/** Reading the body of a function of the submission as if it were called with these values. */
import ts from "typescript";
import { bindParameters } from "./bind.js";
import { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import { executeBody } from "./execute.js";
import type { Interpreter } from "./interpreter.js";
import { baseOf } from "./member.js";
import { parameter } from "./names.js";
import { recordUse } from "./record.js";
import { ARGS, derived, union, UNDEFINED, type Cls, type Fn, type LocalInstance, type Val } from "./values.js";

/** The value a call gives; the reading is remembered, so that the same call is read once. */
export function invoke(it: Interpreter, fn: Fn, args: readonly Val[], open = false): Val {
  const key = [
    fn.node.getSourceFile().fileName,
    fn.node.pos,
    envId(fn.env),
    fn.self ? it.idOf(fn.self) : "",
    open,
    ...args.map((a) => it.idOf(a)),
  ].join("|");
  const known = it.invocations.get(key);
  if (known !== undefined) {
    it.touch(known.frame);
    return known.value;
  }
  if (!it.mayEnter(fn.node)) return derived([...args]);
  const { value, frame } = it.framed(() => it.enter(fn.node, () => run(it, fn, args, open)));
  if (value.complete) it.invocations.set(key, { value: value.value, frame });
  return value.value;
}

const envIds = new WeakMap<Env, number>();
let nextEnv = 0;

function envId(env: Env): number {
  let id = envIds.get(env);
  if (id === undefined) envIds.set(env, (id = nextEnv++));
  return id;
}

function run(it: Interpreter, fn: Fn, args: readonly Val[], open: boolean): Val {
  const node = fn.node;
  it.visited.add(node);
  const env = new Env(fn.env.file, fn.env, fn.self);
  if (!ts.isClassStaticBlockDeclaration(node)) bindParameters(it, node, args, open, env);
  const body = node.body;
  if (body === undefined) return UNDEFINED;
  if (!ts.isBlock(body)) return evaluate(it, body, env);
  const returned: Val[] = [];
  executeBody(it, body, env, returned);
  return returned.length === 0 ? UNDEFINED : union(returned);
}

/** Reads a function that someone else will call: its parameters are made of what it was given along with. */
export function callBack(it: Interpreter, fn: Fn, context: readonly Val[]): Val {
  const node = fn.node;
  if (ts.isClassStaticBlockDeclaration(node)) return UNDEFINED;
  const args = node.parameters.map((one, index) => {
    const known = parameter(one);
    if (known.k === "root") return known;
    // customFunctions: `input: async (ctx, { user }) => …` sees the arguments of the Convex function.
    if (index === 1 && propertyName(node) === "input") return ARGS;
    return context.length === 0 ? known : derived([...context]);
  });
  return invoke(it, fn, args);
}

function propertyName(node: ts.Node): string | undefined {
  const holder = ts.isMethodDeclaration(node) ? node : node.parent;
  return ts.isMethodDeclaration(holder) || ts.isPropertyAssignment(holder) ? holder.name.getText() : undefined;
}

/** `new` on a class of the submission: fields, constructor, and what it extends. */
export function construct(it: Interpreter, cls: Cls, args: Val[], node: ts.Node): Val {
  const made: LocalInstance = { k: "local", cls, args, fields: new Map(), base: undefined };
  if (it.mayEnter(cls.node)) it.enter(cls.node, () => initialise(it, made, node));
  return made;
}

function initialise(it: Interpreter, made: LocalInstance, node: ts.Node): void {
  const { cls, args } = made;
  const constructor = cls.node.members.find(
    (one): one is ts.ConstructorDeclaration => ts.isConstructorDeclaration(one) && one.body !== undefined,
  );
  if (constructor === undefined) made.base = constructBase(it, made, args, node);
  const scope = new Env(cls.env.file, cls.env, made);
  if (constructor !== undefined) bindParameters(it, constructor, args, false, scope);
  for (const one of cls.node.members) {
    if (!ts.isPropertyDeclaration(one) || one.initializer === undefined) continue;
    if (ts.isIdentifier(one.name) || ts.isPrivateIdentifier(one.name))
      made.fields.set(one.name.text, evaluate(it, one.initializer, scope));
  }
  for (const one of constructor?.parameters ?? []) {
    if (!ts.isParameterPropertyDeclaration(one, constructor!) || !ts.isIdentifier(one.name)) continue;
    made.fields.set(one.name.text, evaluate(it, one.name, scope));
  }
  if (constructor?.body !== undefined) {
    it.visited.add(constructor);
    executeBody(it, constructor.body, scope, []);
  }
}

/** What the base class makes of the arguments: another instance, ours or a package's. */
export function constructBase(it: Interpreter, made: LocalInstance, args: Val[], node: ts.Node): Val | undefined {
  const base = baseOf(it, made.cls);
  if (base === undefined) return undefined;
  if (base.k === "class") return construct(it, base, args, node);
  return { k: "instance", callee: base, args, node, use: recordUse(it, "new", base, args, node) };
}
