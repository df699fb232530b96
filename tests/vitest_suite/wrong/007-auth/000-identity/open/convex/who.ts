import { mutation, query } from "./_generated/server";

export const me = query({
  args: {},
  handler: async (ctx) => (await ctx.auth.getUserIdentity())?.name ?? null,
});

export const secret = mutation({
  args: {},
  handler: async (ctx) => {
    if ((await ctx.auth.getUserIdentity()) === undefined) throw new Error("nobody is signed in");
    return "42";
  },
});
