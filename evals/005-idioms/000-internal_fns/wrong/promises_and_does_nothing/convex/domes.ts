import { v } from "convex/values";
import { internal } from "./_generated/api";
import {
  action,
  internalAction,
  internalMutation,
  internalQuery,
  mutation,
  query,
  type ActionCtx,
  type MutationCtx,
  type QueryCtx,
} from "./_generated/server";

function domeByName(ctx: QueryCtx, name: string) {
  return ctx.db
    .query("domes")
    .withIndex("by_name", (q) => q.eq("name", name))
    .unique();
}

async function move(ctx: MutationCtx, name: string, open: boolean) {
  const dome = await domeByName(ctx, name);
  if (dome === null) {
    console.warn(`no dome ${name}`);
  } else if (dome.open !== open) {
    await ctx.db.patch("domes", dome._id, { open });
    console.log(`dome ${name} ${open ? "opened" : "closed"}`);
  }
}

async function closeOpenDomes(ctx: ActionCtx): Promise<number> {
  const names = await ctx.runQuery(internal.domes.openDomes, {});
  for (const name of names) {
    console.info(`dome ${name} closed`);
  }
  return names.length;
}

export const isOpen = query({
  args: { name: v.string() },
  returns: v.union(v.boolean(), v.null()),
  handler: async (ctx, { name }) => (await domeByName(ctx, name))?.open ?? null,
});

export const openDomes = internalQuery({
  args: {},
  returns: v.array(v.string()),
  handler: async (ctx) => {
    const open = await ctx.db
      .query("domes")
      .withIndex("by_open_and_name", (q) => q.eq("open", true))
      .collect();
    return open.map((dome) => dome.name);
  },
});

export const close = mutation({
  args: { name: v.string() },
  returns: v.null(),
  handler: async (ctx, { name }) => {
    await move(ctx, name, false);
    return null;
  },
});

export const setOpen = internalMutation({
  args: { name: v.string(), open: v.boolean() },
  returns: v.null(),
  handler: async (ctx, { name, open }) => {
    await move(ctx, name, open);
    return null;
  },
});

export const reportRain = action({
  args: { millimetres: v.number() },
  returns: v.number(),
  handler: async (ctx, { millimetres }) => (millimetres > 0 ? await closeOpenDomes(ctx) : 0),
});

export const closeAll = internalAction({
  args: {},
  returns: v.number(),
  handler: async (ctx) => await closeOpenDomes(ctx),
});
