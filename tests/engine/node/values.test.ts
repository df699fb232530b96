/** Pure parts of the core: order of values, index keys, ids, display forms, the tree, cron expressions. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ReadSet } from "#core/db/readset.js";
import { Tree } from "#core/db/tree.js";
import { parseCronExpression } from "#core/time/cronexpr.js";
import { displayValue } from "#core/values/display.js";
import { decodeId, encodeId, newId } from "#core/values/ids.js";
import { compareValues, encodeKey } from "#core/values/order.js";
import { encodeValue, makeObject, parseValue, valueSize, type MaybeValue } from "#core/values/value.js";

/** In ascending order. */
const ORDERED: MaybeValue[] = [
  undefined, null, -(2n ** 63n), -1n, 0n, 5n, 2n ** 63n - 1n, -Infinity, -1.5, -0, 0, 1e-300, 1, 1.5, 1e300, Infinity, NaN, false, true,
  "", "\0", "\0a", "A", "a", "a\0", "a\0\0", "aa", "b", "z", "\uffff", "\u{1f600}", new Uint8Array([]), new Uint8Array([0]), new Uint8Array([0, 0]), new Uint8Array([255]),
  [], [null], [null, null], [1], ["a"], [["a"]], makeObject([]), makeObject([["a", null]]), makeObject([["a", 1]]), makeObject([["a", 1], ["b", 1]]), makeObject([["b", null]]),
];

test("values and their keys have the same order", () => {
  for (let i = 0; i < ORDERED.length; i++) {
    for (let j = 0; j < ORDERED.length; j++) {
      const wanted = Math.sign(i - j);
      assert.equal(Math.sign(compareValues(ORDERED[i], ORDERED[j])), wanted, `${displayValue(ORDERED[i])} and ${displayValue(ORDERED[j])}`);
      const [a, b] = [encodeKey(ORDERED[i]), encodeKey(ORDERED[j])];
      assert.equal(a < b ? -1 : a > b ? 1 : 0, wanted, `keys of ${displayValue(ORDERED[i])} and ${displayValue(ORDERED[j])}`);
      assert.equal(a + "\x01" < b + "\x01" ? -1 : a + "\x01" > b + "\x01" ? 1 : 0, wanted, "keys followed by another field");
    }
  }
});

test("values survive their JSON", () => {
  for (const value of ORDERED) {
    if (value === undefined) continue;
    assert.equal(compareValues(parseValue(JSON.parse(JSON.stringify(encodeValue(value)))), value), 0);
  }
});

test("sizes", () => {
  assert.equal(valueSize(null), 1);
  assert.equal(valueSize(1n), 9);
  assert.equal(valueSize("é"), 4);
  assert.equal(valueSize([1, "a"]), 14);
  assert.equal(valueSize(makeObject([["ab", true]])), 6);
});

test("display forms", () => {
  const shown: [MaybeValue, string][] = [
    [1, "1.0"], [0.5, "0.5"], [1e16, "1e16"], [5e-5, "5e-5"], [NaN, "NaN"], [-0, "-0.0"], [Infinity, "inf"], [5n, "5"], [undefined, "undefined"],
    ['a"\n', '"a\\"\\n"'], [new Uint8Array([1]), 'b"AQ=="'], [[1, null], "[1.0, null]"], [makeObject([["b", "x"], ["a", 1]]), '{a: 1.0, b: "x"}'], [1e15, "1000000000000000.0"],
  ];
  for (const [value, text] of shown) assert.equal(displayValue(value), text);
});

test("ids", () => {
  const id = newId(10001, Date.now());
  assert.match(id, /^j57[0-9a-z]{29}$/);
  assert.equal(decodeId(id).table, 10001);
  assert.equal(encodeId(10001, decodeId(id).internal), id);
  assert.throws(() => decodeId(id.toUpperCase()), /ID wasn't valid base32/);
  assert.throws(() => decodeId(id.slice(0, -1)), /Unable to decode ID/);
  const wrong = id.slice(0, 10) + (id[10] === "0" ? "1" : "0") + id.slice(11);
  assert.throws(() => decodeId(wrong), /Invalid ID version|Invalid table number|base32/);
  for (const table of [1, 127, 128, 539, 16383, 16384, 0xffffffff]) assert.equal(decodeId(encodeId(table, Buffer.alloc(16, 7))).table, table);
});

test("a tree that is made at once is like one made step by step", () => {
  for (const size of [0, 1, 24, 25, 600, 5000]) {
    const keys = Array.from({ length: size }, (_, at) => `k${(at * 7919) % 100_003}`);
    const places = keys.map((_, at) => at);
    const grown = keys.reduce((tree, key, at) => tree.set(key, at), Tree.empty<number>());
    const entries = [...grown.entries()];
    const made = Tree.of(keys, places);
    assert.deepEqual([...made.entries()], entries);
    assert.deepEqual([...Tree.of(entries.map(([key]) => key), entries.map(([, at]) => at)).entries()], entries);
    assert.deepEqual([...made.set("k5x", -1).delete(keys[0] ?? "").entries()], [...grown.set("k5x", -1).delete(keys[0] ?? "").entries()]);
    assert.equal(made.size, size);
  }
});

test("the tree agrees with a sorted list and keeps old versions", () => {
  let seed = 42;
  const random = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
  let tree = Tree.empty<number>();
  const model = new Map<string, number>();
  const versions: [Tree<number>, string][] = [];
  const text = (entries: Iterable<[string, number]>): string => JSON.stringify([...entries]);
  for (let step = 0; step < 5000; step++) {
    const key = `k${random(700)}`;
    if (random(3) === 0) {
      tree = tree.delete(key);
      model.delete(key);
    } else {
      tree = tree.set(key, step);
      model.set(key, step);
    }
    assert.equal(tree.size, model.size);
    if (step % 500 === 0) versions.push([tree, text(tree.entries())]);
  }
  const sorted = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.equal(text(tree.entries()), text(sorted));
  assert.equal(text(tree.entries("", "\uffff", false)), text(sorted.toReversed()));
  for (let i = 0; i < 200; i++) {
    const [low, high] = [`k${random(700)}`, `k${random(700)}`];
    const wanted = sorted.filter(([key]) => key >= low && key < high);
    assert.equal(text(tree.entries(low, high)), text(wanted));
    assert.equal(text(tree.entries(low, high, false)), text(wanted.toReversed()));
    assert.equal(tree.get(low), model.get(low));
  }
  for (const [old, before] of versions) assert.equal(text(old.entries()), before);
});

test("intervals merge", () => {
  const reads = new ReadSet();
  const add = (low: string, high: string): number => {
    reads.add("", "t", "i", low, high);
    return reads.intervalCount;
  };
  assert.deepEqual([add("b", "d"), add("f", "h"), add("a", "b"), add("c", "g"), add("x", "y"), add("x", "y"), add("z", "z")], [1, 2, 2, 1, 2, 2, 2]);
});

test("cron expressions", () => {
  const from = Date.parse("2024-02-27T10:20:30Z");
  const next = (text: string): string => new Date(parseCronExpression(text).next(from) as number).toISOString().slice(0, 16);
  const cases: [string, string][] = [
    ["* * * * *", "2024-02-27T10:21"], ["0 0 * * *", "2024-02-28T00:00"], ["*/15 * * * *", "2024-02-27T10:30"], ["0 0 29 2 *", "2024-02-29T00:00"],
    ["0 12 1 * *", "2024-03-01T12:00"], ["0 0 31 * *", "2024-03-31T00:00"], ["0 9 * * MON", "2024-03-04T09:00"], ["0 9 13 * FRI", "2024-03-01T09:00"],
    ["0 0 L * *", "2024-02-29T00:00"], ["0 0 * * 5#2", "2024-03-08T00:00"], ["0 0 LW * *", "2024-02-29T00:00"], ["0 0 1 JAN *", "2025-01-01T00:00"], ["5,50 10 * * *", "2024-02-27T10:50"],
  ];
  for (const [text, wanted] of cases) assert.equal(next(text), wanted, text);
  assert.equal(parseCronExpression("0 0 31 2 *").next(from), null);
  for (const bad of ["* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "@daily", "a * * * *", "*/0 * * * *"]) {
    assert.throws(() => parseCronExpression(bad), /Invalid cron expression/, bad);
  }
});
