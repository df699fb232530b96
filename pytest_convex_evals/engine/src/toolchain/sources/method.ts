/**
 * The method `sources`: facts about a submission, found by reading it.
 *
 * 1. Parse every file (project). 2. Look over them once (survey). 3. Read each module, then each registered function
 * from its handler on (entries), following calls with the values they are given. 4. Read what nothing reached, so that
 * dead code is listed as such. 5. Work out from where each use is reached, through function references too (reach).
 */
import ts from "typescript";
import { RequestError } from "../request.js";
import { componentFacts, cronFacts, functionEntries, modulePath, routes, type Entry } from "./entries.js";
import { Env } from "./env.js";
import { evaluate } from "./evaluate.js";
import { execute } from "./execute.js";
import { Interpreter } from "./interpreter.js";
import { importsOf } from "./modules.js";
import { openProject } from "./project.js";
import { reach, returnsOf, useFacts } from "./reach.js";
import { survey } from "./survey.js";

export function sources(params: unknown): unknown {
  const it = new Interpreter(openProject(filesIn(params)));
  it.root(() => survey(it));
  for (const file of it.project.files.values()) {
    it.root(() => file.statements.forEach((statement) => execute(it, statement, it.moduleEnv(file.fileName))));
  }
  const functions = functionEntries(it);
  const crons = cronFacts(it);
  const routed = routes(it);
  const components = componentFacts(it);
  const entries = [...functions, ...crons.map(cronEntry), ...routed.map((one) => one.entry)];
  readTheRest(it);
  const reached = reach(entries);
  const returns = returnsOf(it, entries);
  return {
    files: Object.fromEntries(
      [...it.project.states].map(([path, state]) => [
        path,
        {
          ...state,
          imports: importsIn(it, path),
          functions: functions.some((one) => one.id.startsWith(`${modulePath(it, path)}:`)),
        },
      ]),
    ),
    functions: functions.map((one) => ({
      ...one.fact,
      returns: returns.get(one.id) ?? [],
      reaches: reached.functions.get(one.id) ?? [],
    })),
    crons,
    routes: routed.map((one) => one.fact),
    components,
    uses: useFacts(it, reached),
    dependencies: it.project.dependencies,
    truncated: it.truncated,
  };
}

function filesIn(params: unknown): Map<string, string> {
  const files = typeof params === "object" && params !== null ? (params as { files?: unknown }).files : undefined;
  if (typeof files !== "object" || files === null)
    throw new RequestError("bad_request", "params.files must map paths to texts");
  const found = new Map<string, string>();
  for (const [path, text] of Object.entries(files)) {
    if (typeof text !== "string") throw new RequestError("bad_request", `the text of ${path} is not a string`);
    found.set(path, text);
  }
  return found;
}

function importsIn(it: Interpreter, path: string): unknown[] {
  const file = it.project.files.get(path);
  return file === undefined ? [] : importsOf(file, it.project.files);
}

function cronEntry(cron: { name: unknown; target: string | null }): Entry {
  const refs = new Set(cron.target === null ? [] : [cron.target]);
  return {
    id: `cron:${String(cron.name)}`,
    live: true,
    frame: { uses: new Set(), refs },
    returns: new Set(),
    fact: undefined,
  };
}

/** Calls that no reading came by: code that never runs. They are listed, and reached from nowhere. */
function readTheRest(it: Interpreter): void {
  for (const file of it.project.files.values()) {
    const todo: ts.Node[] = [file];
    for (let node = todo.pop(); node !== undefined; node = todo.pop()) {
      const site = node;
      if ((ts.isCallExpression(site) || ts.isNewExpression(site)) && !it.visited.has(site)) {
        it.root(() => void evaluate(it, site, new Env(file.fileName, it.moduleEnv(file.fileName))));
      }
      ts.forEachChild(node, (child) => void todo.push(child));
    }
  }
}
