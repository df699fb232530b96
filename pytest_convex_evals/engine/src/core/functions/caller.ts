/** Top-level calls: queries, mutations with their retries, actions and HTTP actions, each with its log entry. */

import { createHash } from "node:crypto";

import { ANONYMOUS, seesInternal, type Identity } from "../auth/identity.js";
import type { Snapshot } from "../db/database.js";
import type { Transaction } from "../db/transaction.js";
import { nearLimitWarnings, noUsage, type Amounts } from "../db/usage.js";
import type { ReadSet } from "../db/readset.js";
import type { Component, UdfKind } from "../deployment.js";
import type { Engine } from "../engine.js";
import { ConflictError, JsFailure } from "../errors.js";
import { RunnerDied, RunnerLost, userBudget } from "../runners/udf.js";
import { runSystemFunction, isSystemPath } from "../system/functions.js";
import { takeRandom } from "../values/random.js";
import { encodeText, resolveCommitTs, type Value } from "../values/value.js";
import { actionSyscall } from "./actionSyscalls.js";
import { NO_REQUEST, type CallRoot, type RequestFacts } from "./context.js";
import { asFailure, environmentOf, runInTransaction, seeds } from "./executor.js";
import { CallLog } from "./logs.js";
import { fullName, shortName, type FunctionPath } from "./paths.js";
import type { JobRef } from "../time/jobs.js";
import { CallStreams } from "./streams.js";
import { Turns } from "./turns.js";
import { findForClient, parseArguments, parseResult, validateArguments, validateResult, type Checked } from "./validation.js";

/** What a caller adds to the transaction of a mutation. */
export interface MutationHooks {
  /** Before the function runs, at the start of every attempt; may throw to give up. */
  begin?(tx: Transaction): void;
  /** After it has succeeded, in the same transaction. */
  commit?(tx: Transaction, result: CallResult): void;
  retryForever?: boolean;
}

export interface CallRequest {
  path: FunctionPath;
  /** The JSON of the positional arguments (or one object). */
  args: unknown;
  identity: Identity;
  componentPath?: string;
  requestId?: string;
  /** Scheduler, crons and actions may call everything. */
  trusted?: boolean;
  job?: JobRef | null;
  request?: RequestFacts;
  caller?: string;
  journal?: string | null;
  /** Where a query reads; the latest state when absent. */
  snapshot?: Snapshot;
}

export interface CallResult {
  outcome: { ok: true; value: Value } | { ok: false; failure: JsFailure };
  logLines: string[];
  usage: Amounts;
  requestId: string;
  /** Timestamp at which a query was read or a mutation committed. */
  ts: bigint;
  reads: ReadSet | null;
  journal: string | null;
}

const MAX_RETRIES = 4;
/** The platform's pauses begin with 100 ms and spread the contenders; here the one that conflicted runs alone, whenever it runs. */
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 2000;
const MAX_LOST = 5;
/** Queries never wait for anything but their own operations, and one at a time is quickest. */
const MOST_QUERIES = 1;
const MOST_MUTATIONS = 2;

export function newRequestId(): string {
  return takeRandom(8).toString("hex");
}

export function socketRequestId(session: string, request: number): string {
  return createHash("sha256").update(`${session}|${request}`).digest("hex").slice(0, 16);
}

export class Caller {
  /** Top-level calls under way. */
  running = 0;
  private readonly turns = { Query: new Turns(MOST_QUERIES), Mutation: new Turns(MOST_MUTATIONS) };

  constructor(private readonly engine: Engine) {}

  /** Nothing that happened so far says anything about the next calls. */
  forget(): void {
    this.turns.Mutation.forget();
  }

  query(request: CallRequest): Promise<CallResult> {
    return this.transactional(request, "Query", {});
  }

  mutation(request: CallRequest, hooks: MutationHooks = {}): Promise<CallResult> {
    return this.transactional(request, "Mutation", hooks);
  }

  private async transactional(
    request: CallRequest,
    kind: "Query" | "Mutation",
    hooks: MutationHooks,
  ): Promise<CallResult> {
    this.running += 1;
    const startedAt = performance.now();
    const requestId = request.requestId ?? newRequestId();
    const name = `${request.componentPath ?? ""}\u0000${fullName(request.path)}`;
    try {
      let lost = 0;
      const { epoch } = this.engine;
      for (let attempt = 0; ; ) {
        try {
          const result = await this.inTurn(kind, name, attempt > 0 || this.turns.Mutation.hasConflicted(name), () =>
            kind === "Mutation" && this.engine.epoch !== epoch ? null : this.attempt(request, kind, requestId, hooks),
          );
          if (result === null) return this.gaveUp(request, kind, requestId, "The deployment was reset.", startedAt);
          this.logEntry(request, kind, result, startedAt);
          return result;
        } catch (error) {
          if (error instanceof RunnerLost && lost < MAX_LOST) {
            lost += error instanceof RunnerDied ? MAX_LOST : 1;
            continue;
          }
          if (error instanceof RunnerLost) return this.gaveUp(request, kind, requestId, error.message, startedAt);
          if (error instanceof ConflictError) this.turns.Mutation.conflicted(name);
          if (!(error instanceof ConflictError) || (attempt >= MAX_RETRIES && hooks.retryForever !== true)) throw error;
          await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS)));
          attempt += 1;
        }
      }
    } finally {
      this.running -= 1;
      this.engine.activity.changed();
    }
  }

  private async inTurn<T>(kind: "Query" | "Mutation", name: string, alone: boolean, run: () => Promise<T> | T): Promise<T> {
    const turns = this.turns[kind];
    const others = turns.begin(name, alone);
    if (others !== null) await others;
    try {
      return await run();
    } finally {
      turns.end(name);
    }
  }

  /** The result of a call that is not tried again: its process died under it twice, or the data it worked on is gone. */
  private gaveUp(request: CallRequest, kind: "Query" | "Mutation", requestId: string, message: string, startedAt: number): CallResult {
    const outcome = { ok: false as const, failure: new JsFailure(message) };
    const result: CallResult = { outcome, logLines: [], usage: noUsage(), requestId, ts: this.engine.db.snapshot.ts, reads: null, journal: null };
    this.logEntry(request, kind, result, startedAt);
    return result;
  }

  private root(request: CallRequest, requestId: string, log: CallLog): CallRoot {
    return {
      log,
      requestId,
      epoch: this.engine.epoch,
      budget: userBudget(),
      now: Math.floor(this.engine.clock.nowMs()),
      nextSeed: seeds(),
      job: request.job ?? null,
      request: request.request ?? NO_REQUEST,
    };
  }

  private async attempt(
    request: CallRequest,
    kind: "Query" | "Mutation",
    requestId: string,
    hooks: MutationHooks,
  ): Promise<CallResult> {
    const { engine } = this;
    const log = new CallLog();
    const tx = engine.db.begin(request.snapshot);
    hooks.begin?.(tx);
    const base = { logLines: log.lines, usage: tx.used, requestId, ts: tx.base.ts, reads: tx.reads };
    let journal: string | null = null;
    let value: Value;
    try {
      if (isSystemPath(request.path)) {
        value = runSystemFunction(engine, tx, request, kind);
      } else {
        const component = engine.deployment.component(request.componentPath ?? "");
        const checked = this.find(request, component, kind);
        const args = parseArguments(request.path, request.args);
        const namespace = (component as Component).path;
        validateArguments(checked.fn, args, tx.tableNames(namespace));
        const outcome = await runInTransaction(engine, {
          root: this.root(request, requestId, log),
          tx,
          component: component as Component,
          path: request.path,
          checked,
          args,
          inMutation: kind === "Mutation",
          identity: request.identity,
          depth: 0,
          journal: request.journal ?? null,
        });
        value = outcome.value;
        journal = outcome.journal;
        validateResult(checked.fn, value, tx.tableNames(namespace));
        if (tx.pendingWrites().length > 0) engine.room?.require();
      }
    } catch (error) {
      return { ...base, outcome: { ok: false, failure: asFailure(error) }, journal };
    }
    for (const warning of nearLimitWarnings(tx.used)) log.warn(warning);
    if (kind === "Query") return { ...base, outcome: { ok: true, value }, journal };
    const ts = engine.db.nextTs();
    const result: CallResult = { ...base, outcome: { ok: true, value: resolveCommitTs(value, ts) }, journal };
    hooks.commit?.(tx, result);
    const pinned = result.outcome.ok && result.outcome.value !== value;
    return { ...result, ts: await engine.db.commit(tx, shortName(request.path), ts, pinned) };
  }

  private find(request: CallRequest, component: Component | null, kind: UdfKind): Checked {
    const allowed = request.trusted === true || seesInternal(request.identity);
    if (component !== null && component.path !== "" && request.trusted !== true && request.identity.kind !== "admin") {
      return findForClient(null, request.path, kind, false);
    }
    return findForClient(component, request.path, kind, allowed);
  }

  async action(request: CallRequest): Promise<CallResult> {
    const { engine } = this;
    this.running += 1;
    const startedAt = performance.now();
    const requestId = request.requestId ?? newRequestId();
    const log = new CallLog();
    const usage = noUsage();
    const base = { logLines: log.lines, usage, requestId, ts: engine.db.snapshot.ts, reads: null, journal: null };
    let result: CallResult;
    try {
      const component = engine.deployment.component(request.componentPath ?? "");
      const checked = this.find(request, component, "Action");
      const args = parseArguments(request.path, request.args);
      const tables = engine.db.begin().tableNames((component as Component).path);
      validateArguments(checked.fn, args, tables);
      const root = this.root(request, requestId, log);
      const payload = await this.runAction(root, component as Component, request.path, checked, args, request.identity, usage);
      const value = parseResult(request.path, payload);
      validateResult(checked.fn, value, tables);
      result = { ...base, outcome: { ok: true, value } };
    } catch (error) {
      result = { ...base, outcome: { ok: false, failure: asFailure(error) } };
    } finally {
      this.running -= 1;
      engine.activity.changed();
    }
    this.logEntry(request, "Action", result, startedAt);
    return result;
  }

  private async runAction(root: CallRoot, component: Component, path: FunctionPath, checked: Checked, args: Value[], identity: Identity, usage: Amounts): Promise<string> {
    const { engine } = this;
    const runner = checked.module.environment === "node" ? engine.nodeRunner : engine.actionRunner;
    const streams = new CallStreams();
    const ended = runner.call(
      {
        what: "action",
        def: component.definition.path,
        path: path.module,
        fn: path.fn,
        now: engine.clock.nowMs(),
        frozen: engine.clock.isVirtual,
        seed: root.nextSeed(),
        importNow: engine.deployment.importNow,
        importSeed: engine.deployment.importSeed,
        env: environmentOf(engine, component),
        requestId: root.requestId,
      },
      `[${args.map(encodeText).join(",")}]`,
      {
        syscall: (op, json) => actionSyscall(engine, { root, component, path, identity, usage, streams }, op, json),
        log: (level, line) => root.log.add(level, line),
      },
    );
    const { done, unawaited } = await ended.finally(() => streams.closeAll());
    if (unawaited.length > 0) {
      root.log.warn(
        `${unawaited.length} unawaited operation${unawaited.length === 1 ? "" : "s"}: [${unawaited.map((op) => op.replace(/^1\.0\/(actions\/)?/, "")).join(", ")}]. Async operations should be awaited or they might not run. See https://docs.convex.dev/functions/actions#dangling-promises for more information.`,
      );
    }
    if (!done.ok) throw new JsFailure(done.error.message, done.error.frames, done.error.data === undefined ? undefined : JSON.parse(done.error.data));
    return done.payload;
  }

  /** Any kind of function by name, as the control channel, the scheduler and `/api/function` call it. */
  async any(request: CallRequest, kind: UdfKind): Promise<CallResult> {
    if (kind === "Action") return this.action(request);
    return kind === "Query" ? this.query(request) : this.mutation(request);
  }

  private logEntry(request: CallRequest, kind: UdfKind, result: CallResult, startedAt: number): void {
    if (isSystemPath(request.path)) return;
    this.engine.logs.push({
      timestamp: this.engine.clock.nowMs(),
      udfType: kind,
      identifier: fullName(request.path),
      componentPath: request.componentPath ?? "",
      caller: request.caller ?? "Http",
      requestId: result.requestId,
      executionTime: (performance.now() - startedAt) / 1000,
      success: result.outcome.ok,
      error: result.outcome.ok ? null : result.outcome.failure.text,
      logLines: result.logLines,
    });
  }
}

/** The error text that clients see. */
export function clientError(requestId: string, failure: JsFailure): string {
  return `[Request ID: ${requestId}] Server Error\n${failure.text}`;
}

export { ANONYMOUS };
