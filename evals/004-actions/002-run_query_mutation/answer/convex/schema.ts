import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  cards: defineTable({
    url: v.string(),
    title: v.string(),
    episodes: v.number(),
  }).index("by_url", ["url"]),
});
