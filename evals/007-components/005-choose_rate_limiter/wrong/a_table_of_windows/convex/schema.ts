import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  comments: defineTable({
    author: v.string(),
    text: v.string(),
  }).index("by_author", ["author"]),
  windows: defineTable({
    author: v.string(),
    startedAt: v.number(),
    used: v.number(),
  }).index("by_author", ["author"]),
});
