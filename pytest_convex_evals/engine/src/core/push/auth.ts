/** Checks of the evaluated auth.config. */

import { bareIssuer } from "../auth/keys.js";
import type { AuthProvider } from "../deployment.js";
import { UserError } from "../errors.js";

/** WorkOS signs the tokens of every customer under this name. */
const SHARED_ISSUER = "https://api.workos.com";

function mismatch(detail: string): never {
  throw new UserError("AuthConfigNotMatchingSchemaError", `auth config file must include a list of provider credentials: ${detail}`);
}

function checkUrl(text: string): string {
  const full = /^[a-z]+:\/\//i.test(text) || text.startsWith("data:") ? text : `https://${text}`;
  const isKnown = /^https?:\/\//i.test(text) || text.startsWith("data:") || text.includes(".") || text.startsWith("localhost");
  if (/^["']/.test(text) || !isKnown || !(/^https?:\/\//i.test(full) || full.startsWith("data:")) || !URL.canParse(full)) {
    throw new UserError("InvalidProviderDomainUrl", `Invalid provider domain URL "${text}": it must be an http(s) URL`);
  }
  return full;
}

export function parseAuthConfig(text: string): AuthProvider[] {
  const config = JSON.parse(text) as { providers?: unknown };
  if (typeof config !== "object" || config === null || !Array.isArray(config.providers)) mismatch("`providers` must be an array");
  return (config.providers as Record<string, unknown>[]).map((provider, at) => {
    const string = (name: string): string => {
      const value = provider[name];
      return typeof value === "string" ? value : mismatch(`providers[${at}].${name} must be a string`);
    };
    if (typeof provider !== "object" || provider === null) mismatch(`providers[${at}] must be an object`);
    if ("applicationId" in provider && !("applicationID" in provider)) mismatch(`providers[${at}].applicationID must be a string: it is spelt applicationId`);
    if (provider["type"] === "customJwt") {
      if ("domain" in provider) mismatch(`providers[${at}] of type customJwt must not have a domain`);
      const algorithm = string("algorithm");
      if (algorithm !== "RS256" && algorithm !== "ES256") mismatch(`providers[${at}].algorithm must be RS256 or ES256`);
      const applicationID = (provider["applicationID"] ?? null) === null ? null : string("applicationID");
      const issuer = checkUrl(string("issuer"));
      if (applicationID === null && bareIssuer(issuer) === SHARED_ISSUER) {
        throw new UserError("InsecureConfiguration", `The issuer ${issuer} is shared by all its customers: providers[${at}] needs an applicationID`);
      }
      return {
        type: "customJwt",
        issuer,
        jwks: checkUrl(string("jwks")),
        algorithm,
        applicationID,
      };
    }
    if (provider["type"] !== undefined && provider["type"] !== "oidc") mismatch(`providers[${at}].type is unknown`);
    if ("issuer" in provider) mismatch(`providers[${at}] must not have an issuer`);
    return { type: "oidc", issuer: checkUrl(string("domain")), applicationID: string("applicationID"), jwks: null, algorithm: null };
  });
}
