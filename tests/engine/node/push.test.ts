/** What the CLI of a push gets in the place of Node's files and packing. */

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { brotliDecompressSync } from "node:zlib";

import { unpacked } from "#toolchain/push/brotli.js";
import { filesOfProject } from "#toolchain/push/files.js";
import { Unfit } from "#toolchain/push/unfit.js";

const files = filesOfProject();
const started = process.cwd();
let root = "";

before(() => {
  root = mkdtempSync(join(tmpdir(), "push-"));
  for (const name of ["project/convex", "scratch", "packages"]) mkdirSync(join(root, name), { recursive: true });
  symlinkSync(join(root, "packages"), join(root, "project", "node_modules"));
  process.chdir(join(root, "project"));
});
after(() => {
  process.chdir(started);
  rmSync(root, { recursive: true });
});

/** As the CLI writes a file. */
function write(path: string, ...contents: string[]): void {
  const descriptor = files.openSync(path, "w", 0o644);
  for (const part of contents) files.writeFileSync(descriptor, part, { encoding: "utf-8" });
  files.fsyncSync(descriptor);
  files.closeSync(descriptor);
}

test("bytes that are not packed are what they were", () => {
  for (const length of [0, 1, 2, 65_535, 65_536, 65_537, 131_072, 400_001]) {
    const bytes = Buffer.alloc(length, "a\u00e9\u{1f600}");
    assert.deepEqual(brotliDecompressSync(unpacked(bytes)), bytes);
  }
});

test("a temporary file reaches its place and leaves nothing behind", () => {
  writeFileSync("convex/api.js", "a longer text than the next one");
  for (const [name, text] of [["convex/api.js", "one \u00e9"], ["convex/new.js", ""]] as const) {
    const folder = files.mkdtempSync(join("../scratch", "convex"));
    write(join(folder, "sheet"), text);
    files.renameSync(join(folder, "sheet"), name);
    files.rmSync(folder, { force: true, recursive: true });
    assert.equal(readFileSync(name, "utf8"), text);
  }
  assert.deepEqual(readdirSync("../scratch"), []);
});

test("what is written in parts is whole", () => {
  const folder = files.mkdtempSync("../scratch/convex");
  write(join(folder, "sheet"), "one ", "two ", "\u00e9");
  files.renameSync(join(folder, "sheet"), "convex/parts.js");
  assert.equal(readFileSync("convex/parts.js", "utf8"), "one two \u00e9");
});

test("a temporary file that nobody moves is dropped with its folder", () => {
  const folder = files.mkdtempSync("../scratch/convex");
  write(join(folder, "sheet"), "x");
  files.rmSync(folder, { force: true, recursive: true });
  assert.throws(() => files.renameSync(join(folder, "sheet"), "convex/dropped.js"), { code: "ENOENT" });
  assert.equal(existsSync("convex/dropped.js"), false);
});

test("other files are written where they belong, and nowhere else", () => {
  write("convex/plain.js", "x");
  assert.equal(readFileSync("convex/plain.js", "utf8"), "x");
  const folder = files.mkdtempSync("../scratch/convex");
  for (const place of ["../beside.js", "node_modules/package.js"]) {
    write(join(folder, "sheet"), "x");
    assert.throws(() => files.renameSync(join(folder, "sheet"), place), Unfit);
    assert.throws(() => write(place, "x"), Unfit);
    assert.equal(existsSync(place), false);
  }
});
