/**
 * Modules that are evaluated before the call that needs them, while the process has nothing else to do.
 *
 * Every call evaluates its module anew, which takes longer than most functions. Whoever calls finds what he would have found: a module
 * cannot see when it is evaluated, and what it puts off is done before the function begins, in any case. One that prints, wants
 * something of the host or takes long is left to the call.
 */

import type { StartOptions } from "../shared/protocol.js";
import { ModuleStore } from "./modules.js";
import type { Answer, Realm, RealmHost } from "./realm.js";
import { closeRealm, NOBODY, takeRealm, type Opened } from "./realms.js";

interface Prepared extends Opened {
  realm: Realm;
  start: StartOptions;
  listener: Listener;
}

/** Stands in for the call. */
class Listener implements RealmHost {
  heard = false;
  readonly now = NOBODY.now;

  log(): void {
    this.heard = true;
  }

  sync(): Answer {
    this.heard = true;
    return { error: "" };
  }

  async(): void {
    this.heard = true;
  }

  pending<T>(work: Promise<T>): Promise<T> {
    this.heard = true;
    return work;
  }
}

/** More than are prepared in one turn, so that what is given up has done all that it put off. */
const MOST = 3;
/** Milliseconds; the time of an evaluation ahead is charged to nobody. */
const LONG_MS = 30;

export class Ahead {
  /** By module; the one prepared last comes last. */
  private readonly prepared = new Map<string, Prepared>();
  /** Sources of modules whose evaluation is seen by somebody, or takes long. */
  private readonly unfit = new Set<string>();

  constructor(private readonly store: ModuleStore) {}

  /** The module of a call in its realm; null when it has to be evaluated. */
  take(start: StartOptions, host: RealmHost): Opened | null {
    const module = ModuleStore.id(start.def, start.path, false);
    const found = this.prepared.get(module);
    if (found === undefined || !isCall(start)) return null;
    this.prepared.delete(module);
    if (found.listener.heard) this.leaveToCalls(module);
    if (found.listener.heard || !isSameTo(found.start, start)) return null;
    found.realm.goOn(start, host);
    return found;
  }

  /** Evaluates the module of a call for the next one. */
  prepare(start: StartOptions): void {
    const module = ModuleStore.id(start.def, start.path, false);
    const source = this.store.get(module)?.source;
    if (!isCall(start) || source === undefined || this.prepared.has(module) || this.unfit.has(source)) return;
    const listener = new Listener();
    const realm = takeRealm(start, listener);
    try {
      const namespace = this.timed(start, () => realm.load(this.store, false));
      if (listener.heard) this.leaveToCalls(module);
      else if (!this.unfit.has(source)) this.keep(module, { realm, namespace, start, listener });
    } catch {
      this.leaveToCalls(module);
    }
  }

  /** Takes note of an evaluation that takes long. */
  timed<T>(start: StartOptions, evaluate: () => T): T {
    const began = performance.now();
    try {
      return evaluate();
    } finally {
      if (performance.now() - began > LONG_MS) this.leaveToCalls(ModuleStore.id(start.def, start.path, false));
    }
  }

  /** The modules are others from now on. */
  forget(): void {
    this.prepared.clear();
  }

  private leaveToCalls(module: string): void {
    const source = this.store.get(module)?.source;
    if (source !== undefined) this.unfit.add(source);
  }

  private keep(module: string, prepared: Prepared): void {
    this.prepared.set(module, prepared);
    if (this.prepared.size <= MOST) return;
    const [[oldest, { realm }]] = this.prepared as unknown as [[string, Prepared]];
    this.prepared.delete(oldest);
    closeRealm(realm);
  }
}

function isCall({ what }: StartOptions): boolean {
  return what === "query" || what === "mutation";
}

/** All that a module can see while it is evaluated is the same. */
function isSameTo(one: StartOptions, other: StartOptions): boolean {
  const names = Object.keys(one.env);
  return (
    one.importNow === other.importNow &&
    one.importSeed === other.importSeed &&
    names.length === Object.keys(other.env).length &&
    names.every((name) => Object.hasOwn(other.env, name) && one.env[name] === other.env[name])
  );
}
