/**
 * Processes that a grader starts do not run in its cage: what they run is often the submission's own, a test suite for example. Each
 * gets a cage of its own, which is started outside; in here stands a process that passes its streams on.
 */

import childProcess, { ChildProcess, type SpawnSyncOptions } from "node:child_process";
import { syncBuiltinESMExports } from "node:module";

import type { Wanted } from "../shared/lines.js";

interface SpawnOptions {
  file: string;
  args: string[];
  cwd?: string | URL;
  envPairs?: string[];
}

type Environment = Record<string, string | undefined>;

/** `client`: the script that stands for a process; `socket`: where it asks for one. */
export function startOutside(client: string, socket: string): void {
  const standIn = (wanted: Wanted): string[] => ["--no-warnings", client, socket, JSON.stringify(wanted)];
  const cwdOf = (cwd: string | URL | undefined): string => (cwd instanceof URL ? cwd.pathname : (cwd ?? process.cwd()));
  const envOf = (env: Environment | undefined): Record<string, string> =>
    Object.fromEntries(Object.entries(env ?? process.env).filter((entry): entry is [string, string] => typeof entry[1] === "string"));

  const prototype = ChildProcess.prototype as unknown as { spawn(options: SpawnOptions): number };
  const spawn = prototype.spawn;
  prototype.spawn = function (options) {
    const env = Object.fromEntries((options.envPairs ?? []).map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
    const wanted: Wanted = { file: options.file, args: options.args.slice(1), cwd: cwdOf(options.cwd), env };
    return spawn.call(this, { ...options, cwd: "/", file: process.execPath, args: [process.execPath, ...standIn(wanted)] });
  };

  const { spawnSync, execFileSync } = childProcess;
  const outside = (file: string, args: readonly string[], options: SpawnSyncOptions): [string, string[], SpawnSyncOptions] => {
    const line = typeof options.shell === "string" ? options.shell : "/bin/sh";
    const [program, given] = options.shell ? [line, ["-c", [file, ...args].join(" ")]] : [file, [...args]];
    const wanted: Wanted = { file: program, args: given, cwd: cwdOf(options.cwd), env: envOf(options.env) };
    return [process.execPath, standIn(wanted), { ...options, cwd: "/", shell: false }];
  };
  const split = (args: unknown, options: unknown): [readonly string[], SpawnSyncOptions] =>
    Array.isArray(args) ? [args as string[], (options ?? {}) as SpawnSyncOptions] : [[], (args ?? {}) as SpawnSyncOptions];
  Object.assign(childProcess, {
    spawnSync: (file: string, args?: unknown, options?: unknown) => spawnSync(...outside(file, ...split(args, options))),
    execFileSync: (file: string, args?: unknown, options?: unknown) => execFileSync(...outside(file, ...split(args, options))),
    execSync: (line: string, options: SpawnSyncOptions = {}) => execFileSync(...outside("/bin/sh", ["-c", line], options)),
  });
  syncBuiltinESMExports();
}
