/** What a data folder keeps about cron jobs: each job, and its runs one by one. */

import type { CronSchedule } from "../deployment.js";
import type { Fact } from "../durable/entries.js";
import type { CronJob, CronRun } from "./crons.js";

/** Prefix of all these facts. */
export const CRON_FACTS = "cron:";
/** More than a year of hourly runs. */
export const KEPT_RUNS = 10_000;
const JOB = `${CRON_FACTS}job:`;
const RUN = `${CRON_FACTS}run:`;

/** What a job is after a run. */
export interface Finished {
  prevMs: number;
  nextMs: number;
  runs: CronRun[];
}

/** What is kept of a job beside its runs. */
interface Kept extends Pick<CronJob, "id" | "creationTime" | "offsetMs" | "prevMs" | "recorded" | "startedMs"> {
  schedule: CronSchedule;
  /** Null when it never runs again. */
  nextMs: number | null;
}

export function jobFact(job: CronJob): Fact {
  const { id, creationTime, offsetMs, prevMs, nextMs, recorded, startedMs } = job;
  return [JOB + job.key, JSON.stringify({ id, creationTime, offsetMs, prevMs, nextMs, recorded, startedMs, schedule: job.spec.schedule } satisfies Kept)];
}

/** The facts that a finished run changes: the job, its new runs, and old ones that are dropped. */
export function finishedFacts(job: CronJob, { prevMs, nextMs, runs }: Finished): Fact[] {
  const numbered = runs.flatMap((run, at): Fact[] => {
    const number = job.recorded + at;
    const name = (wanted: number): string => `${RUN}${job.key}\n${wanted}`;
    return [[name(number), JSON.stringify(run)], ...(number >= KEPT_RUNS ? [[name(number - KEPT_RUNS), null] as Fact] : [])];
  });
  return [jobFact({ ...job, prevMs, nextMs, recorded: job.recorded + runs.length, startedMs: null }), ...numbered];
}

export function keptJob(facts: ReadonlyMap<string, string>, key: string): (Kept & { runs: CronRun[] }) | null {
  const text = facts.get(JOB + key);
  if (text === undefined) return null;
  const runs = [...facts].filter(([name]) => name.startsWith(`${RUN}${key}\n`)).map(([, run]) => JSON.parse(run) as CronRun);
  return { ...(JSON.parse(text) as Kept), runs };
}

/** The job that a fact is about. */
export function keyOfFact(name: string): string {
  return name.startsWith(JOB) ? name.slice(JOB.length) : name.slice(RUN.length, name.lastIndexOf("\n"));
}
