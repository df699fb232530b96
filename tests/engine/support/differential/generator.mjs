/** Random programs by seed, and what they leave out because convex-test is known to do it differently. */

import { UNDEFINED } from "./program.mjs";

const bytes = (...items) => new Uint8Array(items).buffer;
const VALUES = [
  null, true, false, 0, 1, 2, -1.5, 7, -0, NaN, Infinity, -Infinity, 1e300, 0n, 1n, -3n, 2n ** 62n, "", "a", "b", "ab", "A", "é", "\uffff", "😀",
  [], [1], [1, "a"], [[null]], {}, { x: 1 }, { x: 1, y: "z" }, { y: 0 }, { x: { y: [1n] } }, bytes(), bytes(1, 2), bytes(1, 255),
];
const TEXTS = ["", "a", "b", "ab", "c"];
const INDEXES = { by_a: ["a"], by_a_b: ["a", "b"], by_b_a_n: ["b", "a", "n"], by_nested: ["c.d", "n"], by_s: ["s"] };
const FIELDS = ["a", "b", "c", "c.d", "c.e.f", "n", "s", "missing"];

/** Each with its reason and a program on which the two differ; the programs are run, so that none is left out in vain. */
export const LEFT_OUT = {
  "comparisons of unlike values in filters": {
    reason: "convex-test compares as JavaScript does",
    ops: [["insert", 0, { a: "x" }], ["query", 0, scan(["gt", ["field", "a"], ["value", 1]]), "collect"]],
  },
  "comparisons with -0 in filters": {
    reason: "convex-test has -0 equal to 0 there",
    ops: [["insert", 0, { a: -0 }], ["query", 0, scan(["gte", ["field", "a"], ["value", 0]]), "collect"]],
  },
  "logic on what is no boolean": {
    reason: "convex-test takes what JavaScript takes for true",
    ops: [["insert", 0, { a: 1 }], ["query", 0, scan(["and", ["field", "a"]]), "collect"]],
  },
  "arithmetic on unlike values": {
    reason: "convex-test adds numbers and texts as JavaScript does",
    ops: [["insert", 0, { a: "x" }], ["query", 0, scan(["eq", ["add", ["field", "a"], ["value", 1]], ["value", 5]]), "collect"]],
  },
  "negation in filters": {
    reason: "convex-test has none",
    ops: [["insert", 0, { a: 1 }], ["query", 0, scan(["eq", ["neg", ["field", "a"]], ["value", -1]]), "collect"]],
  },
  "equalities that are not in the order of the index": {
    reason: "convex-test wants them in order",
    ops: [["query", 0, { index: "by_a_b", range: [["eq", "b", 1], ["eq", "a", 1]], order: null, filter: null }, "collect"]],
  },
  "a page that ends with the last row": {
    reason: "convex-test looks ahead and says that it is the last",
    ops: [["insert", 0, { a: 1 }], ["pageEnds", 0, scan(null), 1]],
  },
  "a page of nothing": { reason: "convex-test gives one", ops: [["pages", 0, scan(null), 0]] },
  "records in validators": { reason: "convex-test does not look into them", ops: [["insert", 1, { kind: "x", n: 1, r: { k: "text" } }]] },
  "removing a field that is not there from a table with a validator": {
    reason: "convex-test validates the field as one that is not declared",
    ops: [["insert", 1, { kind: "x", n: 1 }], ["patch", 0, {}, { extra: UNDEFINED }]],
  },
  "names with an underscore": { reason: "convex-test accepts them", ops: [["insert", 0, { _x: 1 }]] },
  "deep documents": { reason: "convex-test accepts them", ops: [["insert", 0, { a: nested(16) }]] },
  "texts that are no ids": { reason: "convex-test finds nothing, the platform cannot decode them", ops: [["getText", "garbage"]] },
};

function scan(filter) {
  return { index: null, range: [], order: null, filter };
}

function nested(depth) {
  return depth === 0 ? 1 : { v: nested(depth - 1) };
}

function generator(seed) {
  let state = (Math.imul(seed, 2654435761) + 1) >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
  };
}

/** Three lists of operations: two for mutations, one for a query. */
export function makeProgram(seed) {
  const pick = generator(seed);
  const from = (list) => list[pick(list.length)];
  const value = () => from(VALUES);
  const maybe = () => (pick(8) ? value() : UNDEFINED);
  const times = (count, make) => Array.from({ length: count }, make);

  const loose = () => ({
    n: pick(10), s: from(TEXTS), ...(pick(5) ? { a: maybe() } : {}), ...(pick(3) ? { b: value() } : {}),
    ...(pick(3) ? {} : { c: pick(4) ? { d: value(), ...(pick(2) ? { e: { f: value() } } : {}) } : value() }),
  });
  const strict = () =>
    pick(2)
      ? { kind: "x", n: pick(6) ? pick(10) : value(), ...(pick(2) ? { a: pick(3) ? from(["t", null, 5n]) : value() } : {}) }
      : { kind: pick(5) ? "y" : value(), n: pick(10), a: pick(3) ? [from([true, false, bytes(3)])] : value(), ...(pick(2) ? { o: { p: pick(4) ? 1.5 : value(), ...(pick(2) ? { q: value() } : {}) } } : {}) };
  const looseChange = () => {
    const named = { a: maybe, b: maybe, c: maybe, extra: maybe, n: () => pick(10), s: () => from(TEXTS) };
    return Object.fromEntries(times(pick(3), () => from(Object.keys(named))).map((name) => [name, named[name]()]));
  };
  const strictChange = () => {
    const named = { a: maybe, b: value, n: value, kind: () => from(["x", "y", "z"]), o: () => ({ p: value() }) };
    return Object.fromEntries(times(pick(3), () => from(Object.keys(named))).map((name) => [name, named[name]()]));
  };

  const ranged = () => {
    const index = from(Object.keys(INDEXES));
    const fields = INDEXES[index];
    const equal = pick(fields.length + 1);
    const range = fields.slice(0, equal).map((field) => ["eq", field, field === "n" ? pick(10) : field === "s" ? from(TEXTS) : maybe()]);
    const next = pick(12) ? fields[equal] : from(FIELDS);
    const kind = pick(5);
    if (next !== undefined && (kind === 1 || kind === 3)) range.push([pick(2) ? "gt" : "gte", next, maybe()]);
    if (next !== undefined && (kind === 2 || kind === 3)) range.push([pick(2) ? "lt" : "lte", next, maybe()]);
    return { index, range };
  };
  // See LEFT_OUT: comparisons and arithmetic only of numbers that are there and not negative.
  const number = () => (pick(3) ? ["field", "n"] : [from(["add", "sub", "mul", "div", "mod"]), ["field", "n"], ["value", 1 + pick(5)]]);
  const condition = (depth) => {
    const kind = depth > 0 ? pick(7) : pick(4);
    if (kind < 2) return [pick(2) ? "eq" : "neq", ["field", from(FIELDS)], ["value", maybe()]];
    if (kind === 2) return [from(["gt", "gte", "lt", "lte"]), number(), ["value", pick(10)]];
    if (kind === 3) return [from(["gt", "gte", "lt", "lte"]), ["field", "s"], ["value", from(TEXTS)]];
    if (kind === 4) return ["not", condition(depth - 1)];
    return [kind === 5 ? "and" : "or", ...times(pick(4), () => condition(depth - 1))];
  };
  const spec = (table) => ({
    ...(table === 1 ? (pick(2) ? { index: "by_a", range: pick(2) ? [["eq", "a", maybe()]] : [] } : { index: null, range: [] }) : pick(4) ? ranged() : { index: from([null, "by_creation_time", "by_id"]), range: [] }),
    order: from([null, "asc", "desc"]),
    filter: table === 1 || pick(2) ? null : condition(2),
  });
  // Ids are random, so their order says nothing.
  const known = (query) => (query.index === "by_id" ? { ...query, index: null } : query);
  const look = () => {
    const table = pick(4) ? 0 : 1;
    switch (pick(12)) {
      case 0: case 1: return ["get", pick(12)];
      case 2: return ["pages", table, known(spec(table)), 2 + pick(4)];
      case 3: return ["normalize", pick(2), pick(12)];
      default: return ["query", table, known(spec(table)), from(["collect", "collect", "first", "unique", "take0", "take3", "iterate"])];
    }
  };
  const write = (depth) => {
    const table = pick(4) ? 0 : 1;
    switch (pick(10)) {
      case 0: case 1: case 2: case 3: return ["insert", table, table === 0 ? loose() : strict()];
      case 4: return ["patch", pick(12), looseChange(), strictChange()];
      case 5: return ["replace", pick(12), loose(), strict()];
      case 6: return ["delete", pick(12)];
      case 8: return pick(3) ? look() : ["sweep", known(spec(0)), from(["copy", "move", "delete"])];
      case 7: return depth > 0 ? ["nested", times(1 + pick(4), () => write(depth - 1)), pick(2) === 0] : look();
      default: return look();
    }
  };
  const dump = [0, 1].map((table) => ["query", table, scan(null), "collect"]);
  return [
    [...times(3, () => ["insert", 0, loose()]), ...times(3 + pick(8), () => write(2))],
    [...times(2 + pick(6), () => write(1)), ...dump],
    [...times(2 + pick(4), look), dump[0]],
  ];
}
