/**
 * Runs programs on the engine and on convex-test; prints what differs, or the number compared.
 *
 * Arguments: address of the engine, first seed, number of programs. Runs beside a `node_modules` with convex-test; the engine has
 * the project of `test_differential.py`, with tables for a batch of programs.
 */

import { ConvexHttpClient } from "convex/browser";
import { anyApi, internalMutationGeneric, internalQueryGeneric, mutationGeneric, queryGeneric } from "convex/server";
import { convexTest } from "convex-test";

import { LEFT_OUT, makeProgram } from "./generator.mjs";
import { handlers } from "./program.mjs";
import { BATCH, makeSchema } from "./schema.mjs";

const [, , url, first, count] = process.argv;
const { write, read, page, inner } = handlers(anyApi.diff);
const functions = { write: mutationGeneric(write), read: queryGeneric(read), page: internalQueryGeneric(page), inner: internalMutationGeneric(inner) };
const modules = { "./_generated/api.js": async () => ({}), "./diff.ts": async () => functions };
const schema = makeSchema(1);

function show(value) {
  return JSON.stringify(value, (_, item) => {
    if (typeof item === "bigint") return `${item}n`;
    if (typeof item === "number" && (Object.is(item, -0) || !Number.isFinite(item))) return Object.is(item, -0) ? "-0" : `${item}!`;
    if (item instanceof ArrayBuffer) return ["bytes", ...new Uint8Array(item)];
    if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/** The results of the phases of each program; `call` runs one phase of all of them. */
async function runPhases(programs, call) {
  const states = programs.map((_, at) => ({ tables: [`loose${at}`, `strict${at}`], ids: [] }));
  const results = programs.map(() => []);
  const phases = Math.max(...programs.map((program) => program.length));
  for (let phase = 0; phase < phases; phase++) {
    const answers = await call(phase === 2 ? "read" : "write", states.map((state, at) => ({ ...state, ops: programs[at][phase] ?? [], first: phase === 0 })));
    answers.forEach((answer, at) => {
      states[at].ids = answer.ids;
      results[at].push(answer.results);
    });
  }
  return results;
}

const client = new ConvexHttpClient(url);
const onEngine = (programs) => runPhases(programs, (name, batch) => client[name === "read" ? "query" : "mutation"](anyApi.diff[name], { programs: batch }));

/** One instance for each program, because it looks at all rows of all tables in each query. */
async function onOracle(program) {
  const oracle = convexTest({ schema, modules });
  const [results] = await runPhases([program], (name, batch) => oracle[name === "read" ? "query" : "mutation"](anyApi.diff[name], { programs: batch }));
  return results;
}

for (const [name, { ops }] of Object.entries(LEFT_OUT)) {
  const [engine] = await onEngine([[ops]]);
  if (show(engine) === show(await onOracle([ops]))) throw new Error(`left out in vain: ${name}`);
}

const outcomes = { operations: 0, errors: 0 };
for (let seed = Number(first); seed < Number(first) + Number(count); seed += BATCH) {
  const programs = Array.from({ length: Math.min(BATCH, Number(first) + Number(count) - seed) }, (_, at) => makeProgram(seed + at));
  const engine = await onEngine(programs);
  for (const [at, program] of programs.entries()) {
    const oracle = await onOracle(program);
    for (const [phase, results] of oracle.entries()) {
      for (const [op, result] of results.entries()) {
        outcomes.operations += 1;
        if (result === "error") outcomes.errors += 1;
        if (show(result) === show(engine[at][phase][op])) continue;
        console.log(show({ seed: seed + at, phase, operation: program[phase][op], oracle: show(result), engine: show(engine[at][phase][op]), before: program.slice(0, phase + 1) }));
        process.exit(0);
      }
    }
  }
}
console.log(JSON.stringify({ compared: Number(count), ...outcomes }));
