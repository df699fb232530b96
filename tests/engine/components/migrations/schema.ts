import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  notes: defineTable({ n: v.number(), double: v.optional(v.number()), tag: v.optional(v.string()) }).index("by_n", ["n"]),
});
