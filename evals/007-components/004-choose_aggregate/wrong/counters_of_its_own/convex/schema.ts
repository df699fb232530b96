import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({
  scores: defineTable({
    player: v.string(),
    points: v.number(),
  }).index("by_player", ["player"]),
  totals: defineTable({ players: v.number() }),
  buckets: defineTable({ from: v.number(), players: v.number() }).index("by_from", ["from"]),
});
