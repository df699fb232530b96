/**
 * Files as the CLI sees them: it writes into the project and beside it, never into the packages that projects share, wherever the sources
 * say that their functions or components are.
 */
import fs from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

import { SCRATCH } from "./stage.js";
import { Unfit } from "./unfit.js";

/** One call of the system, where the other one makes one for each folder on the way. */
const realpath = fs.realpathSync.native;

type Call = (...values: unknown[]) => unknown;

/** Functions that change what their first path names, and those that change the second one, too. */
const CHANGE = ["writeFile", "appendFile", "mkdir", "mkdtemp", "rm", "rmdir", "unlink", "truncate", "chmod", "utimes", "rename", "copyFile", "cp", "link", "symlink", "createWriteStream"];
const SECOND = new Set(["rename", "copyFile", "cp", "link", "symlink"]);
const WRITES = /[wax+]/;

/** The file functions, for the project in the working folder. Generated files need not survive a power cut. */
export function filesOfProject(): typeof fs {
  const guarded: Record<string, unknown> = { ...fs, fsyncSync: () => undefined };
  for (const name of CHANGE) {
    for (const form of [name, `${name}Sync`]) {
      const real = (fs as unknown as Record<string, Call | undefined>)[form];
      if (real !== undefined) guarded[form] = checked(real, SECOND.has(name));
    }
  }
  guarded["openSync"] = (path: fs.PathLike, flags: fs.OpenMode = "r", mode?: fs.Mode | null): number => {
    if (typeof flags === "number" || WRITES.test(flags)) requireOwn(path);
    return fs.openSync(path, flags, mode);
  };
  const promised = Object.entries(fs.promises as unknown as Record<string, unknown>);
  guarded["promises"] = Object.fromEntries(promised.map(([name, real]) => [name, CHANGE.includes(name) ? checked(real as Call, SECOND.has(name)) : real]));
  return guarded as unknown as typeof fs;
}

function checked(real: Call, second: boolean): Call {
  return (first, next, ...rest) => {
    requireOwn(first);
    if (second) requireOwn(next);
    return real(first, next, ...rest);
  };
}

/** Links are followed: a project reaches its packages through one. */
function requireOwn(path: unknown): void {
  const place = placeOf(resolve(String(path)));
  if (!ownFolders().some((folder) => place === folder || place.startsWith(folder + sep))) {
    throw new Unfit("outside", "the sources let the CLI write outside the project");
  }
}

let latest: { folder: string; own: string[] } | undefined;

/** The project and the folder for temporary files; a push never replaces them. */
function ownFolders(): string[] {
  const folder = process.cwd();
  if (latest?.folder !== folder) latest = { folder, own: [folder, SCRATCH].map((path) => realpath(path)) };
  return latest.own;
}

/** The real path of something that need not be there yet. */
function placeOf(path: string): string {
  try {
    return realpath(path);
  } catch {
    return dirname(path) === path ? path : join(placeOf(dirname(path)), basename(path));
  }
}
