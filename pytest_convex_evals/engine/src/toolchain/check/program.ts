/** Programs over submissions: files of packages and libraries are parsed once, the submission's own without switches. */
import { existsSync, realpathSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import ts from "typescript";

import { compilerOptions } from "./config.js";

/** What the checker remembers of a comment that would switch it off, or take the library away. */
interface Switches {
  commentDirectives?: unknown;
  checkJsDirective?: unknown;
  hasNoDefaultLib?: boolean;
}

export interface CheckedProject {
  program: ts.Program;
  /** Absolute paths of the submission's own files. */
  own: readonly string[];
  /** Whether a file came with the submission, or was generated for it. */
  isOwn(file: ts.SourceFile): boolean;
}

const shared = new Map<string, ts.SourceFile>();

/** A program over the TypeScript files of a submission. */
export function createProject(project: string, toolchain: string, files: readonly string[]): CheckedProject {
  const root = realpathSync(project);
  const options = compilerOptions(root, toolchain);
  const own = files.filter((path) => /\.[cm]?tsx?$/.test(path)).map((path) => join(root, path));
  const host = ts.createCompilerHost(options, true);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, version, onError, fresh) => {
    if (isOwn(name, root)) return withoutSwitches(read(name, version, onError, fresh));
    const key = `${name}\0${typeof version === "object" ? String(version.impliedNodeFormat) : String(version)}`;
    let file = shared.get(key);
    if (file === undefined) {
      file = read(name, version, onError, fresh);
      if (file !== undefined) shared.set(key, file);
    }
    return file;
  };
  host.getCurrentDirectory = () => root;
  keepInside(host, [root, join(root, "node_modules"), toolchain]);
  rememberPackages(host, root);
  rememberImports(host, root, options);
  return { program: ts.createProgram({ rootNames: own, options, host }), own, isOwn: (file) => isOwn(file.fileName, root) };
}

/** Files of the machine are not there: messages about types would tell what stands in them. */
function keepInside(host: ts.CompilerHost, places: readonly string[]): void {
  const real = places.filter((place) => existsSync(place)).map((place) => realpathSync(place));
  const isInside = (path: string): boolean => [...places, ...real].some((place) => path.startsWith(place + sep) || path === place);
  const { getSourceFile, fileExists, readFile, directoryExists, getDirectories } = host;
  host.getSourceFile = (name, ...rest) => (isInside(resolve(name)) ? getSourceFile(name, ...rest) : undefined);
  host.fileExists = (path) => isInside(resolve(path)) && fileExists(path);
  host.readFile = (path) => (isInside(resolve(path)) ? readFile(path) : undefined);
  host.directoryExists = (path) => isInside(resolve(path)) && (directoryExists?.(path) ?? true);
  host.getDirectories = (path) => (isInside(resolve(path)) ? (getDirectories?.(path) ?? []) : []);
}

type Looks = Pick<ts.CompilerHost, "fileExists" | "directoryExists" | "realpath" | "readFile">;

/** What was found in package folders, which never change; a look at the disk is a tenth of a type check. */
const looked: { [name in keyof Looks]-?: Map<string, unknown> } = {
  fileExists: new Map(),
  directoryExists: new Map(),
  realpath: new Map(),
  readFile: new Map(),
};

function rememberPackages(host: ts.CompilerHost, root: string): void {
  const linked = join(root, "node_modules") + sep;
  const packages = existsSync(linked) ? realpathSync(linked) + sep : linked;
  for (const name of Object.keys(looked) as (keyof Looks)[]) {
    const look = host[name]?.bind(host) as ((path: string) => unknown) | undefined;
    if (look === undefined) continue;
    const known = looked[name];
    const remembered = (path: string): unknown => {
      const place = path.startsWith(linked) ? packages + path.slice(linked.length) : path;
      if (!place.includes(`${sep}node_modules${sep}`)) return look(path);
      if (!known.has(place)) known.set(place, look(place));
      return known.get(place);
    };
    Object.assign(host, { [name]: remembered });
  }
}

const imported = new Map<string, readonly ts.ResolvedModuleWithFailedLookupLocations[]>();

/** What the files of packages import is always the same, unless the project maps names. */
function rememberImports(host: ts.CompilerHost, root: string, options: ts.CompilerOptions): void {
  if (options.paths !== undefined) return;
  const cache = ts.createModuleResolutionCache(root, (name) => host.getCanonicalFileName(name), options);
  host.getModuleResolutionCache = () => cache;
  host.resolveModuleNameLiterals = (literals, from, redirected, given, file) => {
    const known = imported.get(from);
    if (known?.length === literals.length) return known;
    const found = literals.map((literal) =>
      ts.resolveModuleName(literal.text, from, given, host, cache, redirected, ts.getModeForUsageLocation(file, literal, given)),
    );
    if (!isOwn(from, root)) imported.set(from, found);
    return found;
  };
}

function isOwn(name: string, root: string): boolean {
  return name.startsWith(root + sep) && !name.includes(`${sep}node_modules${sep}`);
}

function withoutSwitches(file: ts.SourceFile | undefined): ts.SourceFile | undefined {
  if (file === undefined) return undefined;
  const switches = file as ts.SourceFile & Switches;
  delete switches.commentDirectives;
  delete switches.checkJsDirective;
  switches.hasNoDefaultLib = false;
  return file;
}
