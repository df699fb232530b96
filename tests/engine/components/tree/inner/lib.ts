import { createFunctionHandle } from "convex/server";
import { query, mutation, action, internalMutation } from "./_generated/server";
import { v } from "convex/values";
import { internal, api } from "./_generated/api";
export const list = query({ args: {}, handler: async (ctx) => (await ctx.db.query("rows").collect()).map((row) => row.text) });
export const add = mutation({
  args: { text: v.string(), fail: v.optional(v.boolean()) },
  returns: v.id("rows"),
  handler: async (ctx, { text, fail }) => {
    const id = await ctx.db.insert("rows", { text });
    await ctx.scheduler.runAfter(1000, internal.lib.tick, { text: text + " later" });
    if (fail) throw new Error("inner fails");
    return id;
  },
});
export const tick = internalMutation({
  args: { text: v.string() },
  handler: async (ctx, { text }) => {
    await ctx.db.insert("rows", { text });
  },
});
export const get = query({ args: { id: v.id("rows") }, handler: (ctx, { id }) => ctx.db.get(id) });
export const env = query({
  args: {},
  handler: async () => [process.env.LEVEL ?? null, process.env.TOP ?? null, process.env.CONVEX_SITE_URL !== undefined],
});
export const store = action({
  args: {},
  handler: async (ctx) => await ctx.storage.store(new Blob(["inner file"], { type: "text/plain" })),
});
export const url = query({ args: { id: v.string() }, handler: (ctx, { id }) => ctx.storage.getUrl(id as any) });
export const callBack = mutation({
  args: { handle: v.string(), later: v.optional(v.boolean()), args: v.any() },
  handler: async (ctx, { handle, later, args }) => {
    await ctx.db.insert("rows", { text: "calls back" });
    if (later) return await ctx.scheduler.runAfter(0, handle as any, args);
    return await ctx.runMutation(handle as any, args);
  },
});
export const actBack = action({
  args: { handle: v.string(), args: v.any() },
  handler: (ctx, { handle, args }) => ctx.runQuery(handle as any, args),
});
export const mine = query({
  args: {},
  handler: async () => [await createFunctionHandle(internal.lib.tick), await createFunctionHandle(api.lib.add)],
});
export const wrong = query({ args: {}, returns: v.string(), handler: async () => 5 as any });
export const where = query({ args: {}, handler: async (ctx: any) => await ctx.meta.getFunctionMetadata() });
