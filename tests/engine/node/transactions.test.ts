/** Conflicts: which write of another transaction touches which read, and what is said about it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Database } from "#core/db/database.js";
import { insertDocument, patchDocument, deleteDocument } from "#core/db/documents.js";
import { compileQuery, QueryStream } from "#core/db/query.js";
import { makeTable, tableKey, withIndexes } from "#core/db/tables.js";
import type { Transaction } from "#core/db/transaction.js";
import { ConflictError } from "#core/errors.js";
import { Turns } from "#core/functions/turns.js";
import { Clock } from "#core/time/clock.js";
import { encodeValue, makeObject, type Value } from "#core/values/value.js";

type Step = (tx: Transaction, ids: readonly string[]) => void;

/** A database with rows n = 0, 10, 20, 30 and an index on n. */
async function filled(): Promise<{ db: Database; ids: string[] }> {
  const db = new Database(new Clock());
  const table = withIndexes(makeTable("", "t", 10_001), [{ name: "by_n", fields: ["n", "_creationTime"], staged: false }]);
  await db.change(() => ({ tables: new Map([[tableKey("", "t"), table]]) }));
  const tx = db.begin();
  const ids = [0, 10, 20, 30].map((n) => insertDocument(tx, "", "t", makeObject([["n", n]])));
  await db.commit(tx, null);
  return { db, ids };
}

const read =
  (range: readonly [string, number][], rows: number, order = "asc", operators: unknown[] = []): Step =>
  (tx) => {
    const expressions = range.map(([type, value]) => ({ type, fieldPath: "n", value: encodeValue(value) }));
    const stream = new QueryStream(tx, compileQuery(tx, "", { source: { type: "IndexRange", indexName: "t.by_n", range: expressions, order }, operators }));
    for (let count = 0; count < rows && stream.next() !== null; count++);
  };
const all = Infinity;
const get =
  (at: number): Step =>
  (tx, ids) =>
    void tx.get("", "t", ids[at] as string);
const insert =
  (n: number): Step =>
  (tx) =>
    void insertDocument(tx, "", "t", makeObject([["n", n]]));
const patch =
  (at: number, fields: Record<string, Value>): Step =>
  (tx, ids) =>
    patchDocument(tx, "", ids[at] as string, undefined, () => new Map(Object.entries(fields)));
const remove =
  (at: number): Step =>
  (tx, ids) =>
    deleteDocument(tx, "", ids[at] as string, undefined);
const isFive = { filter: { $eq: [{ $field: "n" }, { $literal: 5 }] } };

const CASES: [string, Step, Step, boolean][] = [
  ["the first row depends on keys up to it: a row before it", read([], 1), insert(-1), true],
  ["the first row depends on keys up to it: a row behind it", read([], 1), insert(1), false],
  ["the first row from the end: a row behind it", read([], 1, "desc"), insert(31), true],
  ["the first row from the end: a row before it", read([], 1, "desc"), insert(29), false],
  ["a loop that was left depends on what it consumed", read([], 2), insert(15), false],
  ["a loop that was left, inside what it consumed", read([], 2), insert(5), true],
  ["a whole range depends on all of it", read([["Gte", 10], ["Lt", 30]], all), insert(29), true],
  ["a whole range, a row beyond it", read([["Gte", 10], ["Lt", 30]], all), insert(30), false],
  ["a range without rows", read([["Eq", 15]], all), insert(15), true],
  ["a range without rows, a row beside it", read([["Eq", 15]], all), insert(16), false],
  ["a filter widens the read to what it looked at", read([], 1, "asc", [isFive]), insert(100), true],
  ["a limit does not", read([], all, "asc", [{ limit: 1 }]), insert(100), false],
  ["fields outside the index count too", read([["Eq", 10]], all), patch(1, { other: 1 }), true],
  ["a row that leaves the range", read([["Eq", 10]], all), patch(1, { n: 99 }), true],
  ["a row that comes into the range", read([["Eq", 99]], all), patch(1, { n: 99 }), true],
  ["a row that moves elsewhere", read([["Eq", 99]], all), patch(1, { n: 98 }), false],
  ["a row that is deleted", read([["Lte", 0]], all), remove(0), true],
  ["a document by id", get(1), patch(1, { other: 1 }), true],
  ["another document by id", get(1), patch(2, { other: 1 }), false],
  ["a document by id that is deleted", get(1), remove(1), true],
  ["a document that was only written", patch(1, { a: 1 }), patch(1, { b: 1 }), true],
  ["inserts that read nothing", insert(10), insert(10), false],
  ["a write that changes nothing", get(1), patch(1, { n: 10 }), false],
  ["a table that is created conflicts with everybody", get(1), (tx) => void insertDocument(tx, "", "new", makeObject([])), true],
];

for (const [name, reads, writes, conflicts] of CASES) {
  test(name, async () => {
    const { db, ids } = await filled();
    const slow = db.begin();
    reads(slow, ids);
    insertDocument(slow, "", "t", makeObject([["n", 1000]]));
    const quick = db.begin();
    writes(quick, ids);
    await db.commit(quick, "m:quick");
    if (conflicts) await assert.rejects(db.commit(slow, "m:slow"), ConflictError);
    else await db.commit(slow, "m:slow");
  });
}

test("who only reads never conflicts", async () => {
  const { db, ids } = await filled();
  const slow = db.begin();
  get(1)(slow, ids);
  const quick = db.begin();
  patch(1, { n: 5 })(quick, ids);
  await db.commit(quick, null);
  await db.commit(slow, null);
});

test("a conflict names the table, the writer and the document", async () => {
  for (const [writer, words] of [["m:other", 'A call to "m:other" changed'], ["m:slow", "Another call to this mutation changed"]] as const) {
    const { db, ids } = await filled();
    const slow = db.begin();
    patch(1, { a: 1 })(slow, ids);
    const quick = db.begin();
    patch(1, { b: 1 })(quick, ids);
    await db.commit(quick, writer);
    const text = `Documents read from or written to the "t" table changed while this mutation was being run and on every subsequent retry. ${words} the document with ID "${ids[1] as string}".`;
    await assert.rejects(db.commit(slow, "m:slow"), (error: Error) => error.message.startsWith(text));
  }
});

test("a savepoint restores writes and keeps reads and time", async () => {
  const { db, ids } = await filled();
  const tx = db.begin();
  insert(1)(tx, ids);
  const point = tx.savepoint();
  const before = tx.newestCreation as number;
  get(2)(tx, ids);
  insert(2)(tx, ids);
  remove(0)(tx, ids);
  tx.rollback(point);
  assert.deepEqual([tx.used.documentsWritten, tx.used.documentsRead, tx.used.databaseQueries], [1, 2, 2]);
  assert.ok((tx.newestCreation as number) > before);
  assert.equal(tx.pendingWrites().length, 1);
});

test("those that have conflicted run alone and in the order in which they came", async () => {
  const turns = new Turns(2);
  const order: string[] = [];
  const begin = (name: string, alone: boolean): void => {
    const wait = turns.begin(name, alone);
    if (wait === null) order.push(name);
    else void wait.then(() => order.push(`${name} later`));
  };
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  begin("a", false);
  begin("b", false);
  begin("c", true);
  begin("d", false);
  begin("e", false);
  begin("f", true);
  turns.end("a");
  await settled();
  assert.deepEqual(order, ["a", "b"]);
  turns.end("b");
  await settled();
  assert.deepEqual(order, ["a", "b", "c later"]);
  turns.end("c");
  await settled();
  assert.deepEqual(order, ["a", "b", "c later", "d later", "e later"]);
  turns.end("d");
  turns.end("e");
  await settled();
  turns.end("f");
  begin("g", true);
  assert.deepEqual(order.slice(5), ["f later", "g"]);
});

test("no more run together than may", async () => {
  const turns = new Turns(2);
  const began: number[] = [];
  for (let call = 0; call < 5; call++) {
    const wait = turns.begin(String(call), false);
    if (wait === null) began.push(call);
    else void wait.then(() => began.push(call));
  }
  for (const [ended, expected] of [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]].entries()) {
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(began, expected);
    turns.end(String(ended));
  }
});

test("two calls of one function do not run together", async () => {
  const turns = new Turns(2);
  assert.equal(turns.begin("a", false), null);
  const second = turns.begin("a", false);
  const other = turns.begin("b", false);
  let began = 0;
  void second?.then(() => (began += 1));
  void other?.then(() => (began += 1));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(began, 0);
  turns.end("a");
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(began, 2);
});


test("calls of a function that has just conflicted are expected to conflict, for a moment and until all is new", () => {
  let now = 0;
  const turns = new Turns(2, () => now);
  assert.equal(turns.hasConflicted("a"), false);
  turns.conflicted("a");
  now = 900;
  assert.deepEqual([turns.hasConflicted("a"), turns.hasConflicted("b")], [true, false]);
  now = 2000;
  assert.equal(turns.hasConflicted("a"), false);
  turns.conflicted("a");
  turns.forget();
  assert.equal(turns.hasConflicted("a"), false);
});
