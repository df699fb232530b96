/**
 * Files as the CLI sees them: it writes into the project and beside it, never into the packages that projects share, wherever the sources
 * say that their functions or components are.
 */
import fs from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

import { Sheets } from "./sheets.js";
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
  return withSheets(guarded as unknown as typeof fs);
}

/** The same, with temporary files in memory. The CLI only ever writes them and moves them. */
function withSheets(files: typeof fs): typeof fs {
  const sheets = new Sheets();
  return {
    ...files,
    mkdtempSync: ((prefix: string) => (dirname(prefix) === SCRATCH ? sheets.folder(prefix) : files.mkdtempSync(prefix))) as typeof fs.mkdtempSync,
    openSync: (path, flags, mode) => (flags === "w" ? sheets.create(String(path)) : undefined) ?? files.openSync(path, flags, mode),
    writeFileSync: (file, data, options) => {
      if (typeof file !== "number") files.writeFileSync(file, data, options);
      // A file that is open was looked at when it was opened.
      else if (!sheets.write(file, data as string | Uint8Array)) fs.writeFileSync(file, data, options);
    },
    closeSync: (descriptor) => {
      if (!sheets.close(descriptor)) fs.closeSync(descriptor);
    },
    renameSync: (from, to) => {
      const contents = sheets.take(String(from));
      if (contents === undefined) files.renameSync(from, to);
      else files.writeFileSync(to, contents);
    },
    rmSync: (path, options) => {
      if (!sheets.drop(String(path))) files.rmSync(path, options);
    },
  };
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
