/** Cron jobs: when they run next, their runs one at a time, and their history. */

import { createHash } from "node:crypto";

import { ANONYMOUS } from "../auth/identity.js";
import type { Transaction } from "../db/transaction.js";
import type { Fact } from "../durable/entries.js";
import { findFunction, type Component, type CronSchedule, type CronSpec } from "../deployment.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import type { CallRequest, CallResult } from "../functions/caller.js";
import { parseFunctionPath } from "../functions/paths.js";
import { newId } from "../values/ids.js";
import { encodeText } from "../values/value.js";
import type { Timer } from "./clock.js";
import { CRON_FACTS, finishedFacts, jobFact, KEPT_RUNS, keptJob, keyOfFact, type Finished } from "./cronfacts.js";
import { parseCronExpression, type CronExpression } from "./cronexpr.js";

const RETRY_MS = 500;
const HOUR_S = 3600;
/** A run that is this near takes place although its schedule changed. */
const SOON_MS = 30_000;
const CRON_TABLE_NUMBER = 531;

export interface CronRun {
  cron: string;
  component: string;
  /** `mod.js:fn` */
  udfPath: string;
  /** When it was due, in milliseconds. */
  scheduledFor: number;
  /** When it was finished. */
  at: number;
  status: { type: "success"; value: string } | { type: "err"; error: string } | { type: "canceled"; skipped: number };
  logLines: string[];
  executionTime: number;
}

export interface CronJob {
  key: string;
  id: string;
  creationTime: number;
  component: string;
  spec: CronSpec;
  offsetMs: number;
  prevMs: number | null;
  nextMs: number;
  running: boolean;
  runs: CronRun[];
  /** Runs recorded so far, those that were dropped too. */
  recorded: number;
  /** When the action was due that has been started and not ended. */
  startedMs: number | null;
  timer: Timer | null;
}

/** The offset of a job is fixed by its name, so that runs repeat from one deployment to the next. */
function splay(key: string, seconds: number): number {
  return (createHash("sha256").update(key).digest().readUInt32BE(0) % seconds) * 1000;
}

function expressionOf(schedule: CronSchedule): { expression: CronExpression; splaySeconds: number } | null {
  const minute = "minuteUTC" in schedule ? schedule.minuteUTC : undefined;
  const at = minute ?? 0;
  const splaySeconds = minute === undefined ? HOUR_S : 60;
  switch (schedule.type) {
    case "interval":
      return null;
    case "hourly":
      return { expression: parseCronExpression(`${at} * * * *`), splaySeconds };
    case "daily":
      return { expression: parseCronExpression(`${at} ${schedule.hourUTC} * * *`), splaySeconds };
    case "weekly":
      return { expression: parseCronExpression(`${at} ${schedule.hourUTC} * * ${schedule.dayOfWeek}`), splaySeconds };
    case "monthly":
      return { expression: parseCronExpression(`${at} ${schedule.hourUTC} ${schedule.day} * *`), splaySeconds };
    case "cron":
      return { expression: parseCronExpression(schedule.cronExpr), splaySeconds: 60 };
  }
}

/** The check of a push: the schedule parses and can match. */
export function checkSchedule(schedule: CronSchedule, nowMs: number): void {
  const found = expressionOf(schedule);
  if (found !== null && found.expression.next(nowMs) === null) {
    throw new UserError("InvalidCron", `Cron schedule ${JSON.stringify(schedule)} will never match any time`);
  }
}

function nextRun(schedule: CronSchedule, offsetMs: number, afterMs: number, prevMs: number | null): number {
  if (schedule.type === "interval") return prevMs === null ? afterMs : prevMs + schedule.seconds * 1000;
  const { expression } = expressionOf(schedule) as { expression: CronExpression };
  const match = expression.next(Math.floor(afterMs - offsetMs) + 1);
  return (match ?? Infinity) + offsetMs;
}

export class Crons {
  private jobs = new Map<string, CronJob>();
  /** Jobs whose action an earlier process did not end. */
  private readonly interrupted: CronJob[] = [];

  constructor(private readonly engine: Engine) {}

  all(): CronJob[] {
    return [...this.jobs.values()];
  }

  runs(): CronRun[] {
    return this.all()
      .flatMap((job) => job.runs)
      .sort((a, b) => a.scheduledFor - b.scheduledFor);
  }

  /** Forgets all history and starts as after a first push. */
  restart(): void {
    for (const job of this.jobs.values()) job.timer?.cancel();
    this.jobs = new Map();
    this.activate();
  }

  /** Takes over the crons of the deployment: equal ones go on, changed ones are planned anew, missing ones end. */
  activate(): void {
    const now = this.engine.clock.nowMs();
    const kept = new Map<string, CronJob>();
    for (const component of this.engine.deployment.components()) {
      for (const spec of component.definition.modules.get("crons.js")?.crons ?? []) {
        const key = `${component.path}\n${spec.name}`;
        kept.set(key, this.adopt(key, component, spec, now));
      }
    }
    for (const [key, job] of this.jobs) if (!kept.has(key)) job.timer?.cancel();
    this.jobs = kept;
  }

  private adopt(key: string, component: Component, spec: CronSpec, now: number): CronJob {
    const present = this.jobs.get(key) ?? this.recalled(key, component, spec);
    const same = JSON.stringify(present?.spec.schedule) === JSON.stringify(spec.schedule);
    if (present !== undefined && same) {
      present.spec = spec;
      return present;
    }
    const offsetMs = splay(key, expressionOf(spec.schedule)?.splaySeconds ?? 1);
    if (present !== undefined) {
      present.spec = spec;
      present.offsetMs = offsetMs;
      if (present.running || present.nextMs - now <= SOON_MS) return present;
      present.prevMs = null;
      present.nextMs = nextRun(spec.schedule, offsetMs, now, null);
      this.arm(present);
      return present;
    }
    const job: CronJob = {
      key,
      id: newId(CRON_TABLE_NUMBER, now),
      creationTime: now,
      component: component.path,
      spec,
      offsetMs,
      prevMs: null,
      nextMs: nextRun(spec.schedule, offsetMs, now, null),
      running: false,
      runs: [],
      recorded: 0,
      startedMs: null,
      timer: null,
    };
    this.arm(job);
    return job;
  }

  // ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** A job of an earlier process. */
  private recalled(key: string, component: Component, spec: CronSpec): CronJob | undefined {
    const found = keptJob(this.engine.db.facts, key);
    if (found === null) return undefined;
    const { schedule, nextMs, runs, ...kept } = found;
    const running = kept.startedMs !== null;
    const job: CronJob = { key, ...kept, nextMs: nextMs ?? Infinity, component: component.path, spec: { ...spec, schedule }, running, runs, timer: null };
    if (running) this.interrupted.push(job);
    else this.arm(job);
    return job;
  }

  /** Ends the runs that an earlier process left unfinished. */
  async recover(): Promise<void> {
    for (const job of this.interrupted.splice(0)) {
      const status = { type: "err" as const, error: "Transient error while executing action" };
      await this.finish(job, this.after(job, this.runOf(job, status, [], 0)), true);
    }
    await this.keep();
  }

  /** Keeps the jobs of the deployment, and nothing about others. */
  async keep(): Promise<void> {
    const { db } = this.engine;
    if (!db.isDurable) return;
    const gone = [...db.facts.keys()].filter((name) => name.startsWith(CRON_FACTS) && !this.jobs.has(keyOfFact(name)));
    await db.remember([...gone.map((name): Fact => [name, null]), ...this.all().map((job) => jobFact(job))]);
  }

  // ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  private arm(job: CronJob): void {
    job.timer?.cancel();
    if (!Number.isFinite(job.nextMs)) return;
    job.timer = this.engine.clock.at(job.nextMs, () => {
      void this.run(job).catch((error: unknown) => this.runAgain(job, error));
    });
  }

  /** A run that the engine could not make is still due. */
  private runAgain(job: CronJob, error: unknown): void {
    this.engine.report(error);
    job.running = false;
    setTimeout(() => {
      if (this.has(job)) this.arm(job);
    }, RETRY_MS);
  }

  private has(job: CronJob): boolean {
    return this.jobs.get(job.key) === job;
  }

  private async run(job: CronJob): Promise<void> {
    if (job.running) return;
    job.running = true;
    const { engine } = this;
    const { spec } = job;
    const startedAt = performance.now();
    const component = engine.deployment.component(job.component);
    const path = parseFunctionPath(spec.udfPath);
    const kind = (component === null ? null : findFunction(component, path.module, path.fn))?.fn.kind ?? "Mutation";
    const request: CallRequest = { path, args: spec.args, identity: ANONYMOUS, componentPath: job.component, trusted: true, caller: "Cron" };
    const ended = ({ outcome, logLines }: CallResult): Finished => {
      const status: CronRun["status"] = outcome.ok ? { type: "success", value: encodeText(outcome.value) } : { type: "err", error: outcome.failure.text };
      return this.after(job, this.runOf(job, status, logLines, (performance.now() - startedAt) / 1000));
    };
    if (kind !== "Mutation") {
      job.startedMs = job.nextMs;
      await engine.db.remember([jobFact(job)]);
      await this.finish(job, ended(await engine.caller.any(request, kind)), true);
      return;
    }
    // What a mutation wrote and that it has run are one transaction.
    let kept: Finished | null = null;
    const commit = (tx: Transaction, result: CallResult): void => {
      kept = ended(result);
      if (engine.db.isDurable) for (const [key, text] of finishedFacts(job, kept)) tx.facts.set(key, text);
    };
    const result = await engine.caller.mutation(request, { commit, retryForever: true });
    if (result.outcome.ok && kept !== null) await this.finish(job, kept, false);
    else await this.finish(job, ended(result), true);
  }

  private runOf(job: CronJob, status: CronRun["status"], logLines: string[], executionTime: number): CronRun {
    const { spec, component, nextMs } = job;
    return { cron: spec.name, component, udfPath: spec.udfPath, scheduledFor: nextMs, at: this.engine.clock.nowMs(), status, logLines, executionTime };
  }

  /** The job after a run; occurrences that passed while it was running are dropped. */
  private after(job: CronJob, run: CronRun): Finished {
    const now = this.engine.clock.nowMs();
    const prevMs = run.scheduledFor;
    const { schedule } = job.spec;
    if (schedule.type !== "interval") return { prevMs, nextMs: nextRun(schedule, job.offsetMs, now, prevMs), runs: [run] };
    const step = schedule.seconds * 1000;
    const nextMs = prevMs + step;
    if (nextMs >= now) return { prevMs, nextMs, runs: [run] };
    const skipped = Math.ceil((now - nextMs) / step);
    const logLines = [`[WARN] 'Skipping ${skipped} run(s) of ${run.cron} because they are in the past'`];
    const dropped: CronRun = { ...run, scheduledFor: nextMs, at: now, status: { type: "canceled", skipped }, logLines, executionTime: 0 };
    return { prevMs, nextMs: nextMs + skipped * step, runs: [run, dropped] };
  }

  private async finish(job: CronJob, finished: Finished, write: boolean): Promise<void> {
    if (write && this.has(job)) await this.engine.db.remember(finishedFacts(job, finished));
    const { runs, prevMs, nextMs } = finished;
    Object.assign(job, { prevMs, nextMs, running: false, startedMs: null, recorded: job.recorded + runs.length });
    job.runs.push(...runs);
    while (job.runs.length > KEPT_RUNS) job.runs.shift();
    if (this.has(job)) this.arm(job);
    this.engine.activity.changed();
  }
}
