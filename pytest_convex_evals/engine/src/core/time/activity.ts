/** Whether the backend is doing something, and waiting until it is not. */

import type { Engine } from "../engine.js";

export class Activity {
  private readonly waiters = new Set<() => void>();

  constructor(private readonly engine: Engine) {}

  /** Told whenever a call or a job has ended. */
  changed(): void {
    for (const wake of [...this.waiters]) wake();
  }

  /** Something runs that is not merely waiting for the clock, or a job is due. */
  get busy(): boolean {
    const { caller, actionRunner, nodeRunner, scheduler, clock, db } = this.engine;
    if (db.isWriting) return true;
    if (!clock.isVirtual && clock.nextDue(clock.nowMs()) !== null) return true;
    return caller.running - actionRunner.sleeping - nodeRunner.sleeping > 0 || (scheduler.backlog > 0 && caller.running === 0);
  }

  /** Waits until nothing runs. Returns false when the deadline came first. */
  async quiet(deadlineMs: number): Promise<boolean> {
    const end = performance.now() + deadlineMs;
    for (;;) {
      while (this.busy) {
        if (performance.now() > end) return false;
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, 20);
          const wake = (): void => {
            clearTimeout(timer);
            this.waiters.delete(wake);
            resolve();
          };
          this.waiters.add(wake);
          setTimeout(() => this.waiters.delete(wake), 20);
        });
      }
      // What follows the end of a call, such as planning the next run of a cron, takes its turn first.
      for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (!this.busy) return true;
    }
  }

  /** Waits until nothing runs and nothing is due. */
  idle(deadlineMs: number): Promise<boolean> {
    return this.engine.clock.isVirtual ? this.advance(0, deadlineMs) : this.quiet(deadlineMs);
  }

  /** Moves the virtual clock forward, running what falls due in order. */
  async advance(ms: number, deadlineMs: number): Promise<boolean> {
    const { clock } = this.engine;
    const end = performance.now() + deadlineMs;
    const target = clock.nowMs() + ms;
    for (;;) {
      if (!(await this.quiet(end - performance.now()))) return false;
      const due = clock.nextDue(target);
      if (due === null) break;
      clock.step(due);
    }
    clock.step(target);
    return this.quiet(end - performance.now());
  }
}
