/** The deployment and its environment as facts. */

import { deserialize, serialize } from "node:v8";

import { Deployment, type AuthProvider, type Component, type Definition } from "../deployment.js";
import type { Fact } from "./entries.js";

export const DEPLOYMENT = "deployment";
export const ENVIRONMENT = "environment";

interface Parts {
  definitions: ReadonlyMap<string, Definition>;
  root: Component | null;
  auth: readonly AuthProvider[];
  importSeed: number;
  importNow: number;
}

/** Definitions are plain data that refer to each other, which JSON cannot hold. */
export function deploymentFact({ definitions, root, auth, importSeed, importNow }: Deployment): Fact {
  return [DEPLOYMENT, serialize({ definitions, root, auth, importSeed, importNow } satisfies Parts).toString("base64")];
}

export function deploymentFrom(facts: ReadonlyMap<string, string>): Deployment {
  const text = facts.get(DEPLOYMENT);
  if (text === undefined) return Deployment.empty();
  const { definitions, root, auth, importSeed, importNow } = deserialize(Buffer.from(text, "base64")) as Parts;
  return new Deployment(definitions, root, auth, importSeed, importNow);
}

export function environmentFact(variables: ReadonlyMap<string, string>): Fact {
  return [ENVIRONMENT, JSON.stringify([...variables])];
}

export function environmentFrom(facts: ReadonlyMap<string, string>): [string, string][] {
  return JSON.parse(facts.get(ENVIRONMENT) ?? "[]") as [string, string][];
}
