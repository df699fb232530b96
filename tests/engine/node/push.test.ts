/** What the CLI of a push gets in the place of Node's files and packing. */

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { toBackend } from "#toolchain/push/backend.js";
import { filesOfProject } from "#toolchain/push/files.js";
import { Stage } from "#toolchain/push/stage.js";
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

test("the backend gets what the CLI sends, and the CLI what the backend answers", async () => {
  const seen: { path: string | undefined; headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer((asked, answer) => {
    const parts: Buffer[] = [];
    asked.on("data", (part: Buffer) => parts.push(part));
    asked.on("end", () => {
      seen.push({ path: asked.url, headers: asked.headers, body: Buffer.concat(parts).toString() });
      answer.writeHead(asked.url === "/refused" ? 418 : asked.url === "/empty" ? 204 : 200, { "x-convex-deprecation-state": "none" });
      answer.end(asked.url === "/empty" ? undefined : '{"said":"\u00e9"}');
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const stage = new Stage();
  const abandoned = stage.begin();
  stage.backend = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  const { fetch: ask, zlib } = toBackend(stage);
  const packed = await new Promise<Buffer>((done, failed) =>
    zlib.brotliCompress('{"text":"\u00e9"}', {}, (error, bytes) => (error === null ? done(bytes) : failed(error))),
  );
  const answer = await ask(`${stage.backend}/pushed`, { method: "POST", body: packed as Buffer<ArrayBuffer>, headers: { "Content-Encoding": "br", Authorization: "Convex key" } });
  assert.deepEqual([answer.status, answer.ok, answer.headers.get("x-convex-deprecation-state"), await answer.json()], [200, true, "none", { said: "\u00e9" }]);
  assert.deepEqual([seen[0]?.path, seen[0]?.body, seen[0]?.headers["content-encoding"], seen[0]?.headers.authorization], ["/pushed", '{"text":"\u00e9"}', undefined, "Convex key"]);
  await ask(`${stage.backend}/packed`, { method: "POST", body: Buffer.from("x") as Buffer<ArrayBuffer>, headers: { "Content-Encoding": "br" } });
  assert.equal(seen[1]?.headers["content-encoding"], "br", "somebody else packed it");
  assert.deepEqual([(await ask(`${stage.backend}/refused`)).status, (await ask(`${stage.backend}/empty`)).status], [418, 204]);
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  void ask(`${stage.backend}/gone`);
  await assert.rejects(abandoned, (error) => error instanceof Unfit && error.code === "unreachable");
});
