/** "use node" modules: evaluated once in the process's own realm, with Node's globals; state lives as long as the process. */

import { builtinModules, createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import vm from "node:vm";

import { currentCall, type ActionCall, type ActionRunner } from "./actions.js";
import { describeModule } from "./analyze.js";
import { PlatformError } from "./failures.js";
import { hostFetch, storageCall } from "./hostcalls.js";
import { evaluateModule, ModuleStore } from "./modules.js";
import { exportedFunction } from "./realms.js";

/** Namespaces of real modules, and transpiled ones, have a default export of their own. */
function isEsm(exports: Record<string, unknown>): boolean {
  return (Object.prototype.toString.call(exports) === "[object Module]" || exports["__esModule"] === true) && "default" in exports;
}

/** Operations of the platform that may be pending at once. */
const MAX_PENDING = 1000;
/** What others than the platform do: `fetch`, bodies. */
const HOST = "host/";

const LEVELS = { log: "LOG", info: "INFO", warn: "WARN", error: "ERROR", debug: "DEBUG" } as const;

export class NodeRealm {
  private readonly namespaces = new Map<string, Record<string, unknown>>();
  private readonly builtins = new Map<string, vm.Module>();
  private env = "";
  /** Modules stand beside the packages outside the bundle, when the core allows some. */
  private readonly moduleUrl = (process.argv[3] ?? "") === "" ? "file:///node/index.js" : pathToFileURL(`${process.argv[3]}/index.js`).href;
  private readonly require = createRequire(this.moduleUrl);

  constructor(
    private readonly store: ModuleStore,
    private readonly runner: ActionRunner,
  ) {
    this.install();
  }

  forget(): void {
    this.namespaces.clear();
  }

  async run(call: ActionCall, payload: string): Promise<string> {
    const { start } = call;
    const namespace = this.namespace(call);
    if (start.what === "analyze") {
      return describeModule(namespace, start, this.store.get(ModuleStore.id(start.def, start.path, true))?.source ?? "");
    }
    const registered = exportedFunction(namespace, start.path, start.fn);
    const invoke = registered["invokeAction"];
    if (typeof invoke !== "function") throw new PlatformError(`Couldn't find "${start.fn}" in module "${start.path}".`);
    return String(await (invoke as (id: string, args: string) => Promise<unknown>).call(registered, start.requestId ?? "", payload));
  }

  private namespace(call: ActionCall): Record<string, unknown> {
    const { start } = call;
    const env = JSON.stringify(start.env);
    if (env !== this.env) {
      this.env = env;
      this.namespaces.clear();
      for (const name of Object.keys(process.env)) delete process.env[name];
      Object.assign(process.env, { LANG: "en_US.UTF-8", TZ: "UTC", PATH: "/usr/bin:/bin" }, start.env);
    }
    const key = `${start.def}|${start.path}`;
    let namespace = this.namespaces.get(key);
    if (namespace === undefined) {
      namespace = evaluateModule(this.store, start.path, {
        def: start.def,
        node: true,
        context: undefined,
        external: (specifier) => this.builtin(specifier),
        dynamicImport: "allow",
        moduleUrl: this.moduleUrl,
        typeError: (message) => new TypeError(message),
      });
      this.namespaces.set(key, namespace);
    }
    return namespace;
  }

  private builtin(specifier: string): vm.Module | null {
    const present = this.builtins.get(specifier);
    if (present !== undefined) return present;
    const bare = specifier.replace(/^node:/, "");
    const isBuiltin = builtinModules.includes(bare);
    if (!isBuiltin && (process.argv[3] ?? "") === "") return null;
    const exports = (isBuiltin ? process.getBuiltinModule(bare) : this.require(specifier)) as Record<string, unknown>;
    const names = [...new Set([...Object.keys(exports), "default"])];
    const module = new vm.SyntheticModule(
      names,
      function (this: vm.SyntheticModule) {
        for (const name of names) this.setExport(name, name === "default" && !isEsm(exports) ? exports : exports[name]);
      },
      { identifier: specifier },
    );
    this.builtins.set(specifier, module);
    return module;
  }

  private install(): void {
    const syscall = (op: string, json: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const call = currentCall.getStore();
        if (call === undefined) {
          reject(new Error(`${op} outside of a Convex function`));
          return;
        }
        const weight = op.startsWith(HOST) ? 0 : 1;
        if (weight > 0 && call.pending >= MAX_PENDING) {
          reject(new Error("Too many concurrent operations."));
          return;
        }
        call.pending += weight;
        const settled = (): number => (call.pending -= weight);
        this.runner.syscall(
          call,
          op,
          json,
          (answer) => {
            settled();
            resolve(answer);
          },
          (message, data) => {
            settled();
            reject(Object.assign(new Error(message), data === undefined ? {} : { data: JSON.parse(data) as unknown }));
          },
        );
      });
    const scope = globalThis as Record<string, unknown>;
    scope["Convex"] = {
      syscall: (op: string) => {
        throw new Error(`Unknown operation ${op}`);
      },
      asyncSyscall: syscall,
      jsSyscall: (op: string, args: Record<string, unknown>) => storageCall(op, args, syscall),
    };
    scope["fetch"] = (input: unknown, init: unknown) => hostFetch(input, init, syscall);
    scope["require"] = this.require;
    scope["exports"] = {};
    scope["module"] = { exports: scope["exports"] };
    scope["__dirname"] = "/node";
    scope["__filename"] = "/node/index.js";
    process.exit = (() => {
      throw new Error("process.exit() called");
    }) as typeof process.exit;
    for (const [name, level] of Object.entries(LEVELS)) {
      (console as unknown as Record<string, unknown>)[name] = (...args: unknown[]) => this.log(level, args);
    }
  }

  private log(level: string, args: unknown[]): void {
    const call = currentCall.getStore();
    if (call === undefined) return;
    const text = args.map((arg) => inspect(arg)).join(" ");
    this.runner.send({ t: "log", call: call.id, level }, text);
  }
}
