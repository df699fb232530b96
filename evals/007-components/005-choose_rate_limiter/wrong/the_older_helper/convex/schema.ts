import { rateLimitTables } from "convex-helpers/server/rateLimit";
import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  ...rateLimitTables,
  comments: defineTable({
    author: v.string(),
    text: v.string(),
  }).index("by_author", ["author"]),
});
