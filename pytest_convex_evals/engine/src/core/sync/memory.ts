/**
 * Successful mutations by session and request, so that one that is sent again is answered and not run again.
 *
 * A push does not make a repeated mutation new; a reset does, for the data it wrote is gone.
 */

import type { Engine } from "../engine.js";
import type { CallResult } from "../functions/caller.js";

const KEPT = 20_000;

export class MutationMemory {
  private readonly results = new Map<string, Promise<CallResult>>();
  private epoch: number;

  constructor(private readonly engine: Engine) {
    this.epoch = engine.epoch;
  }

  /** Runs a mutation, unless the same request is running or has succeeded before. */
  once(session: string, request: number, run: () => Promise<CallResult>): Promise<CallResult> {
    if (this.engine.epoch !== this.epoch) {
      this.epoch = this.engine.epoch;
      this.results.clear();
    }
    const key = `${session}|${request}`;
    const present = this.results.get(key);
    if (present !== undefined) return present;
    const result = run().then((finished) => ({ ...finished, reads: null }));
    this.results.set(key, result);
    if (this.results.size > KEPT) this.results.delete(this.results.keys().next().value as string);
    const forget = (): void => {
      if (this.results.get(key) === result) this.results.delete(key);
    };
    result.then((finished) => {
      if (!finished.outcome.ok) forget();
    }, forget);
    return result;
  }
}
