import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  orders: defineTable({
    motif: v.string(),
    copies: v.number(),
    status: v.union(v.literal("waiting"), v.literal("printing")),
  }),
});
