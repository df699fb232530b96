import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  parcels: defineTable({
    depot: v.string(),
    arrivedAt: v.number(),
    weight: v.number(),
    label: v.string(),
  }).index("by_depot_and_arrivedAt", ["depot", "arrivedAt"]),
});
