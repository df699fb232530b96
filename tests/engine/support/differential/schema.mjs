/** The tables of programs: for each a loose one and one with a validator. */

import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

/** How many programs one call of the engine runs. */
export const BATCH = 20;

export function makeSchema(programs) {
  const tables = {};
  for (let at = 0; at < programs; at++) {
    tables[`loose${at}`] = defineTable(v.any())
      .index("by_a", ["a"])
      .index("by_a_b", ["a", "b"])
      .index("by_b_a_n", ["b", "a", "n"])
      .index("by_nested", ["c.d", "n"])
      .index("by_s", ["s"]);
    tables[`strict${at}`] = defineTable(
      v.union(
        v.object({ kind: v.literal("x"), n: v.number(), a: v.optional(v.union(v.string(), v.null(), v.int64())), r: v.optional(v.record(v.string(), v.number())) }),
        v.object({ kind: v.literal("y"), n: v.float64(), a: v.array(v.union(v.boolean(), v.bytes())), o: v.optional(v.object({ p: v.number(), q: v.optional(v.any()) })) }),
      ),
    ).index("by_a", ["a"]);
  }
  return defineSchema(tables);
}
