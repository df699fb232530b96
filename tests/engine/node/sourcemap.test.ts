/** Places in bundles lead to the same origins as with Node's own reader of source maps. */

import assert from "node:assert/strict";
import { SourceMap } from "node:module";
import { test } from "node:test";

import { BundleMap } from "#runner/sourcemap.js";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function vlq(number: number): string {
  let rest = number < 0 ? (-number << 1) | 1 : number << 1;
  let text = "";
  do {
    const digit = rest & 31;
    rest >>>= 5;
    text += DIGITS[rest > 0 ? digit | 32 : digit];
  } while (rest > 0);
  return text;
}

function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
}

function mapOf(roll: (below: number) => number, lines: number): { version: 3; sources: string[]; names: string[]; mappings: string } {
  const sources = ["a.ts", "../b.ts", "c/d.tsx"];
  let before = [0, 0, 0];
  const rows = Array.from({ length: lines }, () => {
    let column = 0;
    return Array.from({ length: roll(5) }, () => {
      const step = roll(40);
      column += step;
      const next = [roll(sources.length), roll(900), roll(70)];
      const fields = [step, ...next.map((value, at) => value - (before[at] as number))];
      before = next;
      return [...fields, ...(roll(4) === 0 ? [1] : [])].map(vlq).join("");
    }).join(",");
  });
  return { version: 3, sources, names: ["n", "m"], mappings: rows.join(";") };
}

test("random maps", () => {
  const roll = dice(7);
  for (let round = 0; round < 60; round++) {
    const map = mapOf(roll, 1 + roll(40));
    const theirs = new SourceMap(map as unknown as ConstructorParameters<typeof SourceMap>[0]);
    const ours = BundleMap.parse(JSON.stringify(map));
    for (let at = 0; at < 200; at++) {
      const [line, column] = [roll(45), roll(160)];
      const entry = theirs.findEntry(line, column);
      const expected = "originalSource" in entry ? { source: entry.originalSource, line: entry.originalLine, column: entry.originalColumn } : null;
      assert.deepEqual(ours?.find(line, column), expected, `${line}:${column} in ${JSON.stringify(map)}`);
    }
  }
});

test("what is no source map leads nowhere", () => {
  for (const text of ["", "{", "null", "[]", '{"mappings":1,"sources":[]}', '{"mappings":"A A","sources":["a"]}', '{"mappings":"é","sources":["a"]}']) {
    assert.equal(BundleMap.parse(text), null, text);
  }
  assert.equal(BundleMap.parse('{"mappings":"","sources":[]}')?.find(0, 0), null);
  assert.equal(BundleMap.parse('{"mappings":"AAAA","sources":[null]}')?.find(3, 3), null);
  assert.equal(BundleMap.parse('{"mappings":"AAZA","sources":["a"]}')?.find(0, 0)?.line, -12);
});
