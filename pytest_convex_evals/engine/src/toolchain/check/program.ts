/** Programs over submissions: files of packages and libraries are parsed once, the submission's own without switches. */
import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import ts from "typescript";

import { compilerOptions } from "./config.js";

/** What the checker remembers of a comment that would switch it off. */
interface Switches {
  commentDirectives?: unknown;
  checkJsDirective?: unknown;
}

export interface CheckedProject {
  program: ts.Program;
  /** Absolute paths of the submission's own files. */
  own: readonly string[];
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
  return { program: ts.createProgram({ rootNames: own, options, host }), own };
}

function isOwn(name: string, root: string): boolean {
  return name.startsWith(root + sep) && !name.includes(`${sep}node_modules${sep}`);
}

function withoutSwitches(file: ts.SourceFile | undefined): ts.SourceFile | undefined {
  if (file === undefined) return undefined;
  const switches = file as ts.SourceFile & Switches;
  delete switches.commentDirectives;
  delete switches.checkJsDirective;
  return file;
}
