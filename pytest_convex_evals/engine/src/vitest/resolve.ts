/**
 * Where graders find packages, and what may be read for them.
 *
 * A package comes from the suite's own `node_modules` when it is there, else from the toolchain's; `vitest` is always the one that
 * runs. Modules are read by this process, outside the cage, so only those of the suite, its project and of packages are.
 */

import { existsSync, realpathSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const HERE = dirname(fileURLToPath(import.meta.url));
const BARE = /^(?:@[\w.-]+\/)?[\w-][\w.-]*(?:\/.*)?$/;

export interface Places {
  /** Folders whose modules may be read; hidden files in them may not. */
  readonly folders: Set<string>;
  /** Files of packages that were handed out, to be loaded early by the next worker. */
  readonly packages: Set<string>;
}

/** Of the toolchain: bundled into few files where set-up did so. */
function ofToolchain(name: string): string | null {
  const bundled = join(HERE, "node_modules", `${name.replaceAll("/", "+")}.mjs`);
  if (existsSync(bundled)) return bundled;
  try {
    return fileURLToPath(import.meta.resolve(name));
  } catch {
    return null;
  }
}

export function graderModules(places: Places): Plugin {
  const noted = (file: string): string => {
    if (file.includes(`${sep}node_modules${sep}`)) places.packages.add(file);
    return file;
  };
  return {
    name: "grader-modules",
    enforce: "pre",
    async resolveId(id, importer, options) {
      if (!BARE.test(id) || isBuiltin(id)) return null;
      if (id === "vitest" || id.startsWith("vitest/")) return ofToolchain(id);
      const found = await this.resolve(id, importer, { ...options, skipSelf: true });
      if (found !== null) {
        if (!found.external) noted(found.id);
        return found;
      }
      const file = ofToolchain(id);
      return file === null ? null : noted(file);
    },
    load(id) {
      const file = id.replace(/[?#].*$/, "");
      if (!file.startsWith("/") || !existsSync(file)) return null;
      const real = realpathSync(file);
      const isAllowed = [...places.folders].some((folder) => real.startsWith(folder + sep) && !/(^|\/)\./.test(real.slice(folder.length + 1)));
      if (!isAllowed && !real.includes(`${sep}node_modules${sep}`)) this.error(`${file} belongs neither to the suite nor to the submission`);
      return null;
    },
  };
}
