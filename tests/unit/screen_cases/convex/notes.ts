import { v } from "convex/values";
import { mutation, query } from "./_generated/server";

export const list = query({
  args: {},
  handler: async (ctx) => (await ctx.db.query("notes").collect()).map((note) => note.text),
});

export const add = mutation({
  args: { text: v.string() },
  handler: async (ctx, { text }) => {
    if (text === "") throw new Error("a note needs a text");
    await ctx.db.insert("notes", { text });
  },
});
