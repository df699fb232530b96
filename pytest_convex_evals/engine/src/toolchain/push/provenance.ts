/**
 * Whose code the CLI of a project is.
 *
 * The CLI runs in this trusted process only when it is the registry's: the packages are those of a set in the package store, which
 * only the package store writes, and npm has checked them against the registry's hashes. A set cannot hold a fork or an alias under
 * the name `convex`, because manifests with such versions are refused; what npm wrote down about the set is asked once more here, for
 * each package whose code is going to run. Neither a copy that another package bundles nor a link counts.
 */
import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, sep } from "node:path";

import { Unfit } from "./unfit.js";

/** A Convex CLI that may run here. */
export interface Cli {
  /** The script. */
  script: string;
  version: string;
  /** Versions of the packages that it loads. */
  companions: string;
}

interface LockEntry {
  version?: unknown;
  integrity?: unknown;
  name?: unknown;
  link?: unknown;
  inBundle?: unknown;
}

const OLDEST_MINOR = 31;
const NEWEST_MINOR = 48;

/** The CLI in a `node_modules` folder of the store; `Unfit` when it must stay outside. */
export function cliOf(modules: string, store: string): Cli {
  if (dirname(dirname(modules)) !== realpathSync(store)) throw new Unfit("package", "the packages are not those of a set in the package store");
  const entries = lockOf(modules);
  const version = registered(entries, "node_modules/convex");
  requireComparedVersion(version);
  const script = join(modules, "convex", "dist", "cli.bundle.cjs");
  const companions = ["esbuild", "prettier"].map((name) => `${name} ${registered(entries, keyOf(name, script, modules))}`);
  return { script, version, companions: companions.join(", ") };
}

function lockOf(modules: string): Record<string, LockEntry | undefined> {
  try {
    const lock = JSON.parse(readFileSync(join(modules, ".package-lock.json"), "utf8")) as { packages?: Record<string, LockEntry> };
    return lock.packages ?? {};
  } catch (error) {
    throw new Unfit("package", `what npm installed is not written down: ${(error as Error).message}`);
  }
}

/** The version of a package that came from the registry under its own name. */
function registered(entries: Record<string, LockEntry | undefined>, key: string): string {
  const entry = entries[key];
  const plain = entry !== undefined && entry.name === undefined && entry.link === undefined && entry.inBundle === undefined;
  if (!plain || typeof entry.version !== "string" || typeof entry.integrity !== "string") {
    throw new Unfit("package", `${key} is not a package of the registry under its own name`);
  }
  return entry.version;
}

function requireComparedVersion(version: string): void {
  const [, minor] = /^1\.(\d+)\.\d+$/.exec(version) ?? [];
  if (minor === undefined || Number(minor) < OLDEST_MINOR || Number(minor) > NEWEST_MINOR) {
    throw new Unfit("version", `convex ${version} is outside 1.${OLDEST_MINOR} to 1.${NEWEST_MINOR}`);
  }
}

/** Where the lock keeps the copy of a package that a script loads. */
function keyOf(name: string, script: string, modules: string): string {
  let found: string;
  try {
    found = realpathSync(createRequire(script).resolve(name));
  } catch {
    throw new Unfit("package", `convex does not find its ${name}`);
  }
  const folder = `${sep}node_modules${sep}${name}${sep}`;
  return relative(dirname(modules), found.slice(0, found.lastIndexOf(folder) + folder.length - 1)).split(sep).join("/");
}
