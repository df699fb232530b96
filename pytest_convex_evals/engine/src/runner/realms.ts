/** Realms for calls: one that its call has left as it was serves the next of its kind. */

import type { StartOptions } from "../shared/protocol.js";
import { PlatformError } from "./failures.js";
import { NeedsModules, type ModuleStore } from "./modules.js";
import { Realm, type RealmHost } from "./realm.js";

export interface Opened {
  /** Null when no other call may have it. */
  realm: Realm | null;
  namespace: Record<string, unknown>;
}

/** Modules of the usual outline; configs, schemas and auth configs are few and may be of another. */
const BUNDLES: readonly StartOptions["what"][] = ["query", "mutation", "action", "http", "analyze"];
/** How many wait for calls; more run at once only seldom. */
const MOST_IDLE = 16;

let idle: Realm[] = [];

/** A realm with its module evaluated, as scripts where that is possible, else as real modules. */
export function openRealm(start: StartOptions, host: RealmHost, store: ModuleStore): Opened {
  if (BUNDLES.includes(start.what)) {
    try {
      const realm = takeRealm(start, host);
      return { realm, namespace: realm.load(store, false) };
    } catch (error) {
      if (!(error instanceof NeedsModules)) throw error;
    }
  }
  return { realm: null, namespace: new Realm(start, host).load(store, true) };
}

function takeRealm(start: StartOptions, host: RealmHost): Realm {
  const at = idle.findIndex((realm) => realm.serves(start));
  if (at < 0) return new Realm(start, host);
  const [realm] = idle.splice(at, 1) as [Realm];
  realm.begin(start, host);
  return realm;
}

/** The call has ended, and nothing of it can run any more. */
export function closeRealm(realm: Realm | null): void {
  if (realm !== null && idle.length < MOST_IDLE && realm.isAsNew()) idle.push(realm);
}

/** Modules have changed. */
export function dropRealms(): void {
  idle = [];
}

/** The registered function under an export name. */
export function exportedFunction(namespace: Record<string, unknown>, path: string, name: string): Record<string, unknown> {
  const found = namespace[name];
  if ((typeof found !== "object" && typeof found !== "function") || found === null) {
    throw new PlatformError(`Couldn't find "${name}" in module "${path}".`);
  }
  return found as Record<string, unknown>;
}
