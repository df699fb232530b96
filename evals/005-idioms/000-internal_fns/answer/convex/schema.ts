import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  domes: defineTable({
    name: v.string(),
    open: v.boolean(),
  })
    .index("by_name", ["name"])
    .index("by_open_and_name", ["open", "name"]),
});
