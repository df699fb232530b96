/** Loads a CommonJS script with names of our choice in place of its globals and of some modules that it requires. */
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { compileFunction, constants } from "node:vm";

export interface Surroundings {
  /** Global names of the script. */
  globals: Record<string, unknown>;
  /** Modules that it gets instead of the real ones. */
  modules: Record<string, (real: NodeJS.Require) => unknown>;
}

/** What the script exports. */
export function load(script: string, source: string, { globals, modules }: Surroundings): unknown {
  const real = createRequire(script);
  const replaced = (name: string): unknown => (Object.hasOwn(modules, name) ? modules[name]?.(real) : (real(name) as unknown));
  const module = { exports: {} as unknown };
  const run = compileFunction(source, ["exports", "require", "module", "__filename", "__dirname", ...Object.keys(globals)], {
    filename: script,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }) as (...values: unknown[]) => void;
  run.call(module.exports, module.exports, Object.assign(replaced, real), module, script, dirname(script), ...Object.values(globals));
  return module.exports;
}
