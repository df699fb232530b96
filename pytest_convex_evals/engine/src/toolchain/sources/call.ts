/** What a call or a `new` gives, and what it sets in motion. */
import ts from "typescript";
import { absorb } from "./assign.js";
import { encode, snippet } from "./encode.js";
import type { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import type { Interpreter } from "./interpreter.js";
import { callBack, construct, constructBase, invoke } from "./invoke.js";
import { list } from "./literals.js";
import { fromModule } from "./names.js";
import { originOf } from "./origin.js";
import { recordUse, sink } from "./record.js";
import { register } from "./registration.js";
import { constant, derived, union, UNDEFINED, type Fn, type Val } from "./values.js";

const FILLING = new Set(["push", "unshift", "set", "add", "append"]);
const EACH = new Set(["map", "forEach", "filter", "flatMap", "some", "every", "find", "findIndex"]);
const SETTINGS = new Set(["cronJobs", "httpRouter", "defineApp", "defineComponent"]);

export function call(it: Interpreter, node: ts.CallExpression, env: Env): Val {
  it.visited.add(node);
  if (node.expression.kind === ts.SyntaxKind.ImportKeyword) return dynamicImport(it, node, env);
  const callee = evaluate(it, node.expression, env);
  const { values: args, open } = list(it, node.arguments, env);
  if (node.expression.kind === ts.SyntaxKind.SuperKeyword) {
    if (env.self?.k === "local") env.self.base = constructBase(it, env.self, args, node);
    return UNDEFINED;
  }
  const access = ts.isPropertyAccessExpression(node.expression) ? node.expression : undefined;
  if (access !== undefined && FILLING.has(access.name.text)) absorb(it, access.expression, args, env);
  return apply(it, callee, args, open, node);
}

export function apply(it: Interpreter, callee: Val, args: Val[], open: boolean, node: ts.Node): Val {
  if (callee.k === "union") return union(callee.options.map((one) => apply(it, one, args, open, node)));
  if (callee.k === "function") return invoke(it, callee, args, open);
  if (callee.k === "registration") return callHandler(it, callee.options, args);
  const registered = register(callee, args, node);
  if (registered !== undefined) return registered;
  return builtIn(it, callee, args, node) ?? useOutside(it, callee, args, node);
}

export function handlerOf(options: Val | undefined): Fn | undefined {
  if (options?.k === "union") return options.options.map(handlerOf).find((one) => one !== undefined);
  const handler = options?.k === "object" ? options.props.get("handler") : options;
  if (handler?.k === "union") return handlerOf(handler);
  return handler?.k === "function" ? handler : undefined;
}

function callHandler(it: Interpreter, options: Val | undefined, args: Val[]): Val {
  const handler = handlerOf(options);
  return handler === undefined ? derived(args) : invoke(it, handler, args);
}

/** A call that leaves the submission: recorded, and the functions given to it are taken to be called. */
function useOutside(it: Interpreter, callee: Val, args: Val[], node: ts.Node): Val {
  const use = recordUse(it, "call", callee, args, node);
  for (const arg of args) sink(it, arg, "argument");
  setting(it, callee, args, node);
  const plain = args.filter((arg) => arg.k !== "function");
  const around = callee.k === "member" ? [callee.of, ...plain] : plain;
  const returned = functionsIn(args).map((fn) => callBack(it, fn, around));
  return { k: "result", callee, args: [...args, ...returned], node, use };
}

/** The functions inside a value that are handed over with it. */
function functionsIn(values: readonly Val[]): Fn[] {
  const seen = new Set<Val>(values);
  for (const value of seen) {
    if (seen.size > 2_000) break;
    const inside =
      value.k === "object"
        ? value.props.values()
        : value.k === "array"
          ? value.items
          : value.k === "union"
            ? value.options
            : [];
    for (const one of inside) seen.add(one);
  }
  return [...seen].filter((one) => one.k === "function");
}

function setting(it: Interpreter, callee: Val, args: Val[], node: ts.Node): void {
  if (callee.k !== "member" || callee.of.k !== "result") return;
  const maker = originOf(callee.of.callee);
  if (maker?.module !== "convex/server" || !SETTINGS.has(maker.export)) return;
  const written = JSON.stringify(args.map((arg) => encode(arg)));
  if (it.settings.some((one) => one.node === node && one.written === written)) return;
  it.settings.push({ on: callee.of, method: callee.name, args, written, node });
}

/** The built-in functions through which values pass unchanged or piece by piece. */
function builtIn(it: Interpreter, callee: Val, args: Val[], node: ts.Node): Val | undefined {
  if (callee.k === "root" && callee.source === "global") {
    if (callee.name === "structuredClone") return args[0];
    if (callee.name === "require" && args[0]?.k === "const")
      return fromModule(it, node.getSourceFile().fileName, String(args[0].value), "*");
    if (callee.name === "Number" && args[0]?.k === "const") return constant(Number(args[0].value));
  }
  if (callee.k !== "member") return undefined;
  const { of, name } = callee;
  if (of.k === "root" && of.source === "global") {
    if (of.name === "Promise" && (name === "all" || name === "resolve" || name === "allSettled"))
      return args[0] ?? UNDEFINED;
    if (of.name === "Promise" && (name === "race" || name === "any"))
      return args[0]?.k === "array" ? union(args[0].items) : args[0];
    return of.name === "Object" ? ofObject(name, args[0]) : undefined;
  }
  if (of.k === "function") {
    if (name === "bind") return of;
    if (name === "call") return invoke(it, of, args.slice(1));
    if (name === "apply") return invoke(it, of, args[1]?.k === "array" ? args[1].items : [], true);
  }
  return chained(it, of, name, args, node);
}

/** `Object.values(x)` and its like, where x is known. */
function ofObject(name: string, value: Val | undefined): Val | undefined {
  if (name === "freeze" || name === "seal") return value;
  if (value?.k !== "object" || value.open || value.getters.size > 0) return undefined;
  if (name === "values") return { k: "array", items: [...value.props.values()], open: false };
  if (name !== "entries") return undefined;
  const pairs = [...value.props].map(([key, part]): Val => ({ k: "array", items: [constant(key), part], open: false }));
  return { k: "array", items: pairs, open: false };
}

/** `.then(f)` on what was awaited, and `.map(f)` on a list. */
function chained(it: Interpreter, of: Val, name: string, args: Val[], node: ts.Node): Val | undefined {
  const fn = args[0];
  if (fn?.k !== "function") return undefined;
  if (name === "then")
    return union([
      invoke(it, fn, [of]),
      ...args.slice(1).flatMap((f) => (f.k === "function" ? [callBack(it, f, [of])] : [])),
    ]);
  if (name === "catch") return union([of, callBack(it, fn, [of])]);
  if (name === "finally") {
    callBack(it, fn, []);
    return of;
  }
  if (of.k === "array" && EACH.has(name)) {
    const item = of.items.length > 0 ? union(of.items) : derived([of]);
    const made = invoke(it, fn, [item, derived([], "index"), of]);
    if (name === "map") return { k: "array", items: [made], open: true };
    return derived([of, made], snippet(node));
  }
  return undefined;
}

function dynamicImport(it: Interpreter, node: ts.CallExpression, env: Env): Val {
  const { values } = list(it, node.arguments, env);
  const specifier = values[0];
  if (specifier?.k !== "const") return derived(values, snippet(node));
  return fromModule(it, env.file, String(specifier.value), "*");
}

export function instantiate(it: Interpreter, node: ts.NewExpression, env: Env): Val {
  it.visited.add(node);
  const callee = evaluate(it, node.expression, env);
  const { values: args } = list(it, node.arguments ?? [], env);
  return make(it, callee, args, node);
}

function make(it: Interpreter, callee: Val, args: Val[], node: ts.Node): Val {
  if (callee.k === "union") return union(callee.options.map((one) => make(it, one, args, node)));
  if (callee.k === "class") return construct(it, callee, args, node);
  const use = recordUse(it, "new", callee, args, node);
  for (const fn of functionsIn(args)) callBack(it, fn, []);
  for (const arg of args) sink(it, arg, "argument");
  return { k: "instance", callee, args, node, use };
}
