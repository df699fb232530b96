/** The pushed modules that the runner knows, and their linking into a realm. */

import { AsyncLocalStorage } from "node:async_hooks";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

import { MODULE_SCHEME, PlatformError, type StackMapper } from "./failures.js";
import { compileScript, outlineOf, type ModuleScope, type Outline, type ScriptModule } from "./scripts.js";

interface Stored {
  source: string;
  /** Undefined until it was tried; null when the module must be a real one. */
  script: ScriptModule | null | undefined;
  /** Paths of what the script imports, in its order. */
  dependencies: readonly string[];
}

/** Characters of sources whose outlines are kept. */
const MOST_OUTLINED = 4_000_000;
const COMPONENT_PREFIX = "./_componentDeps/";

export class ModuleStore {
  private readonly modules = new Map<string, Stored>();
  /** By source: what is deployed was analysed a moment ago, under another name. */
  private outlines = new Map<string, Outline | null>();
  private outlined = 0;

  constructor(readonly mapper: StackMapper) {}

  static id(def: string, path: string, node: boolean): string {
    return `${MODULE_SCHEME}${node ? "node:" : ""}${def}|${path}`;
  }

  add(def: string, path: string, node: boolean, source: string): void {
    this.modules.set(ModuleStore.id(def, path, node), { source, script: undefined, dependencies: [] });
  }

  clear(): void {
    this.modules.clear();
    this.mapper.clear();
  }

  get(id: string): Stored | undefined {
    return this.modules.get(id);
  }

  outlineOf(source: string): Outline | null {
    let outline = this.outlines.get(source);
    if (outline === undefined) {
      outline = outlineOf(source);
      this.outlined += source.length;
      if (this.outlined > MOST_OUTLINED) {
        this.outlines = new Map();
        this.outlined = source.length;
      }
      this.outlines.set(source, outline);
    }
    return outline;
  }

  /** What contexts weigh that Node will not free, because a real module was compiled in them: one each, and more for large sources. */
  leaked = 0;
}

const CHARACTERS_PER_WEIGHT = 250_000;

/** The module graph cannot be run as scripts; a fresh realm must run it as modules. */
export class NeedsModules extends Error {}

/** Runs a module. */
export type ModuleFunction = (scope: ModuleScope) => void;

export interface LinkOptions {
  def: string;
  node: boolean;
  /** Undefined evaluates in the process's own realm. */
  context: vm.Context | undefined;
  /** Modules from outside the bundle, such as Node's. */
  external(specifier: string): vm.Module | null;
  /** Names of component definitions, while a config is evaluated. */
  components?: Record<string, string>;
  dynamicImport: "refuse" | "allow";
  /** The functions of modules in this context, by id. */
  functions?: Map<string, ModuleFunction>;
  /** Told when a module may do what the context keeps where nobody sees it. */
  leavesTraces?(): void;
  /** What `import.meta.url` says; null where there is none. */
  moduleUrl: string | null;
  typeError(message: string): Error;
}

export interface RunningRealm {
  /** For `import()` in scripts that several realms share. */
  dynamicImport: ((specifier: string, from: string) => Promise<vm.Module>) | null;
  /** Makes objects of the realm. */
  parseJson: ((text: string) => unknown) | null;
}

/** The realm whose code is running. */
export const currentRealm = new AsyncLocalStorage<RunningRealm>();

function importInCurrentRealm(specifier: string, from: string): Promise<vm.Module> {
  const load = currentRealm.getStore()?.dynamicImport ?? null;
  return load === null ? Promise.reject(new TypeError("dynamic module import unsupported")) : load(specifier, from);
}

function relativeTo(specifier: string, from: string): string {
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}

function pathOfImport(specifier: string, from: string): string {
  if (!specifier.startsWith(".")) throw new PlatformError(`Couldn't find JavaScript module '${specifier}'`);
  return relativeTo(specifier, from);
}

function isComponent(specifier: string, { components }: LinkOptions): boolean {
  return components !== undefined && specifier.startsWith(COMPONENT_PREFIX);
}

/** The path of a module inside its definition. */
function pathOf(id: string): string {
  return id.slice(id.indexOf("|") + 1);
}

async function asModule(namespace: Record<string, unknown>, context: vm.Context): Promise<vm.Module> {
  const names = Object.keys(namespace);
  const module = new vm.SyntheticModule(
    names,
    function (this: vm.SyntheticModule) {
      for (const name of names) this.setExport(name, namespace[name]);
    },
    { context },
  );
  await module.link(() => {
    throw new Error("a synthetic module imports nothing");
  });
  await module.evaluate();
  return module;
}

/** The same function for all calls in a context, so that what the compiler has learned about it stays. */
function functionOf(id: string, script: vm.Script, { context, functions }: LinkOptions): ModuleFunction {
  let made = functions?.get(id);
  if (made === undefined) {
    made = script.runInContext(context as vm.Context) as ModuleFunction;
    functions?.set(id, made);
  }
  return made;
}

/** Runs a bundled module and what it imports as scripts. Throws NeedsModules before user code could tell the difference. */
export function evaluateScripts(store: ModuleStore, path: string, options: LinkOptions): Record<string, unknown> {
  const loaded = new Map<string, Record<string, unknown> | null>();
  const evaluate = (wanted: string): Record<string, unknown> => {
    const id = ModuleStore.id(options.def, wanted, options.node);
    const present = loaded.get(id);
    if (present === null) throw new NeedsModules("circular imports");
    if (present !== undefined) return present;
    const stored = store.get(id);
    if (stored === undefined) throw new PlatformError(`Couldn't find JavaScript module '${wanted}'`);
    if (stored.script === undefined) {
      const outline = store.outlineOf(stored.source);
      const compiled = outline === null ? null : compileScript(outline, id, importInCurrentRealm);
      if (compiled?.imports.some(({ specifier }) => isComponent(specifier, options)) === true) throw new NeedsModules("definitions of components");
      stored.dependencies = compiled?.imports.map(({ specifier }) => pathOfImport(specifier, wanted)) ?? [];
      stored.script = compiled;
    }
    const { script } = stored;
    if (script === null) throw new NeedsModules("not a plain bundle");
    loaded.set(id, null);
    const dependencies = stored.dependencies.map(evaluate);
    let namespace: Record<string, unknown> = {};
    const scope: ModuleScope = {
      exports: (getters) => (namespace = getters as Record<string, unknown>),
      take: (index, name) => {
        const value = (dependencies[index] as Record<string, unknown>)[name];
        if (value === undefined) {
          stored.script = null;
          throw new NeedsModules("a binding that is set later");
        }
        return value;
      },
    };
    if (script.evaluatesText) options.leavesTraces?.();
    functionOf(id, script.script, options).call(undefined, scope);
    loaded.set(id, namespace);
    return namespace;
  };
  const running = currentRealm.getStore();
  if (running !== undefined && options.dynamicImport === "allow") {
    const modules = new Map<string, vm.Module>();
    running.dynamicImport = async (specifier, from) => {
      options.leavesTraces?.();
      const path = specifier.startsWith(".") ? relativeTo(specifier, pathOf(from)) : specifier;
      try {
        return await asModule(evaluate(path), options.context as vm.Context);
      } catch (error) {
        if (!(error instanceof NeedsModules)) throw error;
        store.leaked += 1;
        return importLater(store, specifier, from, options, modules);
      }
    };
  }
  const namespace = evaluate(path);
  return Object.fromEntries(Object.keys(namespace).sort().map((name) => [name, namespace[name]]));
}

/** Compiles, links and evaluates a module and what it imports. Returns its namespace. */
export function evaluateModule(store: ModuleStore, path: string, options: LinkOptions): Record<string, unknown> {
  const loaded = new Map<string, vm.Module>();
  if (options.context !== undefined) store.leaked += 1;
  const main = load(store, path, options, loaded);
  if (options.context !== undefined) for (const id of loaded.keys()) store.leaked += (store.get(id)?.source.length ?? 0) / CHARACTERS_PER_WEIGHT;
  main.instantiate();
  if (main.hasAsyncGraph()) throw new PlatformError("Top-level awaits in source files are unsupported");
  const finished = main.evaluate() as Promise<unknown>;
  finished.catch(() => undefined);
  if (main.status === "errored") throw main.error;
  return main.namespace as Record<string, unknown>;
}

function load(store: ModuleStore, path: string, options: LinkOptions, loaded: Map<string, vm.Module>): vm.SourceTextModule {
  const id = ModuleStore.id(options.def, path, options.node);
  const present = loaded.get(id);
  if (present !== undefined) return present as vm.SourceTextModule;
  const stored = store.get(id);
  if (stored === undefined) throw new PlatformError(`Couldn't find JavaScript module '${path}'`);
  const settings: vm.SourceTextModuleOptions = {
    identifier: id,
    initializeImportMeta: (meta) => {
      if (options.moduleUrl === null) throw options.typeError("import.meta unsupported");
      const filename = fileURLToPath(options.moduleUrl);
      Object.assign(meta, { url: options.moduleUrl, filename, dirname: dirname(filename) });
    },
    importModuleDynamically: ((specifier: string, referrer: vm.Module) => {
      if (options.dynamicImport === "refuse") throw options.typeError("dynamic module import unsupported");
      return importLater(store, specifier, referrer.identifier, options, loaded);
    }) as NonNullable<vm.SourceTextModuleOptions["importModuleDynamically"]>,
  };
  if (options.context !== undefined) settings.context = options.context;
  const module = new vm.SourceTextModule(stored.source, settings);
  loaded.set(id, module);
  module.linkRequests(module.moduleRequests.map(({ specifier }) => resolve(store, specifier, path, options, loaded)));
  return module;
}

function resolve(store: ModuleStore, specifier: string, from: string, options: LinkOptions, loaded: Map<string, vm.Module>): vm.Module {
  if (isComponent(specifier, options)) {
    return componentModule(specifier, options);
  }
  if (specifier.startsWith(".")) {
    return load(store, relativeTo(specifier, from), options, loaded);
  }
  const outside = options.external(specifier);
  if (outside === null) throw new PlatformError(`Couldn't find JavaScript module '${specifier}'`);
  return outside;
}

async function importLater(store: ModuleStore, specifier: string, referrer: string, options: LinkOptions, loaded: Map<string, vm.Module>): Promise<vm.Module> {
  const module = resolve(store, specifier, pathOf(referrer), options, loaded);
  if (module.status === "unlinked") (module as vm.SourceTextModule).instantiate();
  await module.evaluate();
  return module;
}

/** What `import component from "…/convex.config"` gives while a definition is evaluated. */
function componentModule(specifier: string, options: LinkOptions): vm.Module {
  const path = Buffer.from(specifier.slice(COMPONENT_PREFIX.length), "base64url").toString();
  const defaultName = options.components?.[path];
  if (defaultName === undefined) throw new PlatformError(`Component definition not found: ${path}`);
  const settings: { identifier: string; context?: vm.Context } = { identifier: specifier };
  if (options.context !== undefined) settings.context = options.context;
  return new vm.SyntheticModule(
    ["default"],
    function (this: vm.SyntheticModule) {
      this.setExport("default", { componentDefinitionPath: path, defaultName, export: () => null });
    },
    settings,
  );
}
