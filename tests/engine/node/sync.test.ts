import assert from "node:assert/strict";
import { test } from "node:test";

import { keepAlive } from "#core/sync/keepalive.js";
import { split, understandsChunks } from "#core/sync/outbox.js";

test("a connection is probed, told something after silence, and given up when nothing is heard", () => {
  assert.equal(keepAlive(100_000, 99_000, 99_000), "probe");
  assert.equal(keepAlive(100_000, 99_000, 85_000), "probe");
  assert.equal(keepAlive(100_000, 99_000, 84_999), "probe and tell");
  assert.equal(keepAlive(200_000, 80_000, 199_000), "probe");
  assert.equal(keepAlive(200_000, 79_999, 199_000), "give up");
});

test("text is cut into pieces of bounded bytes that are whole characters", () => {
  const text = "aä€😀".repeat(50);
  for (const limit of [4, 5, 7, 64, 100, 499, 500, 501]) {
    const pieces = split(text, limit);
    assert.equal(pieces.join(""), text);
    for (const piece of pieces) {
      assert.ok(Buffer.byteLength(piece) <= limit && piece.length > 0);
      assert.ok(piece.isWellFormed());
    }
  }
  assert.deepEqual(split("abcdef", 6), ["abcdef"]);
  assert.deepEqual(split("abcdefg", 6), ["abcdef", "g"]);
});

test("versions that know chunks", () => {
  for (const known of ["1.27.5", "1.28.0", "1.48.0", "2.0.0"]) assert.ok(understandsChunks(known), known);
  for (const old of ["1.27.4", "1.9.9", "0.99.99", "", "odd", "1.48", "python-1.48.0"]) assert.ok(!understandsChunks(old), old);
});
