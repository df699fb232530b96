/**
 * Builds that read nothing of a project: components that are packages, and the empty app config that the CLI makes up.
 *
 * Sets of packages never change, so such a build is the same for all projects that use the set and lie equally far from it: esbuild
 * names files by their path from the working folder. What has the folder itself in its name is renamed.
 */
import { existsSync, realpathSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import type { BuildOptions, BuildResult, Message, Metafile, OutputFile } from "esbuild";

interface Remembered {
  folder: string;
  result: BuildResult;
}

const MADE_UP_CONFIG = "convex-virtual-config";
const NOT_FILES = [`${MADE_UP_CONFIG}:`, "async-hooks-shim:", "server-only-stub:", "(disabled):"];
const MOST = 60;

export class Memo {
  private readonly known = new Map<string, Remembered>();

  /** The result for these options in this folder, from an earlier build where one will do. */
  async build(options: BuildOptions, folder: string, run: () => Promise<BuildResult>): Promise<BuildResult> {
    const set = dirname(realpathSync(join(folder, "node_modules")));
    const key = keyOf(options, folder, set);
    if (key === undefined) return await run();
    const found = this.known.get(key);
    if (found !== undefined) return moved(found, folder);
    const result = await run();
    if (isClean(result) && readsOnly(result, folder, set)) {
      if (this.known.size >= MOST) this.known.clear();
      this.known.set(key, { folder, result });
    }
    return result;
  }
}

/** Equal for builds with equal results; undefined when a build reads the project. */
function keyOf(options: BuildOptions, folder: string, set: string): string | undefined {
  const entries = options.entryPoints;
  if (!Array.isArray(entries) || entries.length === 0 || options.platform === "node") return undefined;
  const paths = entries.map(String);
  const plugins = (options.plugins ?? []).map(({ name }) => name);
  const madeUp = paths.length === 1 && plugins.includes(MADE_UP_CONFIG) && !hasTsconfig(dirname(resolve(folder, paths[0] as string)), folder);
  if (!madeUp && !paths.every((path) => isInside(path, set))) return undefined;
  const told = JSON.stringify([relative(folder, set), plugins, { ...options, plugins: undefined, absWorkingDir: undefined }]);
  return told.replaceAll(folder + sep, "");
}

/** A tsconfig may give names of packages another meaning. */
function hasTsconfig(from: string, folder: string): boolean {
  for (let at = from; isInside(at, folder) || at === folder; at = dirname(at)) {
    if (existsSync(join(at, "tsconfig.json")) || existsSync(join(at, "jsconfig.json"))) return true;
  }
  return false;
}

function isInside(path: string, folder: string): boolean {
  return path.startsWith(folder + sep);
}

function isClean({ errors, warnings, metafile }: BuildResult): boolean {
  return errors.length === 0 && warnings.length === 0 && metafile !== undefined;
}

function readsOnly(result: BuildResult, folder: string, set: string): boolean {
  return filesRead(result, folder).every((path) => isInside(path, set));
}

/** A build read a file outside the project and its packages. */
export function readOutside(result: BuildResult, folder: string): boolean {
  return !areInside(filesRead(result, folder), folder);
}

/** A message is about such a file: configs and source maps are read, too, and are not listed among what was built. */
export function toldOutside({ errors, warnings }: { errors: Message[]; warnings: Message[] }, folder: string): boolean {
  const places = [...errors, ...warnings].flatMap((message) => [message.location, ...message.notes.map((note) => note.location)]);
  const files = places.filter((place) => place !== null && ["", "file"].includes(place.namespace)).map((place) => resolve(folder, (place as { file: string }).file));
  return !areInside(files, folder);
}

/** The tsconfig beside the project is ours, and says nothing. */
function areInside(paths: readonly string[], folder: string): boolean {
  const places = [folder, realpathSync(folder), realpathSync(join(folder, "node_modules"))];
  return paths.every((path) => places.some((place) => isInside(path, place)) || path === join(dirname(folder), "tsconfig.json"));
}

function filesRead({ metafile }: BuildResult, folder: string): string[] {
  const names = Object.keys(metafile?.inputs ?? {}).filter((name) => !NOT_FILES.some((prefix) => name.startsWith(prefix)));
  return names.map((name) => resolve(folder, name));
}

function moved({ folder, result }: Remembered, to: string): BuildResult {
  const renamed = (text: string): string => text.replaceAll(folder + sep, to + sep);
  const outputFiles = (result.outputFiles ?? []).map((file): OutputFile => {
    const text = renamed(file.text);
    return { path: renamed(file.path), hash: file.hash, text, contents: Buffer.from(text) };
  });
  const metafile = JSON.parse(renamed(JSON.stringify(result.metafile))) as Metafile;
  return { ...result, metafile, outputFiles };
}
