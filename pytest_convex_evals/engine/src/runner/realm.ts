/** A context, dressed as the platform's default runtime, in which one call runs at a time. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import vm from "node:vm";

import type { StartOptions } from "../shared/protocol.js";
import { BOOTSTRAP } from "./bootstrap.js";
import { inspect } from "./inspect.js";
import { EXTENT, Inventory, type Extent } from "./inventory.js";
import { currentRealm, evaluateModule, evaluateScripts, type ModuleFunction, type ModuleStore } from "./modules.js";
import { Random } from "./random.js";
import { guardedSubtle } from "./subtle.js";

export type Answer = { value: string; error?: undefined } | { error: string; value?: undefined };
type Reject = (message: string, data?: string) => void;

/** What a realm needs from the one who runs it. */
export interface RealmHost {
  /** Current time of the call in milliseconds. */
  now(): number;
  sync(op: string, json: string): Answer;
  async(op: string, json: string, resolve: (json: string) => void, reject: Reject): void;
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

const extent = new vm.Script(EXTENT, { filename: "runtime.js" });
/** What all realms share, and what host objects inherit from. */
const OUTSIDE: readonly unknown[] = [...Object.values(SHARED), Object.prototype, Function.prototype];

interface Inside {
  makeError(message: string): Error;
  makeTypeError(message: string): Error;
  parseJson(text: string): unknown;
  /** Forgets what the runtime remembers for a call. */
  reset(): void;
}

export class Realm {
  readonly context = vm.createContext(vm.constants.DONT_CONTEXTIFY);
  private random = new Random(0);
  private importing = true;
  private began = 0;
  private readonly inside: Inside;
  private readonly inventory: Inventory;
  /** Modules of the deployment as functions of this context; each call runs them anew. */
  private readonly functions = new Map<string, ModuleFunction>();
  /** Something was used that may still be at work after the call, or that an inventory does not show. */
  private isSpent = false;
  /** Requests under way. What is left of a body wakes nobody who does not read it. */
  private requests = 0;

  constructor(
    private start: StartOptions,
    private host: RealmHost,
  ) {
    const setup = script.runInContext(this.context) as (host: unknown, shared: unknown) => Inside;
    this.inside = setup(this.hostObject(), SHARED);
    this.inventory = new Inventory(extent.runInContext(this.context) as Extent, OUTSIDE);
    this.begin(start, host);
  }

  /** A call takes the realm. */
  begin(start: StartOptions, host: RealmHost): void {
    this.goOn(start, host);
    this.importing = true;
    this.random = new Random(start.importSeed);
  }

  /** A call takes the realm, in which its module is evaluated already. */
  goOn(start: StartOptions, host: RealmHost): void {
    this.start = start;
    this.host = host;
    this.random = new Random(start.seed);
    this.began = performance.now();
    const running = currentRealm.getStore();
    if (running !== undefined) running.parseJson = this.inside.parseJson;
  }

  /** After a call of which nothing can run any more: whether another one would find the realm as this one did. */
  isAsNew(): boolean {
    if (this.isSpent || this.requests > 0 || !this.inventory.isUntouched()) return false;
    this.inside.reset();
    return true;
  }

  /** The modules of the deployment are others from now on. */
  forgetModules(): void {
    this.functions.clear();
  }

  /** Actions and the others have different runtimes. */
  serves(start: StartOptions): boolean {
    return isActionKind(start.what) === this.isAction;
  }

  private get isAction(): boolean {
    return isActionKind(this.start.what);
  }

  private print(level: string, text: string): void {
    if (FORBIDDEN_IN[this.start.what] === undefined && this.start.what !== "schema") this.host.log(level, text);
  }

  /** What goes on outside the context, at its own pace. */
  private outside<T>(made: T): T {
    this.isSpent = true;
    return made;
  }

  private async request(response: Promise<unknown>): Promise<unknown> {
    this.requests += 1;
    try {
      return await response;
    } finally {
      this.requests -= 1;
    }
  }

  private hostObject(): Record<string, unknown> {
    return {
      foreign: FOREIGN,
      pending: (work: Promise<unknown>) => this.outside(this.host.pending(work)),
      lazyNames: LAZY,
      lazy: (name: (typeof LAZY)[number]): unknown => this.outside(name === "Response" ? (lenientResponse ??= makeLenientResponse()) : globalThis[name]),
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
      sync: (op: string, json: string): Answer => (this.importing ? { error: this.importRefusal(op) } : this.host.sync(op, json)),
      async: (op: string, json: string, resolve: (json: string) => void, reject: Reject) => {
        if (this.importing) reject(this.importRefusal(op));
        else this.host.async(op, json, resolve, reject);
      },
      js: (op: string, args: Record<string, unknown>, call: AsyncCall) => {
        if (this.importing) throw this.inside.makeError(this.importRefusal(op));
        const { js } = this.host;
        if (js === undefined) throw this.inside.makeError(`Unknown JS operation ${op}`);
        return this.outside(js(op, args, call));
      },
      fetch: (input: unknown, init: unknown, call: AsyncCall) => {
        if (this.importing) return Promise.reject(this.inside.makeError("fetch() unsupported at import time"));
        return this.request((this.host.fetch as NonNullable<RealmHost["fetch"]>)(input, init, call));
      },
      refusal: (what: string) =>
        this.importing ? `${what} unsupported at import time` : `Can't use ${what} in queries and mutations. Please consider using an action. See https://docs.convex.dev/functions/actions for more details.`,
      subtle: guardedSubtle(
        this.isAction ? null : () => (this.importing ? "Cannot use cryptographic randomness at import time" : "Can't use cryptographic randomness in queries and mutations. Please consider using an action."),
        (message) => this.inside.makeError(message),
        (work) => this.outside(this.host.pending(work)),
      ),
      performanceNow: () => {
        this.refuseIn("Performance");
        return this.start.what === "query" || this.importing ? 0 : Math.floor((performance.now() - this.began) * 10) / 10;
      },
      timeOrigin: () => (this.importing ? this.start.importNow : this.start.now),
      structuredClone: (value: unknown) => structuredClone(value),
    };
  }

  private now(): number {
    this.refuseIn("Date");
    return this.importing && this.start.what !== "schema" ? this.start.importNow : this.host.now();
  }

  private randomness(what: string): Random {
    this.refuseIn(what);
    return this.random;
  }

  private refuseIn(what: string): void {
    const where = FORBIDDEN_IN[this.start.what];
    if (where !== undefined) throw this.inside.makeError(`${what} unsupported when evaluating ${where}`);
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
    const { start } = this;
    const evaluate = asModules ? evaluateModule : evaluateScripts;
    const namespace = evaluate(store, start.path, {
      def: start.def,
      node: false,
      context: this.context,
      functions: this.functions,
      external: () => null,
      moduleUrl: null,
      ...(start.components === undefined ? {} : { components: start.components }),
      dynamicImport: this.isAction ? "allow" : "refuse",
      leavesTraces: () => (this.isSpent = true),
      typeError: (message) => this.inside.makeTypeError(message),
    });
    this.importing = false;
    this.random = new Random(start.seed);
    return namespace;
  }
}

function isActionKind(what: StartOptions["what"]): boolean {
  return what === "action" || what === "http";
}
