import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  passages: defineTable({
    stop: v.string(),
    line: v.string(),
    passedAt: v.number(),
    delay: v.optional(v.number()),
  }).index("by_stop_and_passedAt", ["stop", "passedAt"]),
});
