/**
 * The engine's only source of time: the real clock, or a virtual one that a grader starts and moves.
 *
 * Everything that waits, waits here. In virtual time nothing fires by itself; `advanceTo` lets the owner step from one due time to
 * the next.
 */

export interface Timer {
  readonly at: number;
  cancel(): void;
}

interface Waiting {
  at: number;
  order: number;
  fire: () => void;
  handle: NodeJS.Timeout | null;
}

const MAX_DELAY = 2_000_000_000;

export class Clock {
  private virtualNow: number | null = null;
  private readonly waiting = new Set<Waiting>();
  private order = 0;

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
    const entry: Waiting = { at, order: this.order++, fire, handle: null };
    this.waiting.add(entry);
    if (this.virtualNow === null) this.arm(entry);
    else if (at <= this.virtualNow) entry.handle = setTimeout(() => this.fire(entry), 0);
    return {
      at,
      cancel: () => {
        this.waiting.delete(entry);
        if (entry.handle !== null) clearTimeout(entry.handle);
      },
    };
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
    let first: Waiting | null = null;
    for (const entry of this.waiting) {
      if (first === null || entry.at < first.at || (entry.at === first.at && entry.order < first.order)) first = entry;
    }
    return first;
  }

  private arm(entry: Waiting): void {
    const delay = Math.max(0, entry.at - this.nowMs());
    entry.handle = setTimeout(() => {
      if (this.nowMs() + 0.5 >= entry.at) this.fire(entry);
      else this.arm(entry);
    }, Math.min(delay, MAX_DELAY));
  }

  private fire(entry: Waiting): void {
    if (!this.waiting.delete(entry)) return;
    if (entry.handle !== null) clearTimeout(entry.handle);
    entry.fire();
  }

  private dropAll(): void {
    for (const entry of this.waiting) if (entry.handle !== null) clearTimeout(entry.handle);
    this.waiting.clear();
  }
}
