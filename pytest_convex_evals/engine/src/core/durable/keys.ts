/** What makes a deployment the same one after a restart: its name, its keys, and the seed of its imports. */

import { randomBytes, randomInt } from "node:crypto";

const FACT = "keys";

export interface DeploymentKeys {
  instanceName: string;
  adminKey: string;
  cursorSecret: string;
  uploadSecret: string;
  /** Seed and time of the import phase. */
  importSeed: number;
  importNow: number;
}

/** The keys that were kept, else new ones; what is asked for goes before both. */
export function keysFor(facts: ReadonlyMap<string, string> | undefined, asked: { instanceName: string | undefined; adminKey: string | undefined }): DeploymentKeys {
  const kept = facts?.get(FACT);
  const before = kept === undefined ? null : (JSON.parse(kept) as DeploymentKeys);
  const instanceName = asked.instanceName ?? before?.instanceName ?? "carnitas";
  return {
    instanceName,
    adminKey: asked.adminKey ?? before?.adminKey ?? `${instanceName}|${randomBytes(32).toString("hex")}`,
    cursorSecret: before?.cursorSecret ?? randomBytes(16).toString("hex"),
    uploadSecret: before?.uploadSecret ?? randomBytes(16).toString("hex"),
    importSeed: before?.importSeed ?? randomInt(2 ** 32),
    importNow: before?.importNow ?? Date.now(),
  };
}

export function keysFact(keys: DeploymentKeys): [string, string] {
  return [FACT, JSON.stringify(keys)];
}
