import { NonRetryableError, Workpool } from "@convex-dev/workpool";
import { v } from "convex/values";

import { components, internal } from "./_generated/api";
import { internalAction, internalMutation, internalQuery } from "./_generated/server";

const behaviour = { maxAttempts: 4, initialBackoffMs: 1000, base: 2 };
export const two = new Workpool(components.two, { maxParallelism: 2, defaultRetryBehavior: behaviour, retryActionsByDefault: true, logLevel: "ERROR" });
export const many = new Workpool(components.many, { maxParallelism: 20, logLevel: "ERROR" });

export const note = internalMutation({
  args: { text: v.string() },
  handler: async (ctx, { text }) => {
    await ctx.db.insert("notes", { text, at: Date.now() });
    if (text === "fail") throw new Error("no such note");
    return text.length;
  },
});
export const slow = internalAction({
  args: { name: v.string(), ms: v.number() },
  handler: async (ctx, { name, ms }) => {
    await ctx.runMutation(internal.project.note, { text: `${name} begins` });
    await new Promise((resolve) => setTimeout(resolve, ms));
    await ctx.runMutation(internal.project.note, { text: `${name} ends` });
    return name;
  },
});
export const flaky = internalAction({
  args: { name: v.string(), failures: v.number(), final: v.optional(v.boolean()) },
  handler: async (ctx, { name, failures, final }) => {
    await ctx.runMutation(internal.project.note, { text: name });
    if (final) throw new NonRetryableError("never again");
    const tries = await ctx.runQuery(internal.project.count, { text: name });
    if (tries <= failures) throw new Error(`attempt ${tries}`);
    return tries;
  },
});
export const count = internalQuery({
  args: { text: v.string() },
  handler: async (ctx, { text }) => (await ctx.db.query("notes").collect()).filter((row) => row.text === text).length,
});
export const completed = two.defineOnComplete({
  context: v.string(),
  handler: async (ctx, { workId, context, result }) => {
    await ctx.db.insert("results", { workId, context, result, at: Date.now() });
  },
});
