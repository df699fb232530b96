/** The clock: due order in real and virtual time, cancelling, stepping. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock } from "#core/time/clock.js";

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await turn();
}

function recorder(clock: Clock): { fired: string[]; at: (at: number, name: string) => { cancel(): void } } {
  const fired: string[] = [];
  return { fired, at: (at, name) => clock.at(at, () => fired.push(name)) };
}

test("what is late fires in the order of due times, then of age", async () => {
  for (const virtual of [false, true]) {
    const clock = new Clock();
    if (virtual) clock.startVirtual(1_000_000);
    const { fired, at } = recorder(clock);
    const now = clock.nowMs();
    at(now, "c");
    at(now - 10, "b");
    at(now, "d");
    at(now - 1000, "a");
    await until(() => fired.length === 4);
    assert.deepEqual(fired, ["a", "b", "c", "d"]);
  }
});

test("real time fires the near before the far, and an earlier one that comes later", async () => {
  const clock = new Clock();
  const { fired, at } = recorder(clock);
  const now = clock.nowMs();
  const far = at(now + 3_600_000, "far");
  at(now + 40, "second");
  at(now + 20, "first");
  const never = at(now + 30, "never");
  never.cancel();
  await until(() => fired.length === 2);
  assert.deepEqual(fired, ["first", "second"]);
  assert.ok(clock.nowMs() >= now + 39);
  far.cancel();
  clock.startVirtual(0);
});

test("what a timer makes due waits for the next turn", async () => {
  const clock = new Clock();
  clock.startVirtual(5);
  let count = 0;
  const again = (): void => {
    count += 1;
    if (count < 100) clock.after(0, again);
  };
  clock.after(0, again);
  await until(() => count > 0);
  assert.ok(count < 100);
  await until(() => count === 100);
});

test("virtual time stands until it is stepped, one timer at a time", async () => {
  const clock = new Clock();
  clock.startVirtual(1000);
  const { fired, at } = recorder(clock);
  for (let n = 0; n < 2000; n++) at(1000 + ((n * 7919) % 2000) + 1, String((n * 7919) % 2000));
  at(9000, "cancelled").cancel();
  await turn();
  assert.deepEqual(fired, []);
  assert.equal(clock.nextDue(1000), null);
  for (let due = clock.nextDue(3000); due !== null; due = clock.nextDue(3000)) assert.equal(clock.step(due), true);
  assert.deepEqual(fired, Array.from({ length: 2000 }, (_, n) => String(n)));
  assert.equal(clock.step(10_000), false);
  assert.equal(clock.nowMs(), 10_000);
  assert.equal(clock.step(5), false);
  assert.equal(clock.nowMs(), 10_000);
});

test("a restart forgets what waited", async () => {
  const clock = new Clock();
  const { fired, at } = recorder(clock);
  at(clock.nowMs(), "old");
  clock.startVirtual(0);
  clock.startReal();
  at(clock.nowMs(), "new");
  await until(() => fired.length > 0);
  assert.deepEqual(fired, ["new"]);
});
