/**
 * The ESLint config of a suite, in the place of ours.
 *
 * It is code of the suite, and trusted as such. What it imports is looked for where it lies, then among our packages. Whatever it says
 * about types is answered from the program of the type check, and comments switch nothing off.
 */
import type { Linter } from "eslint";
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";

/** A config that cannot be used, in words for the owner of the suite. */
export class UnusableConfig extends Error {}

const configs = new Map<string, Promise<Linter.Config[]>>();
const folders = new Set<string>();

registerHooks({
  resolve(specifier, context, next) {
    try {
      return next(specifier, context);
    } catch (error) {
      const isTheirs = [...folders].some((folder) => context.parentURL?.startsWith(folder));
      if (!isTheirs || (error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
      return next(specifier, { ...context, parentURL: import.meta.url });
    }
  },
});

export function suiteConfig(path: string): Promise<Linter.Config[]> {
  let loaded = configs.get(path);
  if (loaded === undefined) {
    loaded = load(path);
    configs.set(path, loaded);
  }
  return loaded;
}

async function load(path: string): Promise<Linter.Config[]> {
  const url = pathToFileURL(path).href;
  folders.add(new URL(".", url).href);
  let config: unknown;
  try {
    config = await ((await import(url)) as { default?: unknown }).default;
  } catch (error) {
    throw new UnusableConfig(`${path} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`);
  }
  const list: unknown[] = Array.isArray(config) ? config.flat(Infinity) : [config];
  if (!list.every((entry) => typeof entry === "object" && entry !== null)) throw new UnusableConfig(`${path} has no config as its default export`);
  return list as Linter.Config[];
}
