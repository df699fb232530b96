/** From headers and tokens to identities. */

import { timingSafeEqual } from "node:crypto";

import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { mayReachDirectly } from "../functions/fetch.js";
import { actingAs, ADMIN, ANONYMOUS, type Identity } from "./identity.js";
import { verifyToken } from "./jwt.js";

/** The public default of the Convex development instance: suites in the vitest layout hold it, and submissions may know it. */
const DEVELOPMENT_KEY =
  "0135d8598650f8f5cb0f30c34ec2e2bb62793bc28717c8eb6fb577996d50be5f4281b59181095065c5d0f86a2c31ddbe9b597ec62b47ded69782cd";

export class Authenticator {
  /** The key that everybody knows counts, until everything is dropped. */
  acceptsDevelopmentKey = false;

  constructor(private readonly engine: Engine) {}

  isAdminKey(key: string): boolean {
    const bare = key.includes("|") ? key.slice(key.indexOf("|") + 1) : key;
    const own = this.engine.adminKey.includes("|") ? this.engine.adminKey.slice(this.engine.adminKey.indexOf("|") + 1) : this.engine.adminKey;
    return same(bare, own) || (this.acceptsDevelopmentKey && same(bare, DEVELOPMENT_KEY));
  }

  /** The identity of an admin key that may carry attributes to act as: `key` or `key:base64`. */
  admin(key: string): Identity {
    const colon = key.indexOf(":");
    const bare = colon === -1 ? key : key.slice(0, colon);
    if (!this.isAdminKey(bare)) {
      throw new UserError("BadDeployKey", "The provided deploy key was invalid for deployment", undefined, 403);
    }
    if (colon === -1) return ADMIN;
    let attributes: unknown;
    try {
      attributes = JSON.parse(Buffer.from(key.slice(colon + 1), "base64").toString("utf8"));
    } catch {
      throw new UserError("HeaderParseFailure", "Could not parse the acting-as attributes");
    }
    return actingAs(attributes);
  }

  async token(jwt: string): Promise<Identity> {
    const mayAsk = (url: string): boolean => this.engine.anyIssuer || mayReachDirectly(this.engine, url);
    return verifyToken(jwt, this.engine.deployment.auth, this.engine.clock.nowMs(), mayAsk);
  }

  async header(authorization: string | undefined): Promise<Identity> {
    if (authorization === undefined || authorization === "") return ANONYMOUS;
    if (authorization.length < 7) throw new UserError("InvalidHeaderFailure", "Invalid authorization header");
    const lower = authorization.toLowerCase();
    if (lower.startsWith("convex ")) return this.admin(authorization.slice(7).trim());
    if (lower.startsWith("bearer ")) return this.token(authorization.slice(7).trim());
    throw new UserError("InvalidAdminKey", "Unknown authorization scheme");
  }
}

function same(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
