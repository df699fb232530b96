/**
 * Public keys of token issuers: by OIDC discovery, from a URL or from a data URL, fetched for every token so that a new key counts at
 * once. Whoever wrote auth.config chose the address, so only what its actions may reach is asked. What an issuer answers is not trusted:
 * it has a deadline and a size, and is not followed elsewhere.
 */

import type { JsonWebKey } from "node:crypto";

import type { AuthProvider } from "../deployment.js";
import { UserError } from "../errors.js";

const DEADLINE_MS = 5_000;
const MAX_BYTES = 1024 * 1024;
const BAD_REQUEST = 400;

/** An answer that cannot be used. */
class Unusable extends Error {
  constructor(
    message: string,
    readonly status = BAD_REQUEST,
  ) {
    super(message);
  }
}

/** Whether an address may be asked. */
export type MayReach = (url: string) => boolean;

/** With a scheme, without a slash at the end. */
export function bareIssuer(issuer: string): string {
  return (/^https?:\/\//.test(issuer) ? issuer : `https://${issuer}`).replace(/\/$/, "");
}

export async function fetchKeys(provider: AuthProvider, issuer: string, mayReach: MayReach): Promise<JsonWebKey[]> {
  try {
    const set = await fetchObject(provider.jwks ?? (await discover(issuer, mayReach)), provider.type === "customJwt", mayReach);
    const { keys } = set;
    if (!Array.isArray(keys)) throw new Unusable("the key set has no list of keys");
    return keys.filter((key): key is JsonWebKey => typeof key === "object" && key !== null);
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    throw new UserError("AuthProviderDiscoveryFailed", `Auth provider discovery of ${issuer} failed: ${error.message}`, undefined, error.status);
  }
}

/** The address of the keys, from the issuer's own description. */
async function discover(issuer: string, mayReach: MayReach): Promise<string> {
  const found = await fetchObject(`${bareIssuer(issuer)}/.well-known/openid-configuration`, false, mayReach);
  if (typeof found["issuer"] !== "string" || bareIssuer(found["issuer"]) !== bareIssuer(issuer)) {
    throw new Unusable("the configuration is that of another issuer");
  }
  if (typeof found["jwks_uri"] !== "string" || !/^https?:\/\//i.test(found["jwks_uri"])) throw new Unusable("the configuration has no jwks_uri");
  return found["jwks_uri"];
}

/** `typed`: keys of a custom provider, which must say that they are JSON. Discovery tells its status to the client instead. */
async function fetchObject(url: string, typed: boolean, mayReach: MayReach): Promise<Record<string, unknown>> {
  if (!url.startsWith("data:") && !mayReach(url)) throw new Unusable(`${shown(url)} cannot be reached from here`);
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(DEADLINE_MS) });
    text = await boundedText(answer);
  } catch (error) {
    throw error instanceof Unusable ? error : new Unusable(`${shown(url)} did not answer`);
  }
  if (answer.status !== 200) {
    throw new Unusable(`${shown(url)} answered with status ${answer.status}`, typed ? BAD_REQUEST : Math.max(answer.status, BAD_REQUEST));
  }
  const type = (answer.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  if (typed && !url.startsWith("data:") && type !== "application/json" && type !== "application/jwk-set+json") {
    throw new Unusable(`${shown(url)} answered with the content type "${type ?? ""}"`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Unusable(`${shown(url)} answered with something that is not JSON`);
  }
  if (typeof parsed !== "object" || parsed === null) throw new Unusable(`${shown(url)} answered with something that is not an object`);
  return parsed as Record<string, unknown>;
}

async function boundedText(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += (chunk as Uint8Array).length;
    if (size > MAX_BYTES) throw new Unusable(`the answer is larger than ${MAX_BYTES} bytes`);
    chunks.push(chunk as Uint8Array);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function shown(url: string): string {
  return url.startsWith("data:") ? "the data URL" : url;
}
