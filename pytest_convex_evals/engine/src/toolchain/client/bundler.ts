/**
 * Builds that share what esbuild knows of the packages: they are most of every bundle and always the same, and a context of esbuild
 * parses again only files whose content changed. React is not even printed again: it is a script of its own.
 *
 * One context per set of packages and way to write JSX; what belongs to one submission comes from the build that is under way.
 */
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BuildContext, BuildOptions, Plugin } from "esbuild";

import { onlyInside, ownNames, withoutAssets, type Submission } from "./guard.js";
import { settings } from "./settings.js";
import { askForShared, SharedScripts } from "./shared.js";

export interface Wanted extends Submission {
  /** The program to begin with; it imports from the root of the project. */
  entry: string;
  jsxImportSource: string | undefined;
}

/** What a page is made of. */
export interface Scripts {
  /** Runs first; nothing when the page needs none. */
  shared: Uint8Array | undefined;
  own: Uint8Array;
}

const ENTRY = "screen-entry";
/** Builds until a context is given up: it remembers files of every project it has seen. */
const MOST_BUILDS = 50;

/** The folder that names in messages are relative to: that of the packages, or the project when it has none. */
export function workingFolder(root: string): string {
  try {
    return dirname(realpathSync(join(root, "node_modules")));
  } catch {
    return root;
  }
}

export class Bundler {
  private readonly shared = new SharedScripts();
  private current: Wanted | undefined;
  /** Shared files that the build under way asked for; nothing while it shares none. */
  private asked: Set<string> | undefined;
  private key = "";
  private builds = 0;
  private context: BuildContext | undefined;
  private last: Promise<unknown> = Promise.resolve();

  /** The scripts; one build at a time, because all of them share a context. */
  bundle(wanted: Wanted): Promise<Scripts> {
    const made = this.last.then(() => this.both(wanted));
    this.last = made.catch(() => undefined);
    return made;
  }

  private async both(wanted: Wanted): Promise<Scripts> {
    const asked = (this.asked = new Set());
    const own = await this.build(wanted);
    if (asked.size === 0) return { shared: undefined, own };
    const shared = await this.shared.script(workingFolder(wanted.root), asked, wanted);
    if (shared !== undefined) return { shared, own };
    this.asked = undefined;
    return { shared: undefined, own: await this.build(wanted) };
  }

  private async build(wanted: Wanted): Promise<Uint8Array> {
    const folder = workingFolder(wanted.root);
    const key = JSON.stringify([folder, wanted.jsxImportSource]);
    if (key !== this.key || ++this.builds > MOST_BUILDS) {
      // Not waited for: the process behind it may be the one that is gone.
      void this.context?.dispose().catch(() => undefined);
      this.context = undefined;
      this.key = key;
      this.builds = 1;
    }
    this.current = wanted;
    try {
      this.context ??= await (await import("esbuild")).context(this.options(folder, wanted.jsxImportSource));
      const { outputFiles = [] } = await this.context.rebuild();
      const [script] = outputFiles;
      if (script === undefined) throw new Error("esbuild made no script");
      return script.contents;
    } catch (error) {
      // Only mistakes of a submission leave a context that can be trusted.
      if (!Array.isArray((error as { errors?: unknown }).errors)) this.key = "";
      throw error;
    } finally {
      this.current = undefined;
    }
  }

  private options(folder: string, jsxImportSource: string | undefined): BuildOptions {
    const now = (): Wanted => {
      if (this.current === undefined) throw new Error("no build is under way");
      return this.current;
    };
    return {
      ...settings(folder),
      entryPoints: [ENTRY],
      outfile: "screen.js",
      ...(jsxImportSource === undefined ? {} : { jsxImportSource }),
      plugins: [entryOf(now), withoutAssets, ownNames(now), askForShared(folder, () => this.asked), onlyInside(now)],
    };
  }
}

function entryOf(now: () => Wanted): Plugin {
  return {
    name: "entry",
    setup(build) {
      build.onResolve({ filter: new RegExp(`^${ENTRY}$`) }, ({ kind }) =>
        kind === "entry-point" ? { path: ENTRY, namespace: "entry" } : undefined,
      );
      build.onLoad({ filter: /.*/, namespace: "entry" }, () => ({ contents: now().entry, resolveDir: now().root, loader: "js" }));
    },
  };
}
