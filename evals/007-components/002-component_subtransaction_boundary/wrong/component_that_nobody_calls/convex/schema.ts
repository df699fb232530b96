import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  seats: defineTable({
    label: v.string(),
    holder: v.union(v.string(), v.null()),
  }).index("by_label", ["label"]),
  requests: defineTable({
    guest: v.string(),
    labels: v.array(v.string()),
    status: v.union(v.literal("seated"), v.literal("waiting")),
  }),
});
