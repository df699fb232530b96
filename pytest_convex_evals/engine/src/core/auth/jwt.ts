/** JSON web tokens by the providers of auth.config: OIDC discovery and custom JWT. */

import { createPublicKey, verify, type JsonWebKey } from "node:crypto";

import type { AuthProvider } from "../deployment.js";
import { UserError } from "../errors.js";
import type { Identity } from "./identity.js";
import { bareIssuer, fetchKeys, type MayReach } from "./keys.js";

const LEEWAY_S = 5;
const BASE64URL = /^[A-Za-z0-9_-]+$/;
const KEY_TYPES: ReadonlyMap<string, string> = new Map([
  ["RS256", "RSA"],
  ["ES256", "EC"],
  ["EdDSA", "OKP"],
]);
/** The largest time a Date can hold, in seconds. */
const MAX_TIME_S = 8_640_000_000_000;
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["picture", "pictureUrl"],
  ["profile", "profileUrl"],
  ["website", "websiteUrl"],
  ["birthdate", "birthday"],
  ["zoneinfo", "timezone"],
  ["locale", "language"],
  ["given_name", "givenName"],
  ["family_name", "familyName"],
  ["middle_name", "middleName"],
  ["preferred_username", "preferredUsername"],
  ["email_verified", "emailVerified"],
  ["phone_number", "phoneNumber"],
  ["phone_number_verified", "phoneNumberVerified"],
]);
const DROPPED = new Set(["iss", "sub", "aud", "exp", "iat", "nbf", "jti", "fva", "updated_at", "address"]);

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
/** A claim that is text, or "": nothing that a sender wrote is asked to turn itself into text. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function refuse(code: string, message: string): never {
  throw new UserError(code, message, undefined, 401);
}

function part(text: string | undefined): Record<string, unknown> {
  try {
    const parsed = BASE64URL.test(text ?? "") ? (JSON.parse(Buffer.from(text ?? "", "base64url").toString("utf8")) as unknown) : null;
    if (isRecord(parsed)) return parsed;
  } catch {
    // Falls through to the refusal.
  }
  return refuse("InvalidAuthHeader", "Could not parse JWT payload. Check that the token is a valid JWT format with three base64-encoded parts separated by dots.");
}

export async function verifyToken(jwt: string, providers: readonly AuthProvider[], nowMs: number, mayReach: MayReach): Promise<Identity> {
  const pieces = jwt.split(".");
  const header = part(pieces[0]);
  const claims = part(pieces[1]);
  if (pieces.length !== 3) refuse("InvalidAuthHeader", "Could not parse JWT payload.");
  const issuer = textOf(claims["iss"]);
  const audiences = (Array.isArray(claims["aud"]) ? claims["aud"] : [claims["aud"]]).filter((item) => typeof item === "string");
  const provider = providers.find(
    (candidate) => bareIssuer(candidate.issuer) === bareIssuer(issuer) && (candidate.applicationID === null || audiences.includes(candidate.applicationID)),
  );
  if (provider === undefined) {
    refuse("NoAuthProvider", "No auth provider found matching the given token. Check that your auth.config.ts file includes a provider that matches the token's issuer and audience.");
  }
  const custom = provider.type === "customJwt";
  const failed = (detail: string): never =>
    custom ? refuse("InvalidAuthHeader", detail) : refuse("Unauthenticated", "Could not verify OIDC token claim. Check that the token signature is valid and the token hasn't expired.");
  if (!custom && audiences.length !== 1) failed("");
  const algorithm = textOf(header["alg"]);
  const allowed = custom ? [provider.algorithm] : ["RS256", "EdDSA"];
  if (!allowed.includes(algorithm)) failed("Could not decode token. It is not signed by the algorithm of its provider.");
  if (custom && typeof header["kid"] !== "string") failed("Could not decode token. The header has no `kid`.");
  const keys = await fetchKeys(provider, issuer, mayReach);
  const signed = Buffer.from(`${pieces[0] as string}.${pieces[1] as string}`);
  const signature = Buffer.from(pieces[2] as string, "base64url");
  const candidates = keys.filter((key) => header["kid"] === undefined || key["kid"] === header["kid"]);
  if (!candidates.some((key) => verifies(algorithm, key, signed, signature))) failed("Could not decode token. No key of its provider has signed it.");
  checkTimes(claims, nowMs, custom, failed);
  const subject = claims["sub"];
  if (typeof subject !== "string") return failed("Missing sub claim");
  const who = { tokenIdentifier: `${issuer}|${subject}`, issuer, subject };
  return {
    kind: "user",
    actingAs: false,
    expires: typeof claims["exp"] === "number" ? claims["exp"] * 1000 : null,
    attributes: { ...(custom ? customAttributes(claims) : oidcAttributes(claims)), ...who },
  };
}

function checkTimes(claims: Record<string, unknown>, nowMs: number, custom: boolean, failed: (detail: string) => never): void {
  const now = nowMs / 1000;
  const leeway = custom ? LEEWAY_S : 0;
  if (typeof claims["exp"] !== "number") failed("Missing exp claim");
  else if (claims["exp"] + leeway <= now) failed("Could not validate token: expired");
  if (typeof claims["nbf"] === "number" && custom && claims["nbf"] - leeway > now) failed("Could not validate token: not yet valid");
  if (typeof claims["iat"] === "number" && custom && claims["iat"] - leeway > now) failed("Could not validate token: issued in the future");
}

function verifies(algorithm: string, key: JsonWebKey, signed: Buffer, signature: Buffer): boolean {
  if (key["kty"] !== KEY_TYPES.get(algorithm)) return false;
  try {
    const publicKey = createPublicKey({ key, format: "jwk" });
    if (algorithm === "RS256") return verify("RSA-SHA256", signed, publicKey, signature);
    if (algorithm === "ES256") return verify("SHA256", signed, { key: publicKey, dsaEncoding: "ieee-p1363" }, signature);
    return verify(null, signed, publicKey, signature);
  } catch {
    return false;
  }
}

function oidcAttributes(claims: Record<string, unknown>): Record<string, unknown> {
  const named = Object.entries(claims).filter(([name, value]) => !DROPPED.has(name) && value !== null);
  const attributes = Object.fromEntries(named.map(([name, value]) => [RENAMED.get(name) ?? name, value]));
  const updated = claims["updated_at"];
  if (typeof updated === "number" && Math.abs(updated) <= MAX_TIME_S) attributes["updatedAt"] = new Date(updated * 1000).toISOString().replace(".000Z", "+00:00");
  const { address } = claims;
  if (isRecord(address) && typeof address["formatted"] === "string") attributes["address"] = address["formatted"];
  return attributes;
}

function customAttributes(claims: Record<string, unknown>): Record<string, unknown> {
  const flat: [string, unknown][] = [];
  const flatten = (name: string, value: unknown): void => {
    if (isRecord(value)) for (const [inner, item] of Object.entries(value)) flatten(`${name}.${inner}`, item);
    else flat.push([name, value]);
  };
  for (const [name, value] of Object.entries(claims)) if (name !== "iss" && name !== "sub" && name !== "fva") flatten(name, value);
  return Object.fromEntries(flat);
}
