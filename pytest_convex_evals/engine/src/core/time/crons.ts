/** Cron jobs: when they run next, their runs one at a time, and their history. */

import { createHash } from "node:crypto";

import { ANONYMOUS } from "../auth/identity.js";
import { findFunction, type Component, type CronSchedule, type CronSpec } from "../deployment.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { parseFunctionPath } from "../functions/paths.js";
import { newId } from "../values/ids.js";
import { encodeText } from "../values/value.js";
import type { Timer } from "./clock.js";
import { parseCronExpression, type CronExpression } from "./cronexpr.js";

/** More than a year of hourly runs. */
const KEPT_RUNS = 10_000;
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
  id: string;
  creationTime: number;
  component: string;
  spec: CronSpec;
  offsetMs: number;
  prevMs: number | null;
  nextMs: number;
  running: boolean;
  runs: CronRun[];
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
    const present = this.jobs.get(key);
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
      id: newId(CRON_TABLE_NUMBER, now),
      creationTime: now,
      component: component.path,
      spec,
      offsetMs,
      prevMs: null,
      nextMs: nextRun(spec.schedule, offsetMs, now, null),
      running: false,
      runs: [],
      timer: null,
    };
    this.arm(job);
    return job;
  }

  private arm(job: CronJob): void {
    job.timer?.cancel();
    if (!Number.isFinite(job.nextMs)) return;
    job.timer = this.engine.clock.at(job.nextMs, () => {
      void this.run(job).catch((error: unknown) => this.engine.report(error));
    });
  }

  private async run(job: CronJob): Promise<void> {
    if (job.running) return;
    job.running = true;
    const { engine } = this;
    const { spec } = job;
    const scheduledFor = job.nextMs;
    const startedAt = performance.now();
    const component = engine.deployment.component(job.component);
    const path = parseFunctionPath(spec.udfPath);
    const found = component === null ? null : findFunction(component, path.module, path.fn);
    const request = { path, args: spec.args, identity: ANONYMOUS, componentPath: job.component, trusted: true, caller: "Cron" };
    try {
      const { outcome, logLines } = found?.fn.kind === "Action" ? await engine.caller.action(request) : await engine.caller.mutation(request, { retryForever: true });
      this.record(job, {
        cron: spec.name,
        component: job.component,
        udfPath: spec.udfPath,
        scheduledFor,
        at: engine.clock.nowMs(),
        status: outcome.ok ? { type: "success", value: encodeText(outcome.value) } : { type: "err", error: outcome.failure.text },
        logLines,
        executionTime: (performance.now() - startedAt) / 1000,
      });
    } finally {
      job.running = false;
      job.prevMs = scheduledFor;
      this.plan(job);
      if (this.all().includes(job)) this.arm(job);
      engine.activity.changed();
    }
  }

  /** The next run; occurrences that passed while one was running are dropped. */
  private plan(job: CronJob): void {
    const now = this.engine.clock.nowMs();
    const { schedule, name, udfPath } = job.spec;
    job.nextMs = nextRun(schedule, job.offsetMs, now, job.prevMs);
    if (schedule.type !== "interval" || job.nextMs >= now) return;
    const step = schedule.seconds * 1000;
    const skipped = Math.ceil((now - job.nextMs) / step);
    this.record(job, {
      cron: name,
      component: job.component,
      udfPath,
      scheduledFor: job.nextMs,
      at: now,
      status: { type: "canceled", skipped },
      logLines: [`[WARN] 'Skipping ${skipped} run(s) of ${name} because they are in the past'`],
      executionTime: 0,
    });
    job.nextMs += skipped * step;
  }

  private record(job: CronJob, run: CronRun): void {
    job.runs.push(run);
    if (job.runs.length > KEPT_RUNS) job.runs.shift();
  }
}
