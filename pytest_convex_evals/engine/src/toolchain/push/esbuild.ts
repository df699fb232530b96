/**
 * The esbuild of a package set, as the CLI sees it: builds happen in the folder of the push, and the service, which lives for many
 * pushes, writes its complaints where they can be read back.
 */
import childProcess from "node:child_process";
import { ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync, readSync, fstatSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import type { BuildFailure, BuildOptions, BuildResult, Plugin, PluginBuild } from "esbuild";

import { Contexts } from "./contexts.js";
import { load } from "./loader.js";
import { Memo } from "./memo.js";
import { readOutside, toldOutside } from "./reads.js";
import type { Stage } from "./stage.js";
import { Unfit } from "./unfit.js";

/** The service collects garbage seldom: a quarter less work for some 70 MB. */
const GOGC = "400";
/** Reads of files hold up others of its threads; with as many as there are processors it waits for itself. */
const GOMAXPROCS = String(2 * availableParallelism());

type Esbuild = typeof import("esbuild");

/** Loads esbuild for one CLI; what the service prints gets its place among what the CLI prints. `folder` is for replicas of projects. */
export function loadEsbuild(real: NodeJS.Require, stage: Stage, folder: string | undefined): Partial<Esbuild> {
  const script = real.resolve("esbuild");
  const log = openNameless();
  const memo = new Memo();
  const spawn = (command: string, args: string[], options: childProcess.SpawnOptions): childProcess.ChildProcess =>
    childProcess.spawn(command, args, { ...options, cwd: "/", stdio: ["pipe", "pipe", log], env: { GOGC, GOMAXPROCS } });
  const esbuild = load(script, readFileSync(script, "utf8"), {
    globals: {},
    modules: { child_process: () => ({ ...childProcess, spawn }) },
  }) as Esbuild;
  const contexts = new Contexts(esbuild, folder);
  const build = async (options: BuildOptions): Promise<BuildResult> => {
    // esbuild remembers the folder in which it was loaded.
    const here = { absWorkingDir: process.cwd(), ...options, plugins: (options.plugins ?? []).map(asked) };
    // The CLI does not get at such a file where it is caged, and messages would show what stands in it.
    const outside = (): Promise<BuildResult> => stage.give(new Unfit("outside", "the sources name a file outside the project"));
    try {
      const result = await memo.build(here, here.absWorkingDir, (set) => contexts.build(here, here.absWorkingDir, set));
      return readOutside(result, here.absWorkingDir) || toldOutside(result, here.absWorkingDir) ? await outside() : result;
    } catch (error) {
      const { errors, warnings } = error as Partial<BuildFailure>;
      // The CLI would take the end of its bundler for a mistake in the sources.
      if (errors === undefined) return await stage.give<BuildResult>(new Unfit("defect", `the bundler broke: ${String(error)}`));
      if (toldOutside({ errors, warnings: warnings ?? [] }, here.absWorkingDir)) await outside();
      throw error;
    } finally {
      stage.say(drain(log));
    }
  };
  return { ...esbuild, build: build as Esbuild["build"] };
}

/**
 * A plugin of the CLI, asked only about what it looks at: the one for packages outside the bundle passes on all relative imports, and a
 * question to it costs more than the answer.
 */
function asked(plugin: Plugin): Plugin {
  if (plugin.name !== "convex-node-externals") return plugin;
  const setup = (build: PluginBuild): ReturnType<Plugin["setup"]> => {
    const onResolve: PluginBuild["onResolve"] = (options, callback) =>
      build.onResolve(options.filter.source === ".*" ? { ...options, filter: /^[^.]/ } : options, callback);
    return plugin.setup({ ...build, onResolve });
  };
  return { ...plugin, setup };
}

/** A file that vanishes with its last user; whoever writes appends. */
function openNameless(): number {
  const folder = mkdtempSync(join(tmpdir(), "convex-evals-"));
  try {
    return openSync(join(folder, "log"), "a+");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function drain(log: number): string {
  const { size } = fstatSync(log);
  if (size === 0) return "";
  const bytes = Buffer.alloc(size);
  const length = readSync(log, bytes, 0, size, 0);
  ftruncateSync(log, 0);
  return bytes.toString("utf8", 0, length);
}
