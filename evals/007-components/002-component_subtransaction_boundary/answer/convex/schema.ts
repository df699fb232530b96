import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  requests: defineTable({
    guest: v.string(),
    labels: v.array(v.string()),
    status: v.union(v.literal("seated"), v.literal("waiting")),
  }),
});
