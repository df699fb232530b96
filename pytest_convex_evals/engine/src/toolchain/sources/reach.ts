/** From which functions, cron jobs and routes each use is really reached. */
import ts from "typescript";
import type { Entry } from "./entries.js";
import type { Interpreter } from "./interpreter.js";
import { lineOf } from "./project.js";

export interface Reached {
  uses: Map<number, string[]>;
  live: Set<number>;
  functions: Map<string, string[]>;
}

/** Follows function references from entry to entry: run, scheduled, enqueued or passed on as a callback. */
export function reach(entries: Entry[]): Reached {
  const byPath = new Map(entries.map((entry) => [entry.id, entry]));
  const reached: Reached = { uses: new Map(), live: new Set(), functions: new Map() };
  for (const entry of entries) {
    const seen = new Set([entry]);
    for (const next of seen) {
      for (const path of next.frame.refs) {
        const target = byPath.get(path);
        if (target !== undefined) seen.add(target);
      }
    }
    const uses = new Set([...seen].flatMap((one) => [...one.frame.uses]));
    for (const use of uses) {
      reached.uses.set(use, [...(reached.uses.get(use) ?? []), entry.id]);
      if (entry.live) reached.live.add(use);
    }
    reached.functions.set(
      entry.id,
      [...seen].filter((one) => one !== entry).map((one) => one.id),
    );
  }
  return reached;
}

/** The uses whose results go into what each function returns, also through `ctx.runQuery` and its like. */
export function returnsOf(it: Interpreter, entries: Entry[]): Map<string, number[]> {
  const byPath = new Map(entries.map((entry) => [entry.id, entry]));
  const found = new Map<string, number[]>();
  for (const entry of entries) {
    const uses = new Set(entry.returns);
    for (const id of uses) {
      const use = it.uses[id]!;
      if (use.origin.source !== "ctx" || !/^run(Query|Mutation|Action)$/.test(use.origin.member)) continue;
      for (const path of use.refs) for (const inner of byPath.get(path)?.returns ?? []) uses.add(inner);
    }
    found.set(entry.id, [...uses]);
  }
  return found;
}

/** All uses; a reading of a living place that reached nothing is only a shadow of the others and left out. */
export function useFacts(it: Interpreter, reached: Reached): unknown[] {
  const alive = new Set<ts.Node>();
  for (const use of it.uses) if (reached.uses.has(use.id)) alive.add(use.node);
  return it.uses
    .filter((use) => reached.uses.has(use.id) || !alive.has(use.node))
    .map((use) => {
      const file = use.node.getSourceFile();
      return {
        id: use.id,
        kind: use.kind,
        ...use.origin,
        args: use.args,
        receiver: use.receiver,
        file: use.file,
        line: lineOf(file, use.node.getStart(file)),
        function: functionAround(use.node),
        reached_from: reached.uses.get(use.id) ?? [],
        live: reached.live.has(use.id),
        flows: [...use.flows].sort(),
      };
    });
}

/** The name of the function, method or exported constant that a node stands in; null at module level. */
function functionAround(node: ts.Node): string | null {
  let inside = false;
  for (let at = node.parent as ts.Node | undefined; at !== undefined; at = at.parent as ts.Node | undefined) {
    if (ts.isFunctionLike(at)) {
      inside = true;
      const name = "name" in at ? at.name : undefined;
      if (
        name !== undefined &&
        (ts.isFunctionDeclaration(at) || (ts.isMethodDeclaration(at) && ts.isClassLike(at.parent)))
      )
        return (name as ts.Node).getText();
    }
    if (inside && ts.isVariableDeclaration(at) && ts.isIdentifier(at.name)) return at.name.text;
  }
  return inside ? "(anonymous)" : null;
}
