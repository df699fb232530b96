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
import zlib from "node:zlib";

import { unpacked } from "./brotli.js";
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
const REPORT = "/api/deploy2/report_push_completed";

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
  const packing = lightZlib();
  const functions = load(cli.script, source.replace(LAST_STATEMENT, handOut), {
    globals: { process: stage.process, console: stage.console, fetch: (input: string | URL | Request, init?: RequestInit) => ask(stage, input, init) },
    modules: {
      fs: () => files,
      "node:fs": () => files,
      zlib: () => packing,
      "node:zlib": () => packing,
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

/** What travels over loopback is not worth packing: the bytes stand in the format as they are. */
function lightZlib(): typeof zlib {
  const brotliCompress = (data: string | Buffer, _options: unknown, done: zlib.CompressCallback): void => {
    setImmediate(() => done(null, unpacked(Buffer.from(data as string))));
  };
  return { ...zlib, brotliCompress: brotliCompress as typeof zlib.brotliCompress };
}

/** Requests of the CLI; a backend that is gone ends the push at once, where the CLI would ask again for half a minute. */
async function ask(stage: Stage, input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const url = new URL(input instanceof Request ? input.url : input);
  if (url.origin !== stage.backend) return stage.give(new Unfit("outside", `the CLI asks for ${url.origin}, which is not the backend`));
  // Times that nobody reads; nobody would wait for the answer either.
  if (url.pathname === REPORT) return Response.json(null);
  try {
    // The second one has a fresh connection: an idle one may be closed in the moment in which it is used.
    return await fetch(input, init).catch(() => fetch(input, init));
  } catch (error) {
    return stage.give(new Unfit("unreachable", `${url.pathname} of the backend cannot be reached: ${(error as Error).message}`));
  }
}
