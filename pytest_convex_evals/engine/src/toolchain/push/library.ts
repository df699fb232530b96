/**
 * The CLI of a `convex` package as a library.
 *
 * Bundling, checks, generated files and messages differ from version to version of `convex`, so they are not written again here: the
 * script of the CLI that the project has is loaded once and asked to push, instead of being started for each project. The script is
 * one file with its functions at the top level; its last statement, which would read the command line, is replaced by one that hands
 * out the functions that are needed. A script that is built otherwise is `Unfit`. Like the CLI, they parse submitted code and never
 * evaluate it.
 */
import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";

import { toBackend } from "./backend.js";
import { loadEsbuild } from "./esbuild.js";
import { filesOfProject } from "./files.js";
import { load } from "./loader.js";
import { loadPrettier } from "./prettier.js";
import { cliOf, type Cli } from "./provenance.js";
import { Stage } from "./stage.js";
import { Unfit } from "./unfit.js";

/** What is used of the CLI, under its own names. */
interface Functions {
  runPush: (context: unknown, options: Record<string, unknown>) => Promise<void>;
  WatchContext: new (traceEvents: boolean, auth: null, isFirstPush: boolean) => unknown;
  Crash: new () => Error & { errorType?: unknown };
  readProjectConfig: (context: unknown) => Promise<unknown>;
  showSpinner: (message: string) => void;
  stopSpinner: () => void;
  warnedUnknownKeys: Set<string>;
}

export interface Library {
  functions: Functions;
  stage: Stage;
}

const NAMES = ["runPush", "WatchContext", "Crash", "readProjectConfig", "showSpinner", "stopSpinner", "warnedUnknownKeys"];
const LAST_STATEMENT = /^void main\d*\(\);$/gm;
/** A folder of this process, for replicas of projects. */
const FOLDER = process.argv[3];

const bySet = new Map<string, Library>();
const byContent = new Map<string, Library>();

/** The library for a project; the same for all projects whose packages have the same CLI. */
export function libraryOf(project: string, store: string): Library {
  const modules = realpathSync(join(project, "node_modules"));
  const known = bySet.get(modules);
  if (known !== undefined) return known;
  const cli = cliOf(modules, store);
  const source = readFileSync(cli.script, "utf8");
  const content = `${createHash("sha256").update(source).digest("hex")} ${cli.companions}`;
  const library = byContent.get(content) ?? create(cli, source);
  byContent.set(content, library);
  bySet.set(modules, library);
  return library;
}

function create(cli: Cli, source: string): Library {
  let esbuild: ReturnType<typeof loadEsbuild> | undefined;
  const found = source.match(LAST_STATEMENT) ?? [];
  if (found.length !== 1) throw new Unfit("library", `the CLI of convex ${cli.version} does not end as expected`);
  const handOut = `module.exports = { ${NAMES.map((name) => `${name}: typeof ${name} === "undefined" ? undefined : ${name}`).join(", ")} };`;
  const stage = new Stage();
  const files = filesOfProject();
  const backend = toBackend(stage);
  const functions = load(cli.script, source.replace(LAST_STATEMENT, handOut), {
    globals: { process: stage.process, console: stage.console, fetch: backend.fetch },
    modules: {
      fs: () => files,
      "node:fs": () => files,
      zlib: () => backend.zlib,
      "node:zlib": () => backend.zlib,
      process: () => stage.process,
      "node:process": () => stage.process,
      esbuild: (real) => (esbuild ??= loadEsbuild(real, stage, FOLDER && realpathSync(FOLDER))),
      prettier: loadPrettier,
    },
  }) as Functions;
  const missing = NAMES.filter((name) => functions[name as keyof Functions] === undefined);
  if (missing.length > 0) throw new Unfit("library", `the CLI of convex ${cli.version} has no ${missing.join(", ")}`);
  return { functions, stage };
}
