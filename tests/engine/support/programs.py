# ruff: noqa: E501 - programs in tables stay on one line
"""A project whose functions run a given piece of code, for tables of small programs."""

PROGRAMS = """
import { query, mutation, action, internalQuery, internalMutation } from "./_generated/server";
import { v, ConvexError } from "convex/values";
import { api, internal, components } from "./_generated/api";

const tools = { v, ConvexError, api, internal, components };
const compile = (code) => new Function("ctx", "args", "t", `return (async () => { ${code} })()`);
const program = { args: { code: v.string(), args: v.optional(v.any()) }, handler: (ctx, { code, args }) => compile(code)(ctx, args, tools) };

export const q = query(program);
export const m = mutation(program);
export const a = action(program);
export const innerQ = internalQuery(program);
export const innerM = internalMutation(program);
"""
