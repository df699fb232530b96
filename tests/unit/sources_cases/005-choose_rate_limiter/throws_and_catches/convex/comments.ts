import { v } from "convex/values";
import * as server from "./_generated/server";
import * as limits from "./limits";

export const post = server.mutation({
  args: v.object({ author: v.string(), text: v.string() }),
  async handler(ctx, args) {
    const text = args.text.trim();
    if (!text) throw new Error("empty");
    const retryAfter = await limits.spend(ctx, args.author);
    if (retryAfter !== null) return { accepted: false, retryAfter };
    return { accepted: true, id: await ctx.db.insert("comments", { author: args.author, text }) };
  },
});

export const canPost = server.query({
  args: { author: v.string() },
  handler: async (ctx, args) => limits.peek(ctx, args.author).then((status) => status.ok),
});
