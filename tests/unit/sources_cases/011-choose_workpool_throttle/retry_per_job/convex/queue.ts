import { v } from "convex/values";
import { internal } from "./_generated/api";
import { internalMutation } from "./_generated/server";
import { partnerPool } from "./pools/partner";
import { patience } from "./pools/settings";

const job = { work: internal.partner.tell };

export const add = internalMutation({
  args: { orderId: v.id("orders") },
  handler: async (ctx, args) => {
    await partnerPool().enqueueAction(ctx, job.work, args, { retry: patience });
  },
});
