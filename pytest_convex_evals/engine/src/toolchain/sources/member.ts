/** What `value.name` is. */
import ts from "typescript";
import type { Env } from "./env.js";
import { Env as Scope } from "./env.js";
import { evaluate } from "./evaluate.js";
import { exported } from "./exports.js";
import type { Interpreter } from "./interpreter.js";
import { invoke } from "./invoke.js";
import { knownConstant } from "./known.js";
import { constant, derived, union, UNDEFINED, type Cls, type Fn, type LocalInstance, type Val } from "./values.js";

export function member(it: Interpreter, value: Val, name: string): Val {
  switch (value.k) {
    case "object": {
      const getter = value.getters.get(name);
      if (getter !== undefined) return invoke(it, { ...getter, self: value }, []);
      const found = value.props.get(name);
      if (found !== undefined) return found.k === "function" && found.self === undefined ? method(found, value) : found;
      return value.open ? derived([...value.rest], name) : UNDEFINED;
    }
    case "array":
      if (/^\d+$/.test(name)) return value.items[Number(name)] ?? (value.open ? derived([value]) : UNDEFINED);
      return name === "length" && !value.open ? constant(value.items.length) : { k: "member", of: value, name };
    case "namespace":
      return exported(it, value.file, name) ?? UNDEFINED;
    case "union":
      return union(value.options.filter((o) => o.k !== "const" || o.value != null).map((o) => member(it, o, name)));
    case "local":
      return ofInstance(it, value, name);
    case "class":
      return ofClass(it, value, name);
    case "root":
      if (value.name !== "*") return { k: "member", of: value, name };
      return knownConstant(value.module, name) ?? { ...value, name };
    case "const":
      if (typeof value.value === "string" && name === "length") return constant(value.value.length);
      return value.value == null ? derived([], name) : { k: "member", of: value, name };
    default:
      return { k: "member", of: value, name };
  }
}

/** A method written with `function` or as a method sees its object as `this`; an arrow does not. */
const method = (fn: Fn, self: Val): Val => (ts.isArrowFunction(fn.node) ? fn : { ...fn, self });

const named = (one: ts.ClassElement, name: string): boolean =>
  one.name !== undefined &&
  (ts.isIdentifier(one.name) || ts.isStringLiteral(one.name) || ts.isPrivateIdentifier(one.name)) &&
  one.name.text === name;

const isStatic = (one: ts.ClassElement): boolean =>
  ts.canHaveModifiers(one) && (ts.getModifiers(one)?.some((m) => m.kind === ts.SyntaxKind.StaticKeyword) ?? false);

const isOverload = (one: ts.ClassElement): boolean => ts.isMethodDeclaration(one) && one.body === undefined;

function ofInstance(it: Interpreter, value: LocalInstance, name: string): Val {
  const field = value.fields.get(name);
  const own = value.cls.node.members.find((one) => !isStatic(one) && named(one, name) && !isOverload(one));
  if (own !== undefined && (ts.isMethodDeclaration(own) || ts.isGetAccessor(own))) {
    const fn: Fn = { k: "function", node: own, env: value.cls.env, self: value };
    return ts.isGetAccessor(own) ? invoke(it, fn, []) : fn;
  }
  if (field !== undefined) return field;
  if (value.base === undefined) return derived([...value.args], name);
  const inherited = member(it, value.base, name);
  return inherited.k === "function" ? { ...inherited, self: value } : inherited;
}

function ofClass(it: Interpreter, value: Cls, name: string): Val {
  const own = value.node.members.find((one) => isStatic(one) && named(one, name) && !isOverload(one));
  if (own !== undefined && ts.isPropertyDeclaration(own)) return staticField(it, value, own);
  if (own !== undefined && (ts.isMethodDeclaration(own) || ts.isGetAccessor(own))) {
    const fn: Fn = { k: "function", node: own, env: value.env, self: value };
    return ts.isGetAccessor(own) ? invoke(it, fn, []) : fn;
  }
  const base = baseOf(it, value);
  return base === undefined ? derived([], name) : member(it, base, name);
}

function staticField(it: Interpreter, cls: Cls, own: ts.PropertyDeclaration): Val {
  const known = it.remembered.get(own);
  if (known !== undefined) {
    it.touch(known.frame);
    return known.value;
  }
  if (own.initializer === undefined || it.running.includes(own)) return derived([], own.name.getText());
  const initializer = own.initializer;
  it.running.push(own);
  const { value, frame } = it.framed(() => evaluate(it, initializer, new Scope(cls.env.file, cls.env, cls)));
  it.running.pop();
  it.remembered.set(own, { value, frame, env: undefined });
  return value;
}

/** What a class of the submission extends. */
export function baseOf(it: Interpreter, cls: Cls): Val | undefined {
  const clause = cls.node.heritageClauses?.find((one) => one.token === ts.SyntaxKind.ExtendsKeyword);
  const expression = clause?.types[0]?.expression;
  if (expression === undefined || it.running.includes(cls.node)) return undefined;
  it.running.push(cls.node);
  try {
    return evaluate(it, expression, cls.env as Env);
  } finally {
    it.running.pop();
  }
}
