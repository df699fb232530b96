/**
 * Random read and write programs, run on the engine and on convex-test; prints the first difference or the number compared.
 *
 * Arguments: address of the engine, first seed, number of programs. Runs beside a `node_modules` with convex-test; the engine has
 * the program pushed as `diff:run` with the schema of `test_differential.py`.
 */

import { ConvexHttpClient } from "convex/browser";
import { anyApi, defineSchema, defineTable, mutationGeneric } from "convex/server";
import { convexTest } from "convex-test";
import { v } from "convex/values";

import { program } from "./differential_program.mjs";

const [, , url, first, count] = process.argv;

const schema = defineSchema({ rows: defineTable(v.any()).index("by_a", ["a"]).index("by_a_b", ["a", "b"]) });
const run = mutationGeneric({ args: { ops: v.any() }, handler: (ctx, { ops }) => program(ctx, ops) });
const modules = { "./_generated/api.js": async () => ({}), "./diff.ts": async () => ({ run }) };

function generator(seed) {
  let state = seed * 2654435761 + 1;
  return (n) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) >>> 0;
    return state % n;
  };
}

function makeProgram(seed) {
  const pick = generator(seed);
  const values = [null, 0, 1, 2, -1.5, 7, "", "a", "b", "ab", true, false, 1n, -3n, [1], [1, "a"], { x: 1 }, { x: 1, y: "z" }, new Uint8Array([1, 2]).buffer];
  const value = () => values[pick(values.length)];
  const fields = () => ({ a: value(), ...(pick(3) ? { b: value() } : {}), ...(pick(4) ? {} : { c: { d: value() } }) });
  const bounds = () => {
    const index = pick(2) ? "by_a" : "by_a_b";
    const range = [];
    if (index === "by_a_b" && pick(2)) range.push(["eq", "a", value()]);
    const field = range.length ? "b" : "a";
    const kind = pick(6);
    if (kind === 0) range.push(["eq", field, value()]);
    if (kind === 1 || kind === 3) range.push([pick(2) ? "gt" : "gte", field, value()]);
    if (kind === 2 || kind === 3) range.push([pick(2) ? "lt" : "lte", field, value()]);
    return { index, range };
  };
  // The oracle compares filter operands as JavaScript does, so only equality of scalars is asked of it.
  const filter = () => (pick(3) ? null : [pick(2) ? "eq" : "neq", ["a", "b", "c.d"][pick(3)], values[pick(14)]]);
  return Array.from({ length: 5 + pick(25) }, () => {
    switch (pick(8)) {
      case 0: case 1: case 2: return ["insert", fields()];
      case 3: return ["patch", pick(10), { [["a", "b", "e"][pick(3)]]: value() }];
      case 4: return pick(2) ? ["replace", pick(10), fields()] : ["delete", pick(10)];
      case 5: return ["get", pick(10)];
      case 6: return ["nested", pick(2) === 0];
      default: return ["query", { ...bounds(), order: pick(2) ? "asc" : "desc", filter: filter(), end: ["collect", "first", "take3", "iterate"][pick(4)] }];
    }
  });
}

const client = new ConvexHttpClient(url);
const show = (value) => JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}n` : item instanceof ArrayBuffer ? [...new Uint8Array(item)] : item));
for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
  const ops = makeProgram(seed);
  const oracle = show(await convexTest({ schema, modules }).mutation(anyApi.diff.run, { ops }));
  const engine = show(await client.mutation(anyApi.diff.run, { ops }));
  if (oracle !== engine) {
    console.log(JSON.stringify({ seed, ops: show(ops), oracle, engine }));
    process.exit(0);
  }
}
console.log(JSON.stringify({ compared: Number(count) }));
