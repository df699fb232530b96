/**
 * React, bundled once for all submissions with the same packages: it is most of every page, and printing it again takes longer than
 * everything else about a bundle. The page's own script asks for it file by file.
 *
 * Only CommonJS is shared. What such a file exports is known when it has run, so that a script beside it is bundled as one around it is.
 */
import { statSync } from "node:fs";
import { join, sep } from "node:path";
import type { Plugin } from "esbuild";

import { PACKAGES } from "./entry.js";
import { onlyInside, withoutAssets, type Submission } from "./guard.js";
import { settings } from "./settings.js";

const SHARED = ["react", "react-dom", "scheduler"];
const FILES = new RegExp(String.raw`[\\/]node_modules[\\/](${SHARED.join("|")})[\\/]`);
/** Scripts that are kept. */
const MOST_KEPT = 4;

interface Kept {
  script: Uint8Array;
  /** Every file that it was made of, and how the file looked. */
  files: ReadonlyMap<string, string>;
}

/** The files below the folder of packages that belong to what is shared. */
function isShared(folder: string, path: string): boolean {
  return SHARED.some((name) => path.startsWith(join(folder, "node_modules", name) + sep));
}

/** In the place of each shared file that is imported: what the other script has of it. `asked` learns which they are. */
export function askForShared(folder: string, asked: () => Set<string> | undefined): Plugin {
  return {
    name: "ask-for-shared",
    setup(build) {
      build.onLoad({ filter: FILES, namespace: "file" }, ({ path }) => {
        const files = asked();
        if (files === undefined || !isShared(folder, path)) return undefined;
        files.add(path);
        return { contents: `module.exports = ${PACKAGES}[${JSON.stringify(path)}]();`, loader: "js" };
      });
    },
  };
}

export class SharedScripts {
  private readonly kept = new Map<string, Kept>();

  /** The script that has these files; nothing when they cannot be shared, and belong into the script that imports them. */
  async script(folder: string, asked: ReadonlySet<string>, submission: Submission): Promise<Uint8Array | undefined> {
    const paths = [...asked].sort();
    const key = JSON.stringify([folder, paths]);
    const known = this.kept.get(key);
    this.kept.delete(key);
    const fit = known !== undefined && isAsItWas(known) ? known : await make(folder, paths, submission);
    if (fit === undefined) return undefined;
    this.kept.set(key, fit);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= MOST_KEPT) break;
      this.kept.delete(oldest);
    }
    return fit.script;
  }
}

async function make(folder: string, paths: readonly string[], submission: Submission): Promise<Kept | undefined> {
  const entries = paths.map((path) => `${JSON.stringify(path)}: () => require(${JSON.stringify(path)}),`);
  const contents = `globalThis.${PACKAGES} = {\n${entries.join("\n")}\n};\n`;
  try {
    const { build } = await import("esbuild");
    const { outputFiles, metafile } = await build({
      ...settings(folder),
      stdin: { contents, resolveDir: folder, loader: "js" },
      plugins: [withoutAssets, onlyInside(() => submission)],
      metafile: true,
    });
    const inputs = Object.entries(metafile.inputs).map(([name, { format }]) => ({ path: join(folder, name), format }));
    const isCommon = paths.every((path) => inputs.some((input) => input.path === path && input.format === "cjs"));
    const [script] = outputFiles;
    if (!isCommon || script === undefined) return undefined;
    const read = inputs.filter(({ path }) => !path.endsWith("<stdin>"));
    return { script: script.contents, files: new Map(read.map(({ path }) => [path, look(path)])) };
  } catch {
    // Whatever is wrong is said when the files are bundled where they are imported.
    return undefined;
  }
}

const isAsItWas = ({ files }: Kept): boolean => [...files].every(([path, looked]) => look(path) === looked);

function look(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`;
}
