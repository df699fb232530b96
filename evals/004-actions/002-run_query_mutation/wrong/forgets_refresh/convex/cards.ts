import { ConvexError, v } from "convex/values";
import { internal } from "./_generated/api";
import { action, internalMutation, internalQuery, type QueryCtx } from "./_generated/server";

type Description = { title: string; episodes: number };

function cardOf(ctx: QueryCtx, url: string) {
  return ctx.db
    .query("cards")
    .withIndex("by_url", (q) => q.eq("url", url))
    .unique();
}

export const find = internalQuery({
  args: { url: v.string() },
  handler: async (ctx, { url }) => await cardOf(ctx, url),
});

export const save = internalMutation({
  args: { url: v.string(), title: v.string(), episodes: v.number() },
  handler: async (ctx, { url, title, episodes }) => {
    const card = await cardOf(ctx, url);
    if (card === null) await ctx.db.insert("cards", { url, title, episodes });
    else await ctx.db.patch("cards", card._id, { title, episodes });
  },
});

async function fetchDescription(url: string): Promise<Description> {
  const response = await fetch(url);
  if (!response.ok) throw new ConvexError(`The show answered with status ${response.status}.`);
  const body: unknown = await response.json();
  if (typeof body === "object" && body !== null && "title" in body && "episodes" in body) {
    const { title, episodes } = body;
    if (typeof title === "string" && typeof episodes === "number") return { title, episodes };
  }
  throw new ConvexError("The show did not describe itself.");
}

export const load = action({
  args: { url: v.string(), refresh: v.optional(v.boolean()) },
  returns: v.object({ title: v.string(), episodes: v.number(), cached: v.boolean() }),
  handler: async (ctx, { url, refresh }): Promise<Description & { cached: boolean }> => {
    const card = await ctx.runQuery(internal.cards.find, { url });
    if (card !== null) return { title: card.title, episodes: card.episodes, cached: refresh !== true };
    const description = await fetchDescription(url);
    await ctx.runMutation(internal.cards.save, { url, ...description });
    return { ...description, cached: false };
  },
});
