/** Writing down that something from outside the submission is used, with what, and what becomes of the result. */
import type ts from "typescript";
import { encode } from "./encode.js";
import type { Interpreter, Use } from "./interpreter.js";
import { functionReference, instanceBehind, originOf } from "./origin.js";
import { lineOf } from "./project.js";
import { ingredients, usesIn, type Val } from "./values.js";

const MAX_USES = 20_000;

/** Records a use of `target` and gives its number; undefined when nothing outside the submission is used. */
export function recordUse(
  it: Interpreter,
  kind: Use["kind"],
  target: Val,
  args: Val[],
  node: ts.Node,
): number | undefined {
  const refs = referencesIn(args);
  const origin = originOf(target);
  if (origin?.source !== "global" || origin.export !== "console") for (const path of refs) it.touchFunction(path);
  if (origin === undefined || origin.source === "args" || it.uses.length >= MAX_USES) return undefined;
  if (kind === "reference" && (origin.source !== "package" || origin.member.includes("("))) return undefined;
  for (const arg of args) it.step(ingredients(arg).size >> 2);
  const encoded = args.map((arg) => encode(arg));
  const receiver = encodeReceiver(target);
  const file = node.getSourceFile();
  const key = JSON.stringify([file.fileName, node.pos, kind, origin, encoded, receiver]);
  let use = it.useKeys.get(key);
  if (use === undefined) {
    use = {
      id: it.uses.length,
      kind,
      origin,
      args: encoded,
      receiver,
      node,
      file: file.fileName,
      refs,
      flows: new Set(),
    };
    it.uses.push(use);
    it.useKeys.set(key, use);
  }
  it.touchUse(use.id);
  return use.id;
}

function encodeReceiver(target: Val): Use["receiver"] {
  const instance = instanceBehind(target);
  const origin = instance && originOf(instance.callee);
  if (instance === undefined || origin === undefined) return null;
  const file = instance.node.getSourceFile();
  return {
    module: origin.module,
    package: origin.package,
    export: origin.export,
    args: instance.args.map((arg) => encode(arg)),
    file: file.fileName,
    line: lineOf(file, instance.node.getStart(file)),
  };
}

function referencesIn(values: Val[]): string[] {
  const found = new Set<string>();
  for (const value of values) {
    for (const part of ingredients(value)) {
      const path = part.k === "member" || part.k === "result" ? functionReference(part) : undefined;
      if (path !== undefined) found.add(path);
    }
  }
  return [...found];
}

/** Notes that the results inside a value decide something: a condition, an error, another call. */
export function sink(it: Interpreter, value: Val, where: "condition" | "throw" | "argument"): void {
  const found = usesIn(value);
  it.step(ingredients(value).size >> 3);
  for (const id of found) it.uses[id]!.flows.add(where);
}
