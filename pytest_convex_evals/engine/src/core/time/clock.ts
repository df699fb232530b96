/**
 * The engine's only source of time: the real clock, or a virtual one that a grader starts and moves.
 *
 * Everything that waits, waits here, and fires in the order of due times, however late it is noticed. In virtual time only what is
 * already due fires by itself; `step` lets the owner go from one due time to the next.
 */

import { Tree } from "../db/tree.js";
import { encodeKey, KEY_END } from "../values/order.js";

export interface Timer {
  readonly at: number;
  cancel(): void;
}

interface Waiting {
  at: number;
  order: number;
  fire: () => void;
}

const MAX_DELAY = 2_000_000_000;
/** Timers of Node come up to half a millisecond early. */
const EARLY_MS = 0.5;

export class Clock {
  private virtualNow: number | null = null;
  /** By due time, then by age. */
  private waiting = Tree.empty<Waiting>();
  private order = 0;
  private alarm: { at: number; handle: NodeJS.Timeout } | null = null;

  get isVirtual(): boolean {
    return this.virtualNow !== null;
  }

  /** Milliseconds since the epoch, with fractions. */
  nowMs(): number {
    return this.virtualNow ?? performance.timeOrigin + performance.now();
  }

  nowNs(): bigint {
    return BigInt(Math.floor(this.nowMs() * 1000)) * 1000n;
  }

  /** Calls back once the clock has reached `at`. */
  at(at: number, fire: () => void): Timer {
    const order = this.order++;
    this.waiting = this.waiting.set(keyOf({ at, order }), { at, order, fire });
    this.arm();
    return { at, cancel: () => void (this.waiting = this.waiting.delete(keyOf({ at, order }))) };
  }

  after(ms: number, fire: () => void): Timer {
    return this.at(this.nowMs() + ms, fire);
  }

  /** Switches to virtual time. Waiting timers are dropped: the caller starts a fresh deployment. */
  startVirtual(at: number): void {
    this.dropAll();
    this.virtualNow = at;
  }

  startReal(): void {
    this.dropAll();
    this.virtualNow = null;
  }

  /** The due time of the next timer, if it is not later than `limit`. */
  nextDue(limit: number): number | null {
    const next = this.earliest();
    return next !== null && next.at <= limit ? next.at : null;
  }

  /** Moves virtual time to `at`, firing the first timer that is due. Returns whether one fired. */
  step(at: number): boolean {
    if (this.virtualNow === null) throw new Error("the clock is real");
    if (at > this.virtualNow) this.virtualNow = at;
    const next = this.earliest();
    if (next === null || next.at > this.virtualNow) return false;
    this.fire(next);
    return true;
  }

  private earliest(): Waiting | null {
    return this.waiting.cursor("", KEY_END, true).next()?.[1] ?? null;
  }

  private arm(): void {
    const next = this.earliest();
    if (next === null || (this.virtualNow !== null && next.at > this.virtualNow)) return;
    if (this.alarm !== null && this.alarm.at <= next.at) return;
    if (this.alarm !== null) clearTimeout(this.alarm.handle);
    const delay = Math.min(Math.max(0, next.at - this.nowMs()), MAX_DELAY);
    this.alarm = { at: next.at, handle: setTimeout(() => this.ring(), delay) };
  }

  /** Fires what is due; what that makes due waits for the next turn. */
  private ring(): void {
    this.alarm = null;
    const newest = this.order;
    const now = this.nowMs() + (this.isVirtual ? 0 : EARLY_MS);
    for (let next = this.earliest(); next !== null && next.at <= now && next.order < newest; next = this.earliest()) this.fire(next);
    this.arm();
  }

  private fire(entry: Waiting): void {
    this.waiting = this.waiting.delete(keyOf(entry));
    entry.fire();
  }

  private dropAll(): void {
    if (this.alarm !== null) clearTimeout(this.alarm.handle);
    this.alarm = null;
    this.waiting = Tree.empty();
  }
}

function keyOf({ at, order }: { at: number; order: number }): string {
  return encodeKey(at) + encodeKey(order);
}
