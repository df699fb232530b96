/** A fresh context per call, dressed as the platform's default runtime. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import vm from "node:vm";

import type { StartOptions } from "../shared/protocol.js";
import { BOOTSTRAP } from "./bootstrap.js";
import { PlatformError } from "./failures.js";
import { inspect } from "./inspect.js";
import { currentRealm, evaluateModule, evaluateScripts, NeedsModules, type ModuleStore } from "./modules.js";
import { Random } from "./random.js";
import { guardedSubtle } from "./subtle.js";

export type Answer = { value: string; error?: undefined } | { error: string; value?: undefined };

/** What a realm needs from the one who runs it. */
export interface RealmHost {
  /** Current time of the call in milliseconds. */
  now(): number;
  sync(op: string, json: string): Answer;
  async(op: string, json: string, resolve: (json: string) => void, reject: (message: string, data?: string) => void): void;
  log(level: string, text: string): void;
  /** Work of the host that will settle a promise of the realm later. */
  pending<T>(work: Promise<T>): Promise<T>;
  js?(op: string, args: Record<string, unknown>, call: AsyncCall): unknown;
  fetch?(input: unknown, init: unknown, call: AsyncCall): Promise<unknown>;
}
export type AsyncCall = (op: string, json: string) => Promise<string>;

const script = new vm.Script(BOOTSTRAP, { filename: "runtime.js" });

const BODILESS = [204, 205, 304];
/** An empty text is no body: components answer 205 with one, which Node's constructor refuses. */
const makeLenientResponse = (): typeof Response =>
  new Proxy(Response, {
    construct: (target, [body, init]: [unknown, { status?: number } | undefined], derived) =>
      Reflect.construct(target, [body === "" && BODILESS.includes(init?.status ?? 200) ? null : body, init], derived) as Response,
  });
let lenientResponse: typeof Response | null = null;

const SHARED: Record<string, unknown> = {
  ArrayBuffer, SharedArrayBuffer, DataView,
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
  Float32Array, Float64Array, BigInt64Array, BigUint64Array,
  URL, URLSearchParams, TextEncoder, TextDecoder, Event, EventTarget, DOMException,
  atob, btoa, AsyncLocalStorage, AsyncResource,
};
/** Shared too, but Node loads what is behind them on first use, which costs more than the rest of the start. */
const LAZY = [
  "AbortController", "AbortSignal", "Blob", "Crypto", "File", "FormData", "Headers", "ReadableStream", "ReadableStreamBYOBReader",
  "ReadableStreamDefaultReader", "Request", "Response", "SubtleCrypto", "TextDecoderStream", "TextEncoderStream", "TransformStream",
  "WritableStream", "WritableStreamDefaultWriter",
] as const;
/** Classes whose instances the shared ones hand out: errors, promises, what `json()` and `structuredClone` make. */
const FOREIGN = {
  Error, TypeError, RangeError, SyntaxError, EvalError, ReferenceError, URIError,
  Object, Function, Array, Promise, Map, Set, Date, RegExp,
};

/** What the environment of an evaluation allows beside plain computation. */
const FORBIDDEN_IN: Partial<Record<StartOptions["what"], string>> = { config: "definition", auth: "auth config file" };

function newContext(): vm.Context {
  return vm.createContext(vm.constants.DONT_CONTEXTIFY);
}

export class Realm {
  readonly context = newContext();
  private random: Random;
  private importing = true;
  private began = performance.now();
  /** What was printed at import, before there was a call to print it. */
  private readonly printed: [level: string, text: string][] = [];
  private readonly make: { makeError(message: string): Error; makeTypeError(message: string): Error; parseJson(text: string): unknown };
  /** Its module has been evaluated ahead of the call. */
  private loaded: { by: StartOptions; namespace: Record<string, unknown> } | null = null;
  /** Something happened at import that belongs into a call. */
  isUnfit = false;

  constructor(
    private start: StartOptions,
    private host: RealmHost | null,
  ) {
    this.random = new Random(start.importSeed);
    const setup = script.runInContext(this.context) as (host: unknown, shared: unknown) => Realm["make"];
    this.make = setup(this.hostObject(), SHARED);
    if (host !== null) this.announce();
  }

  /** Gives a realm that was made ahead to a call; false when it was made for something else. */
  adopt(start: StartOptions, host: RealmHost): boolean {
    const by = this.loaded?.by;
    if (this.isUnfit || isActionKind(start.what) !== this.isAction || (by !== undefined && !isSameImport(by, start))) return false;
    this.start = start;
    this.host = host;
    this.began = performance.now();
    if (by === undefined) this.random = new Random(start.importSeed);
    this.announce();
    for (const [level, text] of this.printed.splice(0)) host.log(level, text);
    return true;
  }

  private announce(): void {
    const running = currentRealm.getStore();
    if (running !== undefined) running.parseJson = this.make.parseJson;
  }

  private get isAction(): boolean {
    return isActionKind(this.start.what);
  }

  /** Ahead of a call there is nobody to ask. */
  private get caller(): RealmHost {
    if (this.host === null) {
      this.isUnfit = true;
      throw this.make.makeError("unsupported at import time");
    }
    return this.host;
  }

  private print(level: string, text: string): void {
    if (FORBIDDEN_IN[this.start.what] !== undefined || this.start.what === "schema") return;
    if (this.host === null) this.printed.push([level, text]);
    else this.host.log(level, text);
  }

  private hostObject(): Record<string, unknown> {
    return {
      foreign: FOREIGN,
      pending: (work: Promise<unknown>) => this.caller.pending(work),
      lazyNames: LAZY,
      lazy: (name: (typeof LAZY)[number]): unknown => (name === "Response" ? (lenientResponse ??= makeLenientResponse()) : globalThis[name]),
      actions: this.isAction,
      now: () => Math.floor(this.now()),
      realNow: () => performance.now(),
      random: () => this.randomness("Math.random").next(),
      randomUUID: () => this.randomness("crypto.randomUUID").uuid(),
      fill: (bytes: Uint8Array) => this.randomness("crypto.getRandomValues").fill(bytes),
      env: (name: string) => this.readEnv(name),
      log: (level: string, args: unknown[]) => this.print(level, args.map((arg) => inspect(arg)).join(" ")),
      logText: (level: string, text: string) => this.print(level, text),
      inspectAll: (args: unknown[]) => args.map((arg) => inspect(arg)).join(" "),
      sync: (op: string, json: string): Answer => (this.importing ? { error: this.importRefusal(op) } : this.caller.sync(op, json)),
      async: (op: string, json: string, resolve: (json: string) => void, reject: (message: string, data?: string) => void) => {
        if (this.importing) reject(this.importRefusal(op));
        else this.caller.async(op, json, resolve, reject);
      },
      js: (op: string, args: Record<string, unknown>, call: AsyncCall) => {
        if (this.importing) throw this.make.makeError(this.importRefusal(op));
        const { js } = this.caller;
        if (js === undefined) throw this.make.makeError(`Unknown JS operation ${op}`);
        return js(op, args, call);
      },
      fetch: (input: unknown, init: unknown, call: AsyncCall) => {
        if (this.importing) return Promise.reject(this.make.makeError("fetch() unsupported at import time"));
        return (this.caller.fetch as NonNullable<RealmHost["fetch"]>)(input, init, call);
      },
      refusal: (what: string) =>
        this.importing ? `${what} unsupported at import time` : `Can't use ${what} in queries and mutations. Please consider using an action. See https://docs.convex.dev/functions/actions for more details.`,
      subtle: guardedSubtle(
        this.isAction ? null : () => (this.importing ? "Cannot use cryptographic randomness at import time" : "Can't use cryptographic randomness in queries and mutations. Please consider using an action."),
        (message) => this.make.makeError(message),
        (work) => this.caller.pending(work),
      ),
      performanceNow: () => {
        this.refuseIn("Performance");
        return this.start.what === "query" || this.importing ? 0 : Math.floor((performance.now() - this.began) * 10) / 10;
      },
      timeOrigin: () => this.start.now,
      structuredClone: (value: unknown) => structuredClone(value),
    };
  }

  private now(): number {
    this.refuseIn("Date");
    return this.importing && this.start.what !== "schema" ? this.start.importNow : this.caller.now();
  }

  private randomness(what: string): Random {
    this.refuseIn(what);
    return this.random;
  }

  private refuseIn(what: string): void {
    const where = FORBIDDEN_IN[this.start.what];
    if (where !== undefined) throw this.make.makeError(`${what} unsupported when evaluating ${where}`);
  }

  private readEnv(name: string): { value?: string; error?: string } {
    if (this.start.what === "schema") return { error: "Environment variables unsupported when evaluating schema" };
    if (!/^[a-zA-Z_]+[a-zA-Z0-9_]*$/.test(name)) {
      return { error: `Environment variable name "${name}" is invalid: it must start with a letter and only contain letters, numbers, and underscores.` };
    }
    const value = Object.hasOwn(this.start.env, name) ? this.start.env[name] : undefined;
    if (value === undefined && this.start.what === "auth") {
      return { error: `Environment variable ${name} is used in auth config file but its value was not set` };
    }
    return value === undefined ? {} : { value };
  }

  private importRefusal(op: string): string {
    if (op === "host/sleep") return "setTimeout unsupported at import time";
    return op.startsWith("storage/") || op.includes("storage") ? "storage unsupported at import time" : "Can't use database at import time";
  }

  /** Evaluates a module; afterwards the realm is out of the import phase. May throw NeedsModules, then another realm is needed. */
  load(store: ModuleStore, asModules: boolean): Record<string, unknown> {
    const namespace = this.loaded?.namespace ?? this.evaluate(store, asModules);
    this.importing = false;
    this.random = new Random(this.start.seed);
    return namespace;
  }

  /** Evaluates the module of a call that has been, for the next one like it. */
  loadAhead(store: ModuleStore): void {
    try {
      this.loaded = { by: this.start, namespace: this.evaluate(store, false) };
    } catch {
      this.isUnfit = true;
    }
  }

  private evaluate(store: ModuleStore, asModules: boolean): Record<string, unknown> {
    const { start } = this;
    const evaluate = asModules ? evaluateModule : evaluateScripts;
    return evaluate(store, start.path, {
      def: start.def,
      node: false,
      context: this.context,
      external: () => null,
      moduleUrl: null,
      ...(start.components === undefined ? {} : { components: start.components }),
      dynamicImport: this.isAction ? "allow" : "refuse",
      typeError: (message) => this.make.makeTypeError(message),
    });
  }
}

function isActionKind(what: StartOptions["what"]): boolean {
  return what === "action" || what === "http";
}

/** Whether a module evaluated for one call is what it would be for the other. */
function isSameImport(one: StartOptions, other: StartOptions): boolean {
  const names = Object.keys(one.env);
  return (
    AHEAD.includes(other.what) &&
    one.def === other.def &&
    one.path === other.path &&
    one.importSeed === other.importSeed &&
    one.importNow === other.importNow &&
    names.length === Object.keys(other.env).length &&
    names.every((name) => one.env[name] === other.env[name])
  );
}

/** Modules of the usual outline; configs, schemas and auth configs are few and may be of another. */
const BUNDLES: readonly StartOptions["what"][] = ["query", "mutation", "action", "http", "analyze"];

/** Calls that often come in rows, and whose modules are therefore evaluated ahead. */
const AHEAD: readonly StartOptions["what"][] = ["query", "mutation"];

let spare: Realm | null = null;
let latest: { start: StartOptions; isRepeated: boolean } | null = null;

/**
 * Makes a realm ahead of need, while the runner has nothing to do; after two calls of one module, with that module evaluated.
 * Returns whether it did.
 */
export function prepareRealm(store: ModuleStore): boolean {
  if (latest === null || spare !== null) return false;
  spare = new Realm(latest.start, null);
  if (latest.isRepeated) spare.loadAhead(store);
  return true;
}

/** What was made ahead is no good: a module left something that fails, or modules have changed. */
export function dropSpareRealm(): void {
  spare = null;
  latest = null;
}

function takeRealm(start: StartOptions, host: RealmHost): Realm {
  const ahead = spare;
  spare = null;
  return ahead?.adopt(start, host) === true ? ahead : new Realm(start, host);
}

/** A realm with its module evaluated, as scripts where that is possible, else as real modules. */
export function openRealm(start: StartOptions, host: RealmHost, store: ModuleStore): Record<string, unknown> {
  if (BUNDLES.includes(start.what)) {
    try {
      const namespace = takeRealm(start, host).load(store, false);
      latest = { start, isRepeated: latest !== null && AHEAD.includes(start.what) && isSameImport(latest.start, start) };
      return namespace;
    } catch (error) {
      latest = null;
      if (!(error instanceof NeedsModules)) throw error;
    }
  }
  return new Realm(start, host).load(store, true);
}

/** The registered function under an export name. */
export function exportedFunction(namespace: Record<string, unknown>, path: string, name: string): Record<string, unknown> {
  const found = namespace[name];
  if ((typeof found !== "object" && typeof found !== "function") || found === null) {
    throw new PlatformError(`Couldn't find "${name}" in module "${path}".`);
  }
  return found as Record<string, unknown>;
}
