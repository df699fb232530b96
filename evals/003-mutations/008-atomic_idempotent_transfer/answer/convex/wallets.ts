import { ConvexError, v } from "convex/values";
import { mutation, type QueryCtx } from "./_generated/server";

async function walletOf(ctx: QueryCtx, tag: string) {
  const wallet = await ctx.db
    .query("wallets")
    .withIndex("by_tag", (q) => q.eq("tag", tag))
    .unique();
  if (wallet === null) throw new ConvexError(`There is no wallet for ${tag}.`);
  return wallet;
}

export const transfer = mutation({
  args: { requestId: v.string(), from: v.string(), to: v.string(), cents: v.number() },
  returns: v.object({ transferId: v.id("transfers"), left: v.number() }),
  handler: async (ctx, { requestId, from, to, cents }) => {
    const earlier = await ctx.db
      .query("transfers")
      .withIndex("by_request", (q) => q.eq("requestId", requestId))
      .unique();
    if (earlier !== null) {
      if (earlier.from !== from || earlier.to !== to || earlier.cents !== cents) {
        throw new ConvexError("This request was already used for another transfer.");
      }
      return { transferId: earlier._id, left: earlier.left };
    }

    if (!Number.isSafeInteger(cents) || cents < 1) throw new ConvexError("Transfer whole cents, at least one.");
    if (from === to) throw new ConvexError("A wallet cannot pay itself.");
    const payer = await walletOf(ctx, from);
    const payee = await walletOf(ctx, to);
    if (payer.cents < cents) throw new ConvexError("The wallet does not hold enough.");

    const left = payer.cents - cents;
    await ctx.db.patch("wallets", payer._id, { cents: left });
    await ctx.db.patch("wallets", payee._id, { cents: payee.cents + cents });
    const transferId = await ctx.db.insert("transfers", { requestId, from, to, cents, left });
    return { transferId, left };
  },
});
