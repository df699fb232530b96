/** Runs scheduled functions when they are due: mutations exactly once, actions at most once. */

import { randomUUID } from "node:crypto";

import { ANONYMOUS } from "../auth/identity.js";
import type { Commit } from "../db/database.js";
import { docById, docsOf, type Doc } from "../db/tables.js";
import type { Transaction } from "../db/transaction.js";
import { findFunction } from "../deployment.js";
import { NotWritten } from "../durable/errors.js";
import type { Engine } from "../engine.js";
import { transact } from "../functions/actionSyscalls.js";
import { newRequestId, type CallRequest } from "../functions/caller.js";
import type { Value } from "../values/value.js";
import type { Timer } from "./clock.js";
import { JOBS_TABLE, setState, stateKind, type JobFacts } from "./jobs.js";

const MAX_RUNNING = 8;
const RETENTION_MS = 7 * 86_400_000;
const RETRY_MS = 500;

interface Due {
  namespace: string;
  id: string;
  at: number;
}

/** What the row of a running job shows beside its state. */
function running(request: CallRequest): [string, Value][] {
  return [
    ["request_id", request.requestId as string],
    ["execution_id", randomUUID()],
  ];
}

/** Thrown when the row of a job was cancelled before or while it ran. */
class JobGone extends Error {}

export class Scheduler {
  private readonly timers = new Map<string, Timer>();
  private due: Due[] = [];
  private active = 0;
  private epoch = 0;

  constructor(private readonly engine: Engine) {
    engine.db.onCommit((commit) => this.onCommit(commit));
  }

  /** Jobs that should be running now. */
  get backlog(): number {
    return this.due.length + this.active;
  }

  /** Forgets everything: the rows are gone. */
  clear(): void {
    for (const timer of this.timers.values()) timer.cancel();
    this.timers.clear();
    this.due = [];
    this.active = 0;
    this.epoch += 1;
  }

  /** Takes up the jobs of an earlier process: actions that it was running are not run again. */
  async recover(): Promise<void> {
    for (const { namespace, doc } of this.rows(null)) {
      const job: Due = { namespace, id: doc.id, at: doc.field("scheduledTime") as number };
      const kind = stateKind(doc);
      if (kind === "pending") {
        if (!this.timers.has(doc.id)) this.arm(namespace, doc);
        continue;
      }
      if (kind === "inProgress") await this.fail(job, "Transient error while executing action");
      else this.forgetLater(namespace, doc);
    }
  }

  private onCommit(commit: Commit): void {
    for (const write of commit.writes) {
      if (write.table !== JOBS_TABLE) continue;
      const kind = stateKind(write.after);
      if (write.before === null && kind === "pending") this.arm(write.namespace, write.after as Doc);
      else if (kind !== "pending") this.disarm(write.id);
      if (write.after?.field("completedTime") !== undefined) this.forgetLater(write.namespace, write.after);
    }
  }

  private disarm(id: string): void {
    this.timers.get(id)?.cancel();
    this.timers.delete(id);
  }

  private arm(namespace: string, doc: Doc): void {
    const at = doc.field("scheduledTime") as number;
    const { epoch } = this;
    const timer = this.engine.clock.at(at, () => {
      this.timers.delete(doc.id);
      if (epoch !== this.epoch) return;
      this.due.push({ namespace, id: doc.id, at });
      this.due.sort((a, b) => a.at - b.at);
      this.pump();
    });
    this.timers.set(doc.id, timer);
  }

  private pump(): void {
    while (this.active < MAX_RUNNING) {
      const job = this.due.shift();
      if (job === undefined) return;
      const { epoch } = this;
      this.active += 1;
      void this.run(job)
        .catch((error: unknown) => {
          if (error instanceof NotWritten) this.runAgain(job, epoch);
          else this.engine.report(error);
        })
        .finally(() => {
          if (epoch !== this.epoch) return;
          this.active -= 1;
          this.pump();
          this.engine.activity.changed();
        });
    }
  }

  /** A job whose row could not be written is still there. */
  private runAgain(job: Due, epoch: number): void {
    setTimeout(() => {
      if (epoch !== this.epoch) return;
      this.due.push(job);
      this.pump();
    }, RETRY_MS);
  }

  /** How a job ended is written as soon as it can be. */
  private async settle(write: () => Promise<unknown>): Promise<void> {
    const { epoch } = this;
    while (epoch === this.epoch) {
      try {
        await write();
        return;
      } catch (error) {
        if (!(error instanceof NotWritten)) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  private async run(job: Due): Promise<void> {
    const { engine } = this;
    const table = engine.db.tableOf(job.namespace, JOBS_TABLE);
    const doc = table === undefined ? undefined : docById(table, job.id);
    if (doc === undefined || stateKind(doc) !== "pending") return;
    const facts = doc.hidden as JobFacts;
    const component = engine.deployment.component(facts.component);
    const found = component === null ? null : findFunction(component, facts.path.module, facts.path.fn);
    const request: CallRequest = {
      path: facts.path,
      args: JSON.parse(doc.json).args as unknown,
      identity: ANONYMOUS,
      componentPath: facts.component,
      trusted: true,
      job: { id: job.id, namespace: job.namespace, itself: true },
      requestId: newRequestId(),
      caller: "Scheduler",
    };
    if (found === null) {
      const missing = component?.definition.modules.has(facts.path.module) === true;
      await this.fail(job, missing ? `Couldn't find "${facts.path.fn}" in module "${facts.path.module}".` : `Couldn't find JavaScript module '${facts.path.module}'`);
    } else if (found.fn.kind === "Query") {
      await this.fail(job, "Unsupported function type");
    } else if (found.fn.kind === "Mutation") {
      await this.runMutation(job, request);
    } else {
      await this.runAction(job, request);
    }
  }

  private async runMutation(job: Due, request: CallRequest): Promise<void> {
    const row = (tx: Transaction, wanted: string): Doc => {
      const doc = tx.get(job.namespace, JOBS_TABLE, job.id);
      if (doc === null || stateKind(doc) !== wanted) throw new JobGone();
      return doc;
    };
    try {
      const result = await this.engine.caller.mutation(request, {
        retryForever: true,
        begin: (tx) => setState(tx, job.namespace, row(tx, "pending"), "inProgress", running(request)),
        commit: (tx) => setState(tx, job.namespace, row(tx, "inProgress"), "success"),
      });
      if (!result.outcome.ok) await this.fail(job, result.outcome.failure.text);
    } catch (error) {
      if (!(error instanceof JobGone)) throw error;
    }
  }

  private async runAction(job: Due, request: CallRequest): Promise<void> {
    if (!(await this.move(job, "pending", "inProgress", running(request)))) return;
    const result = await this.engine.caller.action(request);
    const { outcome } = result;
    await this.settle(() => (outcome.ok ? this.move(job, "inProgress", "success") : this.fail(job, outcome.failure.text)));
  }

  private async fail(job: Due, error: string): Promise<void> {
    await transact(this.engine, (tx) => {
      const doc = tx.get(job.namespace, JOBS_TABLE, job.id);
      const kind = stateKind(doc);
      if (doc !== null && (kind === "pending" || kind === "inProgress")) setState(tx, job.namespace, doc, "failed", [["error", error]]);
    });
  }

  /** Whether the row was still in the state it is moved from. */
  private move(job: Due, from: string, to: string, extra: [string, Value][] = []): Promise<boolean> {
    return transact(this.engine, (tx) => {
      const doc = tx.get(job.namespace, JOBS_TABLE, job.id);
      if (doc === null || stateKind(doc) !== from) return false;
      setState(tx, job.namespace, doc, to, extra);
      return true;
    });
  }

  /** Finished rows are kept for a week. */
  private forgetLater(namespace: string, { id, value }: Doc): void {
    const { epoch } = this;
    this.engine.clock.at((value["completedTime"] as number) + RETENTION_MS, () => {
      if (epoch !== this.epoch) return;
      const forget = (tx: Transaction): void => {
        const doc = tx.get(namespace, JOBS_TABLE, id);
        if (doc !== null) tx.write(namespace, JOBS_TABLE, doc, null);
      };
      void this.settle(() => transact(this.engine, forget)).catch((error: unknown) => this.engine.report(error));
    });
  }

  /** All rows of the app and its components, oldest first. */
  rows(namespace: string | null): { namespace: string; doc: Doc }[] {
    const rows: { namespace: string; doc: Doc }[] = [];
    for (const table of this.engine.db.snapshot.tables.values()) {
      if (table.name !== JOBS_TABLE || (namespace !== null && table.namespace !== namespace)) continue;
      for (const doc of docsOf(table)) rows.push({ namespace: table.namespace, doc });
    }
    return rows;
  }
}
