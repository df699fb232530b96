/** Who calls: nobody, an administrator, or a user (by token or by an administrator acting as one). */

import { UserError } from "../errors.js";

export type Identity =
  | { kind: "anonymous" }
  | { kind: "admin" }
  | { kind: "user"; attributes: Record<string, unknown>; actingAs: boolean; expires: number | null }
  /** A token that was not accepted, where the request goes on without it: asking for the identity throws. */
  | { kind: "refused"; message: string };

export const ANONYMOUS: Identity = { kind: "anonymous" };
export const ADMIN: Identity = { kind: "admin" };

/** Admins and those they act as may call internal functions. */
export function seesInternal(identity: Identity): boolean {
  return identity.kind === "admin" || (identity.kind === "user" && identity.actingAs);
}

export function isAdmin(identity: Identity): boolean {
  return identity.kind === "admin";
}

/** What `ctx.auth.getUserIdentity()` returns. */
export function userIdentity(identity: Identity): Record<string, unknown> | null {
  if (identity.kind === "refused") throw new UserError("Unauthenticated", identity.message, undefined, 401);
  return identity.kind === "user" ? identity.attributes : null;
}

/** The identity an admin acts as, from the attributes it gives. */
export function actingAs(attributes: unknown): Identity {
  if (typeof attributes !== "object" || attributes === null || Array.isArray(attributes)) {
    throw new UserError("HeaderParseFailure", "Acting-as attributes must be an object");
  }
  const given = attributes as Record<string, unknown>;
  const [issuer, subject, token] = ["issuer", "subject", "tokenIdentifier"].map((name) => textOrNothing(given, name));
  if (token === undefined && (issuer === undefined || subject === undefined)) {
    throw new UserError("HeaderParseFailure", "Acting-as attributes need a tokenIdentifier, or an issuer and a subject");
  }
  const tokenIdentifier = token ?? `${issuer as string}|${subject as string}`;
  const [first, ...rest] = tokenIdentifier.split("|");
  return {
    kind: "user",
    actingAs: true,
    expires: null,
    attributes: { ...given, tokenIdentifier, issuer: issuer ?? first, subject: subject ?? rest.join("|") },
  };
}

function textOrNothing(attributes: Record<string, unknown>, name: string): string | undefined {
  const value = attributes[name] ?? undefined;
  if (value !== undefined && typeof value !== "string") throw new UserError("HeaderParseFailure", `Acting-as attribute \`${name}\` must be a string`);
  return value;
}

/** Across components an action passes only a plain admin identity. */
export function identityForActionCall(identity: Identity, fromApp: boolean, toApp: boolean): Identity {
  return identity.kind === "admin" || (fromApp && toApp) ? identity : ANONYMOUS;
}
