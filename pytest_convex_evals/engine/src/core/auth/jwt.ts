/** JSON web tokens by the providers of auth.config: OIDC discovery and custom JWT. */

import { createPublicKey, verify, type JsonWebKey } from "node:crypto";

import type { AuthProvider } from "../deployment.js";
import { UserError } from "../errors.js";
import type { Identity } from "./identity.js";

const LEEWAY_S = 5;
const RENAMED: Record<string, string> = {
  picture: "pictureUrl",
  profile: "profileUrl",
  website: "websiteUrl",
  birthdate: "birthday",
  zoneinfo: "timezone",
  locale: "language",
  given_name: "givenName",
  family_name: "familyName",
  middle_name: "middleName",
  preferred_username: "preferredUsername",
  email_verified: "emailVerified",
  phone_number: "phoneNumber",
  phone_number_verified: "phoneNumberVerified",
};
const DROPPED = new Set(["iss", "sub", "aud", "exp", "iat", "nbf", "jti", "fva", "updated_at", "address"]);

function refuse(code: string, message: string): never {
  throw new UserError(code, message, undefined, 401);
}

function part(text: string | undefined): Record<string, unknown> {
  try {
    const parsed = JSON.parse(Buffer.from(text ?? "", "base64url").toString("utf8")) as unknown;
    if (typeof parsed === "object" && parsed !== null) return parsed as Record<string, unknown>;
  } catch {
    // Falls through to the refusal.
  }
  return refuse("InvalidAuthHeader", "Could not parse JWT payload. Check that the token is a valid JWT format with three base64-encoded parts separated by dots.");
}

const bareIssuer = (issuer: string): string => (/^https?:\/\//.test(issuer) ? issuer : `https://${issuer}`).replace(/\/$/, "");

export async function verifyToken(jwt: string, providers: readonly AuthProvider[], nowMs: number): Promise<Identity> {
  const pieces = jwt.split(".");
  const header = part(pieces[0]);
  const claims = part(pieces[1]);
  if (pieces.length !== 3) refuse("InvalidAuthHeader", "Could not parse JWT payload.");
  const issuer = String(claims["iss"] ?? "");
  const audiences = (Array.isArray(claims["aud"]) ? claims["aud"] : claims["aud"] === undefined ? [] : [claims["aud"]]).map(String);
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
  const algorithm = String(header["alg"]);
  const allowed = custom ? [provider.algorithm] : ["RS256", "EdDSA"];
  if (!allowed.includes(algorithm)) failed(`Could not validate token: unexpected algorithm ${algorithm}`);
  const keys = await fetchKeys(provider, issuer);
  const signed = Buffer.from(`${pieces[0] as string}.${pieces[1] as string}`);
  const signature = Buffer.from(pieces[2] as string, "base64url");
  const candidates = keys.filter((key) => header["kid"] === undefined || key["kid"] === header["kid"]);
  if (!candidates.some((key) => verifies(algorithm, key, signed, signature))) failed("Could not validate token: bad signature");
  checkTimes(claims, nowMs, custom, failed);
  if (typeof claims["sub"] !== "string") failed("Missing sub claim");
  return {
    kind: "user",
    actingAs: false,
    expires: typeof claims["exp"] === "number" ? claims["exp"] * 1000 : null,
    attributes: custom ? customAttributes(claims, issuer) : oidcAttributes(claims, issuer),
  };
}

function checkTimes(claims: Record<string, unknown>, nowMs: number, custom: boolean, failed: (detail: string) => never): void {
  const now = nowMs / 1000;
  const leeway = custom ? LEEWAY_S : 0;
  if (typeof claims["exp"] !== "number") failed("Missing exp claim");
  else if (claims["exp"] + leeway < now) failed("Could not validate token: expired");
  if (typeof claims["nbf"] === "number" && custom && claims["nbf"] - leeway > now) failed("Could not validate token: not yet valid");
  if (typeof claims["iat"] === "number" && custom && claims["iat"] - leeway > now) failed("Could not validate token: issued in the future");
}

async function fetchKeys(provider: AuthProvider, issuer: string): Promise<JsonWebKey[]> {
  let url = provider.jwks;
  try {
    if (url === null) {
      const answer = await fetch(`${bareIssuer(issuer)}/.well-known/openid-configuration`);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      url = String(((await answer.json()) as { jwks_uri?: unknown }).jwks_uri);
    }
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return ((await answer.json()) as { keys: JsonWebKey[] }).keys;
  } catch (error) {
    throw new UserError("AuthProviderDiscoveryFailed", `Auth provider discovery of ${issuer} failed: ${String(error)}`);
  }
}

function verifies(algorithm: string, key: JsonWebKey, signed: Buffer, signature: Buffer): boolean {
  try {
    const publicKey = createPublicKey({ key, format: "jwk" });
    if (algorithm === "RS256") return verify("RSA-SHA256", signed, publicKey, signature);
    if (algorithm === "ES256") return verify("SHA256", signed, { key: publicKey, dsaEncoding: "ieee-p1363" }, signature);
    return verify(null, signed, publicKey, signature);
  } catch {
    return false;
  }
}

function oidcAttributes(claims: Record<string, unknown>, issuer: string): Record<string, unknown> {
  const attributes: Record<string, unknown> = { tokenIdentifier: `${issuer}|${String(claims["sub"])}`, issuer, subject: claims["sub"] };
  for (const [name, value] of Object.entries(claims)) if (!DROPPED.has(name) && value !== null) attributes[RENAMED[name] ?? name] = value;
  const updated = claims["updated_at"];
  if (typeof updated === "number") attributes["updatedAt"] = new Date(updated * 1000).toISOString().replace(".000Z", "+00:00");
  const address = claims["address"] as { formatted?: unknown } | undefined;
  if (typeof address?.formatted === "string") attributes["address"] = address.formatted;
  return attributes;
}

function customAttributes(claims: Record<string, unknown>, issuer: string): Record<string, unknown> {
  const attributes: Record<string, unknown> = { tokenIdentifier: `${issuer}|${String(claims["sub"])}`, issuer, subject: claims["sub"] };
  const flatten = (prefix: string, value: unknown): void => {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      for (const [name, inner] of Object.entries(value)) flatten(`${prefix}.${name}`, inner);
    } else attributes[prefix] = value;
  };
  for (const [name, value] of Object.entries(claims)) if (name !== "iss" && name !== "sub" && name !== "fva") flatten(name, value);
  return attributes;
}
