/**
 * A copy of the project at hand, and a view of its packages, at a place that stays the same from push to push.
 *
 * A context of esbuild keeps the files that it has parsed only when they have the same names in the next build, and names of files are
 * relative to the project. So project and packages lie here as they lie to each other in truth. The packages are links, except for what
 * builds were seen to read: these files are copies without what costs time and is not looked at. A `type` of a package keeps esbuild
 * from parsing its files only once, and source maps need not bring the sources where the sources are not wanted.
 */
import { copyFileSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";

import { isInside } from "./reads.js";

const PACKAGES = "node_modules";
const MOST_FILES = 500;
const MOST_BYTES = 4 * 1024 * 1024;
/** Comments, spaces and directives. */
const NOTHING = /^(?:\s|\/\/.*|\/\*[^]*?\*\/|"use strict";?)*$/;

export class Replica {
  /** Stands for the folder of the project. */
  readonly project: string;
  /** Stands for the folder of the package set. */
  readonly set: string;
  private readonly real = new Set<string>();
  private readonly files = new Map<string, Buffer>();
  private folders = new Set<string>([""]);
  /** Copies of files in which nothing happens. */
  private readonly empty = new Set<string>();

  /** `way` leads from a project to its package set, which lies elsewhere. */
  constructor(
    readonly root: string,
    way: string,
    private readonly trueSet: string,
    private readonly withSources: boolean,
  ) {
    const parts = way.split(sep);
    const up = parts.filter((part) => part === "..").length;
    this.project = join(root, ...Array.from({ length: up - 1 }, () => "_"), "project");
    this.set = join(root, ...parts.slice(up));
    mkdirSync(this.project, { recursive: true });
    writeFileSync(join(dirname(this.project), "tsconfig.json"), "{}\n");
    mkdirSync(dirname(this.set), { recursive: true });
    symlinkSync(trueSet, this.set);
    symlinkSync(join(this.set, PACKAGES), join(this.project, PACKAGES));
  }

  /** Copies what differs from what is here; false for a project with more than files, or too much of it. */
  take(project: string): boolean {
    const found = contentsOf(project);
    if (found === undefined) return false;
    for (const path of this.files.keys()) {
      if (found.files.has(path)) continue;
      rmSync(join(this.project, path));
      this.files.delete(path);
    }
    for (const path of [...this.folders].filter((name) => !found.folders.has(name)).sort().reverse()) rmSync(join(this.project, path), { recursive: true });
    for (const path of found.folders) if (!this.folders.has(path)) mkdirSync(join(this.project, path), { recursive: true });
    this.folders = found.folders;
    for (const [path, contents] of found.files) {
      if (this.files.get(path)?.equals(contents) === true) continue;
      writeFileSync(join(this.project, path), contents);
      this.files.set(path, contents);
    }
    return true;
  }

  /** Makes copies of files of the true set, which are modules. */
  copy(paths: readonly string[]): void {
    for (const path of paths) {
      const name = relative(this.trueSet, path);
      this.unfold(dirname(name));
      this.put(name, (to) => copyFileSync(path, to));
      if (NOTHING.test(readFileSync(path, "utf8"))) this.empty.add(join(this.set, name));
      if (!this.withSources && existsSync(`${path}.map`)) this.put(`${name}.map`, (to) => writeFileSync(to, withoutSources(readFileSync(`${path}.map`, "utf8"))));
    }
  }

  /** Whether a path is that of a copy in which nothing happens. */
  isEmpty(path: string): boolean {
    return this.empty.has(path);
  }

  /** A folder of links in the place of a link to a folder. */
  private unfold(folder: string): void {
    if (this.real.has(folder)) return;
    if (folder !== ".") this.unfold(dirname(folder));
    this.real.add(folder);
    const here = join(this.set, folder);
    rmSync(here);
    mkdirSync(here);
    for (const name of readdirSync(join(this.trueSet, folder))) symlinkSync(join(this.trueSet, folder, name), join(here, name));
    const manifest = join(folder, "package.json");
    if (!existsSync(join(here, "package.json"))) return;
    const text = readFileSync(join(this.trueSet, manifest), "utf8");
    const without = withoutType(text);
    if (without !== text) this.put(manifest, (to) => writeFileSync(to, without));
  }

  /** A file in the place of a link. */
  private put(name: string, write: (to: string) => void): void {
    const to = join(this.set, name);
    if (!lstatSync(to).isSymbolicLink()) return;
    rmSync(to);
    write(to);
  }

  /** The path that another one stands for. */
  toTruth(path: string, project: string): string {
    return moved(moved(path, this.project, project), this.set, this.trueSet);
  }

  /** What stands for a path. */
  fromTruth(path: string, project: string): string {
    return moved(moved(path, project, this.project), this.trueSet, this.set);
  }
}

function moved(path: string, from: string, to: string): string {
  return path === from || isInside(path, from) ? to + path.slice(from.length) : path;
}

interface Contents {
  files: Map<string, Buffer>;
  folders: Set<string>;
}

function contentsOf(project: string): Contents | undefined {
  const files = new Map<string, Buffer>();
  const folders = new Set<string>();
  let bytes = 0;
  const pending = [""];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    folders.add(folder);
    for (const entry of readdirSync(join(project, folder), { withFileTypes: true })) {
      const name = join(folder, entry.name);
      if (name === PACKAGES) continue;
      if (entry.isDirectory()) pending.push(name);
      else if (entry.isFile()) {
        const contents = readFileSync(join(project, name));
        files.set(name, contents);
        bytes += contents.length;
      } else return undefined;
      if (bytes > MOST_BYTES || files.size + folders.size + pending.length > MOST_FILES) return undefined;
    }
  }
  return { files, folders };
}

/** A manifest that says nothing of the kind of its modules; the same text when it says nothing anyway. */
function withoutType(text: string): string {
  const manifest = recordOf(text);
  if (manifest === undefined || !("type" in manifest)) return text;
  const { type: _, ...others } = manifest;
  return JSON.stringify(others);
}

function withoutSources(text: string): string {
  const map = recordOf(text);
  if (map === undefined || !("sourcesContent" in map)) return text;
  const { sourcesContent: _, ...others } = map;
  return JSON.stringify(others);
}

function recordOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** How one gets from a project to its package set, by names; undefined when one lies in the other. */
export function wayTo(set: string, project: string): string | undefined {
  const way = relative(project, set);
  return way.startsWith(`..${sep}`) && basename(way) !== ".." ? way : undefined;
}
