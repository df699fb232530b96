import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  wallets: defineTable({
    tag: v.string(),
    cents: v.number(),
  }).index("by_tag", ["tag"]),
  transfers: defineTable({
    requestId: v.string(),
    from: v.string(),
    to: v.string(),
    cents: v.number(),
    left: v.number(),
  }).index("by_request", ["requestId"]),
});
