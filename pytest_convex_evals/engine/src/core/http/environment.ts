/** Changes of environment variables, all or nothing; the auth config reads them, so it is evaluated again. */

import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { checkValue } from "../validators/check.js";
import { asText } from "./exchange.js";

const MAX_NAME = 256;
const MAX_VALUE = 8 * 1024;
const MAX_VARIABLES = 512;
const MAX_TOTAL = 512 * 1024;

function checkName(name: string): void {
  if (name.length > MAX_NAME) throw new UserError("EnvironmentVariableNameTooLong", `Environment variable name is longer than ${MAX_NAME} characters`);
  if (!/^[a-zA-Z_]+[a-zA-Z0-9_]*$/.test(name)) {
    throw new UserError("EnvironmentVariableNameInvalid", `Environment variable name "${name}" is invalid: it must start with a letter and only contain letters, numbers, and underscores.`);
  }
  if (name === "CONVEX_CLOUD_URL" || name === "CONVEX_SITE_URL") {
    throw new UserError("EnvVarNameForbidden", `Environment variable with name "${name}" is built-in and cannot be overridden`);
  }
}

function isChange(change: unknown): change is { name?: unknown; value?: unknown } {
  return typeof change === "object" && change !== null;
}

export async function updateEnvironment(engine: Engine, changes: unknown): Promise<null> {
  for (;;) {
    const { deployment } = engine;
    const auth = await engine.pushes.authWith(changedEnvironment(engine, changes));
    // A push that was activated meanwhile has an auth config of its own.
    if (engine.deployment !== deployment) continue;
    await engine.changeEnvironment(() => changedEnvironment(engine, changes), auth);
    return null;
  }
}

function changedEnvironment(engine: Engine, changes: unknown): Map<string, string> {
  const next = new Map(engine.env);
  const declared = engine.deployment.definitions.get("")?.config.env ?? [];
  for (const change of Array.isArray(changes) ? (changes as unknown[]) : []) {
    if (!isChange(change)) throw new UserError("BadJsonBody", "invalid field `changes`: each change needs a `name` and a `value`");
    const name = asText(change.name);
    checkName(name);
    if (change.value === null || change.value === undefined) {
      next.delete(name);
      continue;
    }
    const value = asText(change.value);
    if (Buffer.byteLength(value) > MAX_VALUE) throw new UserError("EnvironmentVariableValueTooLong", `The value of ${name} is larger than ${MAX_VALUE} bytes`);
    const wanted = declared.find((item) => item.name === name);
    if (wanted !== undefined && checkValue(wanted.validator, value, { tableName: () => null }) !== null) {
      throw new UserError("InvalidEnvironmentVariable", `Environment variable ${name} does not match its declared validator`);
    }
    next.set(name, value);
  }
  if (next.size > MAX_VARIABLES) throw new UserError("EnvVarLimitMet", `At most ${MAX_VARIABLES} environment variables can be set`);
  const total = [...next].reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0);
  if (total > MAX_TOTAL) throw new UserError("EnvVarLimitMet", `Environment variables are larger than ${MAX_TOTAL} bytes in total`);
  return next;
}
