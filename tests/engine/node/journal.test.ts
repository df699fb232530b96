/** The log of a data folder: when entries are seen, what a flush shares, what a failure leaves, what compaction keeps. */

import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";

import { NotWritten } from "#core/durable/errors.js";
import { frameOf, readFrames } from "#core/durable/frames.js";
import { Journal, writeLog } from "#core/durable/journal.js";

const PLACE = mkdtempSync(join(tmpdir(), "journal-"));
after(() => rmSync(PLACE, { recursive: true }));

interface Bench {
  journal: Journal;
  folder: string;
  seen: string[];
  lost: number;
  reports: unknown[];
  add: (name: string) => Promise<void>;
}

async function bench(compactBytes = 1 << 30): Promise<Bench> {
  const folder = mkdtempSync(join(PLACE, "log-"));
  const file = await writeLog(join(folder, "log-000001.tmp"), ['{"end":true}']);
  await file.rename(join(folder, "log-000001"));
  const found: Bench = {
    folder,
    seen: [],
    lost: 0,
    reports: [],
    journal: new Journal(file, file.size, {
      compactBytes,
      snapshot: () => [`{"facts":[["all","${found.seen.join()}"]]}`, '{"end":true}'],
      lost: () => (found.lost += 1),
      report: (error) => found.reports.push(error),
    }),
    add: (name) => found.journal.append({ facts: [["name", name]] }, () => found.seen.push(name)),
  };
  return found;
}

/** Replaces a method of all open files until the test ends. */
async function patch(context: TestContext, name: "datasync" | "write", by: (original: () => Promise<unknown>, args: unknown[], file: FileHandle) => Promise<unknown>): Promise<void> {
  const probe = await open(join(PLACE, "probe"), "w");
  const prototype = Object.getPrototypeOf(probe) as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const original = prototype[name] as (...args: unknown[]) => Promise<unknown>;
  prototype[name] = function (this: FileHandle, ...args: unknown[]) {
    return by(() => original.apply(this, args), args, this);
  };
  context.after(() => (prototype[name] = original));
  await probe.close();
}

function bodies(folder: string): string[] {
  const [name] = readdirSync(folder)
    .filter((candidate) => !candidate.endsWith(".tmp"))
    .sort()
    .reverse();
  const found: string[] = [];
  const file = openSync(join(folder, name as string), "r");
  assert.equal(readFrames(file, (body) => found.push(body)).state, "complete");
  closeSync(file);
  return found;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const named = (...names: string[]): string => names.map((name) => `{"facts":[["name","${name}"]]}`).join("\n");

test("entries are seen after their flush, and those that arrive meanwhile share the next one", async (context) => {
  const { journal, folder, seen, add } = await bench();
  const gates: (() => void)[] = [];
  await patch(context, "datasync", (original) => new Promise<void>((resolve) => gates.push(resolve)).then(original));
  const first = add("a");
  while (gates.length === 0) await turn();
  const rest = Promise.all([add("b"), add("c")]);
  for (let i = 0; i < 50; i++) await turn();
  assert.deepEqual([seen, gates.length], [[], 1]);
  (gates[0] as () => void)();
  await first;
  while (gates.length < 2) await turn();
  const last = add("d");
  assert.deepEqual(seen, ["a"]);
  (gates[1] as () => void)();
  await rest;
  assert.deepEqual(seen, ["a", "b", "c"]);
  while (gates.length < 3) await turn();
  (gates[2] as () => void)();
  await Promise.all([last, journal.drained()]);
  assert.deepEqual(bodies(folder), ['{"end":true}', named("a"), named("b", "c"), named("d")]);
});

test("a full disk refuses what waits, leaves nothing of it, and is written again when there is room", async (context) => {
  const { folder, seen, add, ...found } = await bench();
  await add("a");
  const { size } = statSync(join(folder, "log-000001"));
  let full = true;
  await patch(context, "write", async (original, args, file) => {
    if (!full) return original();
    const [bytes] = args as [Buffer];
    full = false;
    await file.write(bytes, 0, 9, size);
    full = true;
    throw Object.assign(new Error("no space"), { code: "ENOSPC" });
  });
  const outcomes = await Promise.allSettled([add("b"), add("c")]);
  assert.ok(outcomes.every((outcome) => outcome.status === "rejected" && outcome.reason instanceof NotWritten));
  assert.equal(statSync(join(folder, "log-000001")).size, size);
  full = false;
  await add("d");
  assert.deepEqual(seen, ["a", "d"]);
  assert.deepEqual(bodies(folder), ['{"end":true}', named("a"), named("d")]);
  assert.match(String(found.reports), /could not be written \(ENOSPC\).*,.* can be written again\.$/);
});

test("after a flush that failed nothing is acknowledged any more", async (context) => {
  const found = await bench();
  let broken = true;
  await patch(context, "datasync", (original) => (broken ? Promise.reject(Object.assign(new Error("io"), { code: "EIO" })) : original()));
  await assert.rejects(found.add("a"), NotWritten);
  broken = false;
  await assert.rejects(found.add("b"), NotWritten);
  assert.deepEqual([found.seen, found.lost], [[], 2]);
});

test("entries that arrive during a compaction are in the new log", async (context) => {
  const { folder, seen, add } = await bench(100);
  let slow = 0;
  await patch(context, "write", async (original) => {
    if (readdirSync(folder).some((name) => name.endsWith(".tmp"))) for (slow += 1; slow % 7 !== 0; slow++) await turn();
    return original();
  });
  const names = Array.from({ length: 200 }, (_, at) => `n${at}`);
  for (const name of names) await Promise.all([add(name), turn()]);
  assert.deepEqual(seen, names);
  const found = readdirSync(folder).filter((name) => !name.endsWith(".tmp"));
  assert.ok(found.sort().reverse()[0] as string > "log-000003");
  const [snapshot, end, ...later] = bodies(folder).flatMap((body) => body.split("\n"));
  const before = (JSON.parse(snapshot as string) as { facts: [[string, string]] }).facts[0][1].split(",");
  assert.equal(end, '{"end":true}');
  assert.deepEqual([...before, ...later.map((line) => (JSON.parse(line) as { facts: [[string, string]] }).facts[0][1])], names);
});

test("frames hold any text", () => {
  const texts = ["", "x", "grüße \u{1f600} \0", "y".repeat(300_000)];
  const frames = texts.map(frameOf);
  assert.ok(frames.every((frame) => frame.indexOf(0xff, 16) === -1));
});
