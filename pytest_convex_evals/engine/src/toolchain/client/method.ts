/** Method `bundleClient`: scripts of a submitted component and all it imports. Nothing of it is evaluated. */
import { realpathSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Message } from "esbuild";

import { compilerOptions } from "../check/config.js";
import { RequestError } from "../request.js";
import { Bundler, workingFolder } from "./bundler.js";
import { entrySource } from "./entry.js";

export interface Bundled {
  /** What is wrong with the submission; empty when the scripts were written. */
  errors: string[];
  /** The files with the scripts, in the order they run in. */
  scripts: string[];
}

interface BundleParams {
  project: string;
  toolchain: string;
  entry: string;
  exportName: string;
  out: string;
}

const MOST = 20;
const bundler = new Bundler();

function read(params: unknown): BundleParams {
  const { project, toolchain, entry, exportName, out } = (params ?? {}) as Record<string, unknown>;
  const given = [project, toolchain, entry, exportName, out];
  if (!given.every((value) => typeof value === "string")) {
    throw new RequestError("bad_request", "project, toolchain, entry, exportName and out are needed");
  }
  return { project, toolchain, entry, exportName, out } as BundleParams;
}

/** Bundle `entry` of the project into files whose names begin with `out`. */
export async function bundleClient(params: unknown): Promise<Bundled> {
  const { project, toolchain, entry, exportName, out } = read(params);
  const root = realpathSync(project);
  const { paths = {}, baseUrl, jsxImportSource } = compilerOptions(root, toolchain);
  try {
    const source = entrySource(entry, exportName);
    const { shared, own } = await bundler.bundle({ root, paths, base: baseUrl ?? root, entry: source, jsxImportSource });
    const scripts: string[] = [];
    for (const [name, script] of [[`${out}.shared.js`, shared], [`${out}.js`, own]] as const) {
      if (script === undefined) continue;
      writeFileSync(name, script);
      scripts.push(name);
    }
    return { errors: [], scripts };
  } catch (error) {
    const { errors } = error as { errors?: Message[] };
    if (!Array.isArray(errors) || errors.length === 0) throw error;
    return { errors: errors.slice(0, MOST).map((message) => described(message, root)), scripts: [] };
  }
}

function described({ text, location }: Message, root: string): string {
  if (location === null || location.namespace === "entry") return text;
  const file = relative(root, join(workingFolder(root), location.file));
  return file.startsWith("..") ? text : `${file}:${location.line}:${location.column + 1} ${text}`;
}
