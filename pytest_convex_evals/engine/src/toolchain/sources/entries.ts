/** From where code runs: registered functions, cron jobs, HTTP routes; and which components are installed. */
import ts from "typescript";
import { handlerOf } from "./call.js";
import { encode, type Json } from "./encode.js";
import { exported, exportNames } from "./exports.js";
import type { Frame, Interpreter, Setting } from "./interpreter.js";
import { invoke } from "./invoke.js";
import { knownMaker, packageOf } from "./known.js";
import { functionReference, originOf } from "./origin.js";
import { lineOf } from "./project.js";
import { ARGS, CTX, usesIn, type FunctionKind, type Registration, type Val } from "./values.js";

export interface FunctionFact {
  path: string;
  file: string;
  line: number;
  kind: FunctionKind;
  visibility: "public" | "internal" | "unknown";
  wrapped: boolean;
  /** Names of the declared arguments; null when they are not known. */
  args: string[] | null;
}

export interface Entry {
  id: string;
  live: boolean;
  frame: Frame;
  returns: Set<number>;
  fact: FunctionFact | undefined;
}

/** Every exported Convex function, read from its handler on. */
export function functionEntries(it: Interpreter): Entry[] {
  const entries: Entry[] = [];
  for (const path of it.project.files.keys()) {
    const module = modulePath(it, path);
    if (module === undefined) continue;
    for (const name of exportNames(it, path)) {
      const entry = functionEntry(it, path, `${module}:${name}`, name);
      if (entry !== undefined) entries.push(entry);
    }
  }
  return entries;
}

/** The path by which Convex knows a file; files with a second dot in their name are no modules. */
export function modulePath(it: Interpreter, path: string): string | undefined {
  const root = it.project.functionsDir;
  const inside = path.startsWith(root) ? path.slice(root.length) : undefined;
  const stem = inside?.replace(/\.[cm]?[jt]sx?$/, "");
  return stem === undefined || stem.includes(".") ? undefined : stem;
}

function functionEntry(it: Interpreter, file: string, id: string, name: string): Entry | undefined {
  let found: Omit<FunctionFact, "path" | "file" | "line"> | undefined;
  let node: ts.Node | undefined;
  const returns = new Set<number>();
  const frame = it.root(() => {
    const value = exported(it, file, name);
    const made = value === undefined ? undefined : registrationIn(value);
    if (made === undefined) return;
    node = made.node;
    found = { kind: made.kind, visibility: made.visibility, wrapped: made.wrapped, args: argumentNames(made.options) };
    const handler = handlerOf(made.options);
    if (handler !== undefined) for (const use of usesIn(invoke(it, handler, [CTX, ARGS]))) returns.add(use);
  });
  if (found === undefined || node === undefined) return undefined;
  const at = node.getSourceFile();
  const fact = { ...found, path: id, file: at.fileName, line: lineOf(at, node.getStart(at)) };
  return { id, live: fact.visibility !== "internal", frame, returns, fact };
}

function registrationIn(value: Val): Registration | undefined {
  if (value.k === "registration") return value;
  if (value.k === "union") return value.options.map(registrationIn).find((one) => one !== undefined);
  if (value.k !== "result" && value.k !== "member") return undefined;
  const origin = originOf(value);
  const known = origin?.source === "package" ? knownMaker(origin.package, origin.member) : undefined;
  if (known === undefined) return undefined;
  const call = value.k === "result" ? value : value.of;
  if (call.k !== "result") return undefined;
  return { k: "registration", ...known, wrapped: true, options: call.args[0], builder: call.callee, node: call.node };
}

function argumentNames(options: Val | undefined): string[] | null {
  if (options?.k !== "object") return null;
  let args = options.props.get("args");
  if (args?.k === "result") args = args.args[0];
  return args?.k === "object" && !args.open ? [...args.props.keys()] : null;
}

const settingsOf = (it: Interpreter, file: string, maker: string): Setting[] => {
  const home = [...it.project.files.keys()].find((path) => modulePathOrConfig(it, path) === file);
  let on: Val | undefined;
  if (home !== undefined) it.root(() => void (on = exported(it, home, "default")));
  return it.settings.filter((one) => originOf(one.on.callee)?.export === maker && one.on === on);
};

function modulePathOrConfig(it: Interpreter, path: string): string | undefined {
  return path.startsWith(it.project.functionsDir)
    ? path.slice(it.project.functionsDir.length).replace(/\.[cm]?[jt]sx?$/, "")
    : undefined;
}

const place = (one: Setting): { file: string; line: number } => {
  const file = one.node.getSourceFile();
  return { file: file.fileName, line: lineOf(file, one.node.getStart(file)) };
};

export interface CronFact {
  name: Json;
  method: string;
  schedule: Json;
  target: string | null;
  args: Json;
  file: string;
  line: number;
}

export function cronFacts(it: Interpreter): CronFact[] {
  return settingsOf(it, "crons", "cronJobs").map((one) => {
    const [name, schedule, target, args] = one.args;
    return {
      name: name ? encode(name) : null,
      method: one.method,
      schedule: schedule ? encode(schedule) : null,
      target: (target && functionReference(target)) ?? null,
      args: args ? encode(args) : null,
      ...place(one),
    };
  });
}

export interface RouteFact {
  method: Json;
  path: Json;
  prefix: Json;
  file: string;
  line: number;
}

/** The HTTP routes, each with what its handler touches. */
export function routes(it: Interpreter): { fact: RouteFact; entry: Entry }[] {
  return settingsOf(it, "http", "httpRouter")
    .filter((one) => one.method === "route")
    .map((one) => {
      const given = one.args[0];
      const part = (name: string): Json => {
        const value = given?.k === "object" ? given.props.get(name) : undefined;
        return value === undefined ? null : encode(value);
      };
      const fact: RouteFact = { method: part("method"), path: part("path"), prefix: part("pathPrefix"), ...place(one) };
      const frame = it.root(() => {
        const value = given?.k === "object" ? given.props.get("handler") : undefined;
        const handler = value?.k === "registration" ? handlerOf(value.options) : undefined;
        if (handler !== undefined) invoke(it, handler, [CTX, ARGS]);
      });
      const where = fact.path ?? (typeof fact.prefix === "string" ? `${fact.prefix}*` : "?");
      return {
        fact,
        entry: {
          id: `http:${String(fact.method)} ${String(where)}`,
          live: true,
          frame,
          returns: new Set<number>(),
          fact: undefined,
        },
      };
    });
}

export interface ComponentFact {
  module: string;
  package: string;
  name: string | null;
  file: string;
  line: number;
}

/** What `app.use(…)` installs when convex.config exports the app; a component of the submission has no package. */
export function componentFacts(it: Interpreter): ComponentFact[] {
  return settingsOf(it, "convex.config", "defineApp")
    .filter((one) => one.method === "use")
    .flatMap((one) => {
      const [what, options] = one.args;
      const origin = what && originOf(what);
      if (what === undefined || origin?.source !== "package") return [];
      const local =
        origin.module === "convex/server" && what.k === "result" ? what.node.getSourceFile().fileName : undefined;
      const module = local ?? origin.module;
      const given = options?.k === "object" ? options.props.get("name") : undefined;
      const names =
        given === undefined
          ? [null]
          : (given.k === "union" ? given.options : [given]).map((name) =>
              name.k === "const" ? String(name.value) : "?",
            );
      return names.map((name) => ({
        module,
        package: local === undefined ? packageOf(module) : "",
        name,
        ...place(one),
      }));
    });
}
