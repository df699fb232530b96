import { query, mutation, action } from "./_generated/server";
import { v } from "convex/values";
import { components } from "./_generated/api";
const inner = (name: string) => (components as any)[name].lib;
export const list = query({
  args: {},
  handler: async (ctx) => [
    (await ctx.db.query("rows").collect()).map((row) => row.text),
    await ctx.runQuery(inner("inner").list, {}),
    await ctx.runQuery(inner("second").list, {}),
  ],
});
export const add = mutation({
  args: {
    text: v.string(),
    inner: v.optional(v.string()),
    failInner: v.optional(v.boolean()),
    failOuter: v.optional(v.boolean()),
    catches: v.optional(v.boolean()),
  },
  handler: async (ctx, args) => {
    await ctx.db.insert("rows", { text: args.text });
    try {
      await ctx.runMutation(inner(args.inner ?? "inner").add, { text: args.text, fail: args.failInner });
    } catch (error) {
      if (!args.catches) throw error;
      await ctx.db.insert("rows", { text: "caught" });
    }
    if (args.failOuter) throw new Error("outer fails");
  },
});
export const pass = mutation({
  args: { handle: v.string(), later: v.optional(v.boolean()), args: v.any() },
  handler: (ctx, args): Promise<any> => ctx.runMutation(inner("inner").callBack, args),
});
export const act = action({
  args: { fn: v.string(), args: v.any() },
  handler: (ctx, { fn, args }): Promise<any> =>
    fn === "url" || fn === "get" || fn === "env" || fn === "where"
      ? ctx.runQuery(inner("inner")[fn], args)
      : ctx.runAction(inner("inner")[fn], args),
});
export const ask = query({
  args: { fn: v.string(), args: v.any() },
  handler: (ctx, { fn, args }): Promise<any> => ctx.runQuery(inner("inner")[fn], args),
});
