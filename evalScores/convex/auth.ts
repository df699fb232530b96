// Tokens, and the builders of functions that ask for one.
import { customMutation, customQuery } from "convex-helpers/server/customFunctions";
import { v } from "convex/values";
import type { Doc } from "./_generated/dataModel";
import { internalMutation, internalQuery, mutation, query, type QueryCtx } from "./_generated/server";
import { refusal, unauthorized } from "./errors";
import { checkName, sha256Hex } from "./input";
import { LAST_USE_RESOLUTION } from "./limits";
import { scope, type Scope } from "./validators";

const LISTED = 1_000;

async function authenticate(ctx: QueryCtx, token: string, needed: Scope | null): Promise<Doc<"authTokens">> {
  const hash = await sha256Hex(token);
  const found = await ctx.db
    .query("authTokens")
    .withIndex("by_hash", (q) => q.eq("hash", hash))
    .unique();
  if (found === null) throw unauthorized("unknown", "The token is unknown. Make one with `convex-evals token create`.");
  if (found.revokedAt !== undefined) throw unauthorized("revoked", `The token ${found.name} has been revoked.`);
  if (found.expiresAt !== undefined && found.expiresAt <= Date.now()) throw unauthorized("expired", `The token ${found.name} has expired.`);
  if (needed !== null && !found.scopes.includes(needed)) {
    throw unauthorized("scope", `The token ${found.name} has the scopes ${found.scopes.join(", ")}; this needs ${needed}.`);
  }
  return found;
}

function mutationWith(needed: Scope) {
  return customMutation(mutation, {
    args: { token: v.string() },
    input: async (ctx, { token }) => {
      const caller = await authenticate(ctx, token, needed);
      if (Date.now() - (caller.lastUsedAt ?? 0) >= LAST_USE_RESOLUTION) await ctx.db.patch(caller._id, { lastUsedAt: Date.now() });
      return { ctx: { caller: caller.name }, args: {} };
    },
  });
}

function queryWith(needed: Scope | null) {
  return customQuery(query, {
    args: { token: v.string() },
    input: async (ctx, { token }) => ({ ctx: { caller: await authenticate(ctx, token, needed) }, args: {} }),
  });
}

export const reportMutation = mutationWith("report");
export const reportQuery = queryWith("report");
export const maintainMutation = mutationWith("maintain");
export const mintMutation = mutationWith("mint");
export const mintQuery = queryWith("mint");
export const tokenQuery = queryWith(null);

export const createToken = internalMutation({
  args: { name: v.string(), hash: v.string(), scopes: v.array(scope), expiresAt: v.optional(v.number()) },
  returns: v.null(),
  handler: async (ctx, args) => {
    checkName("name of the token", args.name);
    if (!/^[0-9a-f]{64}$/.test(args.hash)) throw refusal("invalid", "The hash must be the SHA-256 of the token in lower-case hex.");
    if (args.scopes.length === 0) throw refusal("invalid", "A token needs at least one scope: report, maintain or mint.");
    const named = await ctx.db
      .query("authTokens")
      .withIndex("by_name", (q) => q.eq("name", args.name))
      .unique();
    if (named?.hash === args.hash) return null;
    const known = await ctx.db
      .query("authTokens")
      .withIndex("by_hash", (q) => q.eq("hash", args.hash))
      .unique();
    if (named !== null || known !== null) {
      throw refusal("conflict", `There is a token ${(named ?? known)?.name} already, revoked ones included. Choose another name.`);
    }
    await ctx.db.insert("authTokens", { ...args, scopes: [...new Set(args.scopes)] });
    return null;
  },
});

const time = v.union(v.number(), v.null());

export const listTokens = internalQuery({
  args: {},
  returns: v.array(
    v.object({ name: v.string(), scopes: v.array(scope), createdAt: v.number(), expiresAt: time, lastUsedAt: time, revokedAt: time }),
  ),
  handler: async (ctx) => {
    const tokens = await ctx.db.query("authTokens").order("desc").take(LISTED);
    return tokens.map((token) => ({
      name: token.name,
      scopes: token.scopes,
      createdAt: token._creationTime,
      expiresAt: token.expiresAt ?? null,
      lastUsedAt: token.lastUsedAt ?? null,
      revokedAt: token.revokedAt ?? null,
    }));
  },
});

export const revokeToken = internalMutation({
  args: { name: v.string() },
  returns: v.null(),
  handler: async (ctx, { name }) => {
    const token = await ctx.db
      .query("authTokens")
      .withIndex("by_name", (q) => q.eq("name", name))
      .unique();
    if (token === null) throw refusal("invalid", `There is no token ${name}. See \`convex-evals token list\`.`);
    if (token.revokedAt === undefined) await ctx.db.patch(token._id, { revokedAt: Date.now() });
    return null;
  },
});
