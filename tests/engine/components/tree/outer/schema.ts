import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({ rows: defineTable({ text: v.string() }) });
