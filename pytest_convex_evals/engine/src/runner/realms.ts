/** Realms for calls: one that its call has left as it was serves the next of its kind. */

import type { StartOptions } from "../shared/protocol.js";
import { PlatformError, StackMapper } from "./failures.js";
import { ModuleStore, NeedsModules } from "./modules.js";
import { Realm, type RealmHost } from "./realm.js";

export interface Opened {
  /** Null when no other call may have it. */
  realm: Realm | null;
  namespace: Record<string, unknown>;
}

/** How many wait for calls; more run at once only seldom. */
const MOST_IDLE = 16;

const idle: Realm[] = [];

/** A realm with its module evaluated, as scripts where that is possible, else as real modules. */
export function openRealm(start: StartOptions, host: RealmHost, store: ModuleStore): Opened {
  try {
    const realm = takeRealm(start, host);
    return { realm, namespace: realm.load(store, false) };
  } catch (error) {
    if (!(error instanceof NeedsModules)) throw error;
  }
  return { realm: null, namespace: new Realm(start, host).load(store, true) };
}

/** A realm that has run nothing, or is as if it had not. */
export function takeRealm(start: StartOptions, host: RealmHost): Realm {
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
export function forgetModules(): void {
  for (const realm of idle) realm.forgetModules();
}

export const NOBODY: RealmHost = {
  now: () => 0,
  sync: () => ({ error: "" }),
  async: () => undefined,
  log: () => undefined,
  pending: (work) => work,
};
const SAMPLE = `import { a } from "./other.js";\nclass B {}\nexport { B, a };\n`;

/** Makes a realm before there is a call, and runs through what a call needs, so that the first one need not wait for it. */
export function warmUp(what: "query" | "action"): void {
  const store = new ModuleStore(new StackMapper());
  store.add("", "sample.js", false, SAMPLE);
  store.add("", "other.js", false, "var a = 1;\nexport { a };\n");
  const start: StartOptions = { what, def: "", path: "sample.js", fn: "B", now: 0, seed: 0, importNow: 0, importSeed: 0, env: {} };
  const { realm, namespace } = openRealm(start, NOBODY, store);
  exportedFunction(namespace, start.path, start.fn);
  closeRealm(realm);
  forgetModules();
}

/** The registered function under an export name. */
export function exportedFunction(namespace: Record<string, unknown>, path: string, name: string): Record<string, unknown> {
  const found = namespace[name];
  if ((typeof found !== "object" && typeof found !== "function") || found === null) {
    throw new PlatformError(`Couldn't find "${name}" in module "${path}".`);
  }
  return found as Record<string, unknown>;
}
