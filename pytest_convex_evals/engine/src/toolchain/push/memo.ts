/**
 * Builds that need not be made again.
 *
 * A build is decided by its options, by the packages, which never change, by the layout of the project and by the contents of the files
 * that it read. Schemas and definitions of components are often the same in many submissions, and some builds read nothing of the
 * project at all. esbuild names files by their path from the working folder, so an earlier result will do for every project that lies
 * equally far from its packages; what has the folder itself in its name is renamed. Builds for Node are always made: the CLI learns
 * from them which packages stay outside.
 */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import type { BuildOptions, BuildResult, Metafile, OutputFile } from "esbuild";

import { layoutOf } from "./layout.js";
import { filesRead, isInside } from "./reads.js";

interface Remembered {
  key: string;
  folder: string;
  /** Files of the project that were read: path in the project → contents. */
  read: ReadonlyMap<string, Buffer>;
  outputs: { path: string; hash: string; contents: Uint8Array }[];
  metafile: string;
  bytes: number;
}

const MADE_UP_CONFIG = "convex-virtual-config";
const MOST_BYTES = 32 * 1024 * 1024;

export class Memo {
  /** The one used last comes last. */
  private readonly known = new Set<Remembered>();
  private bytes = 0;

  constructor(private readonly mostBytes = MOST_BYTES) {}

  /** The result for these options in this folder, from an earlier build where one will do. */
  async build(options: BuildOptions, folder: string, run: (set: string) => Promise<BuildResult>): Promise<BuildResult> {
    const set = dirname(realpathSync.native(join(folder, "node_modules")));
    const paths = pathsOf(options);
    const isFree = paths !== undefined && isFreeOfProject(paths, options, folder, set);
    const layout = isFree ? "" : layoutOf(folder);
    if (paths === undefined || layout === undefined) return await run(set);
    const key = keyOf(options, folder, set) + layout;
    const found = this.find(key, folder);
    if (found !== undefined) return moved(found, folder);
    const result = await run(set);
    const read = isClean(result) ? contentsRead(result, folder, set) : undefined;
    if (read !== undefined && !(isFree && read.size > 0)) this.keep(key, folder, read, result);
    return result;
  }

  private find(key: string, folder: string): Remembered | undefined {
    for (const one of this.known) {
      if (one.key !== key || ![...one.read].every(([path, contents]) => readFileSync(join(folder, path)).equals(contents))) continue;
      this.known.delete(one);
      this.known.add(one);
      return one;
    }
    return undefined;
  }

  private keep(key: string, folder: string, read: ReadonlyMap<string, Buffer>, result: BuildResult): void {
    const outputs = (result.outputFiles ?? []).map(({ path, hash, contents }) => ({ path, hash, contents }));
    const metafile = JSON.stringify(result.metafile);
    const bytes = [...read.values(), ...outputs.map(({ contents }) => contents)].reduce((sum, { length }) => sum + length, key.length + metafile.length);
    this.known.add({ key, folder, read, outputs, metafile, bytes });
    this.bytes += bytes;
    for (const oldest of this.known) {
      if (this.bytes <= this.mostBytes) break;
      this.known.delete(oldest);
      this.bytes -= oldest.bytes;
    }
  }
}

/** The entry points; undefined for builds that are always made. */
function pathsOf({ entryPoints, platform }: BuildOptions): string[] | undefined {
  if (!Array.isArray(entryPoints) || (platform === "node" && entryPoints.length > 0)) return undefined;
  return entryPoints.map(String);
}

/** Components that are packages, and the empty app config that the CLI makes up. */
function isFreeOfProject(paths: readonly string[], { plugins = [] }: BuildOptions, folder: string, set: string): boolean {
  if (paths.every((path) => isInside(path, set))) return true;
  return paths.length === 1 && plugins.some(({ name }) => name === MADE_UP_CONFIG) && !hasTsconfig(dirname(resolve(folder, paths[0] as string)), folder);
}

function keyOf(options: BuildOptions, folder: string, set: string): string {
  const plugins = (options.plugins ?? []).map(({ name }) => name);
  const told = JSON.stringify([set, relative(folder, set), plugins, { ...options, plugins: undefined, absWorkingDir: undefined }]);
  return told.replaceAll(folder + sep, "");
}

/** A tsconfig may give names of packages another meaning. */
function hasTsconfig(from: string, folder: string): boolean {
  for (let at = from; isInside(at, folder) || at === folder; at = dirname(at)) {
    if (existsSync(join(at, "tsconfig.json")) || existsSync(join(at, "jsconfig.json"))) return true;
  }
  return false;
}

function isClean({ errors, warnings, metafile }: BuildResult): boolean {
  return errors.length === 0 && warnings.length === 0 && metafile !== undefined;
}

/** Undefined when a build read something else than files of the project and its packages. */
function contentsRead(result: BuildResult, folder: string, set: string): Map<string, Buffer> | undefined {
  const own = filesRead(result, folder).filter((path) => !isInside(path, set));
  if (!own.every((path) => isInside(path, folder) && existsSync(path))) return undefined;
  return new Map(own.map((path) => [relative(folder, path), readFileSync(path)]));
}

function moved({ folder, outputs, metafile }: Remembered, to: string): BuildResult {
  const renamed = (text: string): string => text.replaceAll(folder + sep, to + sep);
  const outputFiles = outputs.map(({ path, hash, contents }): OutputFile => {
    const text = renamed(Buffer.from(contents).toString());
    return { path: renamed(path), hash, text, contents: Buffer.from(text) };
  });
  return { errors: [], warnings: [], mangleCache: undefined, metafile: JSON.parse(renamed(metafile)) as Metafile, outputFiles };
}
