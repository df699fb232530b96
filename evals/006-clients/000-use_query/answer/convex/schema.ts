import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  notices: defineTable({
    title: v.string(),
    author: v.string(),
    rank: v.number(),
  }).index("by_rank", ["rank"]),
});
