/**
 * Successful mutations by session and request, so that one that is sent again is answered and not run again.
 *
 * A push does not make a repeated mutation new; a reset does, for the data it wrote is gone.
 */

import type { Engine } from "../engine.js";
import type { CallResult, MutationHooks } from "../functions/caller.js";
import { noUsage } from "../db/usage.js";
import { encodeText, parseValue } from "../values/value.js";

/** Prefix of the facts that hold results, for requests that are sent again after a restart. */
export const SENT_AGAIN = "request:";
const KEPT = 20_000;

export class MutationMemory {
  private readonly results = new Map<string, Promise<CallResult>>();
  /** Keys of facts, oldest first. */
  private kept: string[] | null = null;
  private epoch: number;

  constructor(private readonly engine: Engine) {
    this.epoch = engine.epoch;
    engine.onReset(() => this.forgetAfterReset());
  }

  /** A push keeps the data, and with it what has been done to it. */
  private forgetAfterReset(): void {
    if (this.engine.epoch === this.epoch) return;
    this.epoch = this.engine.epoch;
    this.results.clear();
    this.kept = null;
  }

  /** Runs a mutation, unless the same request is running or has succeeded before. */
  once(session: string, request: number, run: (hooks: MutationHooks) => Promise<CallResult>): Promise<CallResult> {
    const key = `${session}|${request}`;
    const present = this.results.get(key) ?? this.recalled(key);
    if (present !== undefined) return present;
    const result = run(this.engine.db.isDurable ? this.hooks(key) : {}).then((finished) => ({ ...finished, reads: null }));
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

  /** Keeps the result in the transaction of the mutation itself. */
  private hooks(key: string): MutationHooks {
    return {
      commit: (tx, result) => {
        if (!result.outcome.ok) return;
        const { facts } = this.engine.db;
        this.kept ??= [...facts.keys()].filter((name) => name.startsWith(SENT_AGAIN));
        const name = SENT_AGAIN + key;
        tx.facts.set(name, JSON.stringify({ value: encodeText(result.outcome.value), logLines: result.logLines, requestId: result.requestId }));
        if (this.kept[this.kept.length - 1] !== name) this.kept.push(name);
        while (this.kept.length > KEPT) tx.facts.set(this.kept.shift() as string, null);
      },
    };
  }

  private recalled(key: string): Promise<CallResult> | undefined {
    const { db } = this.engine;
    const text = db.facts.get(SENT_AGAIN + key);
    if (text === undefined) return undefined;
    const { value, logLines, requestId } = JSON.parse(text) as { value: string; logLines: string[]; requestId: string };
    return Promise.resolve({
      outcome: { ok: true, value: parseValue(JSON.parse(value)) },
      logLines,
      usage: noUsage(),
      requestId,
      ts: db.snapshot.ts,
      reads: null,
      journal: null,
    });
  }
}
