import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({ orders: defineTable({ what: v.string(), done: v.boolean() }) });
