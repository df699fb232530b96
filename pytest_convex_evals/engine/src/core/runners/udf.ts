/**
 * The core's side of the transactional runner: one step at a time, processor time measured from outside.
 *
 * Calls share one process and interleave between steps. When the process must be killed, the call whose step was running fails
 * and every other call learns that its runner is lost, so that it can be run again from the start.
 */

import type { Frame } from "../../shared/frames.js";
import type { StartOptions, WireError } from "../../shared/protocol.js";
import { SystemError, UserError } from "../errors.js";
import type { Deployment } from "../deployment.js";
import { parseValue } from "../values/value.js";
import { RunnerProcess, type RunnerSettings } from "./process.js";
import type { Watchdog } from "./watchdog.js";

/** Processor time shared by a tree of calls. */
export interface Budget {
  usedNs: number;
  /** Spent on system calls. */
  systemNs: number;
  readonly limitNs: number;
  readonly message: string;
}

export const MS = 1e6;

export function userBudget(): Budget {
  return { usedNs: 0, systemNs: 0, limitNs: 1000 * MS, message: "Function execution timed out (maximum duration: 1s)" };
}

/** Ends the call tree; not catchable by user code. */
export class Terminated extends Error {}

/** The process went away under a call that did nothing wrong. */
export class RunnerLost extends Error {}

/** The process ended by itself while a call was running: perhaps the call's doing, perhaps not. */
export class RunnerDied extends RunnerLost {}

export interface Syscall {
  id: number;
  op: string;
  json: string;
}
export type Done = { ok: true; payload: string } | { ok: false; error: WireError };
export interface StepResult {
  syscalls: Syscall[];
  done: Done | null;
}
export interface StepHandler {
  sync(op: string, json: string): string;
  /** The answer to an operation at once; null when it takes others. Throws what ends the call. */
  answer(id: number, op: string, json: string): Resolution | null;
  log(level: string, text: string): void;
  budget: Budget;
}
export interface Resolution {
  id: number;
  ok: boolean;
  payload: string;
  data?: string;
}

interface Step {
  call: number;
  generation: number;
  handler: StepHandler;
  send(process: RunnerProcess): void;
  result: StepResult;
  resolve(result: StepResult): void;
  reject(error: Error): void;
  startedNs: number;
  /** Operations that were answered at once. */
  answered: number;
  /** What has ended the call although its JavaScript still runs. */
  failure: Error | null;
}

/** Contexts that cannot be freed before a runner is replaced in a quiet moment. */
export const MAX_LEAKED_CONTEXTS = 80;
/**
 * Processor time of the runner's own part of a step of system calls, which is not the function's: 30 µs on an idle machine, up to five
 * times as much on a busy one, where a loop over 32,000 documents must not run out of time.
 */
const STEP_OVERHEAD_NS = 200_000;
const WATCH_MS = 40;
/** After which a process is started for later; by then whoever asked for something has his answer. */
export const SPARE_MS = 2;
const MAX_WALL_MS = 60_000;
const MAX_SYSCALLS_PER_STEP = 100_000;

const MAX_SYSTEM_NS = 15_000 * MS;
/** What a step of system calls is charged at least, however fast it was: a loop of cheap ones must end too. */
const STEP_CHARGE_NS = 200_000;
const TOO_MANY_OPERATIONS = "Your request timed out performing too many system operations.";

/** Charges a step of system calls. */
export function chargeSystem(budget: Budget, elapsedMs: number): void {
  budget.systemNs += Math.max(STEP_CHARGE_NS, elapsedMs * MS);
  if (budget.systemNs > MAX_SYSTEM_NS) throw new Terminated(TOO_MANY_OPERATIONS);
}

export class UdfRunner {
  private process: RunnerProcess | null = null;
  private generation = 0;
  private nextCall = 1;
  private readonly queue: Step[] = [];
  private active: Step | null = null;
  private loaded: Deployment | null = null;
  private extraModules: Frame[] = [];
  private spare: RunnerProcess | null = null;
  private closed = false;
  private readonly live = new Set<number>();
  private leaked = 0;
  /** How often the process ended without being told to. */
  deaths = 0;

  constructor(
    private readonly settings: RunnerSettings,
    private readonly watchdog: Watchdog,
    private readonly deployment: () => Deployment,
  ) {}

  /** Starts the process ahead of need. The one that will follow it starts in a moment, when whoever asked has his answer. */
  warm(): void {
    if (this.running().isReady) setTimeout(() => this.prepareSpare(), SPARE_MS).unref();
  }

  restart(): void {
    this.process?.kill("restart");
    this.process = null;
    this.generation += 1;
    this.loaded = null;
    this.failQueued();
  }

  /** Ends all calls. What they had under way is never answered, so that a process between two steps can stay. */
  interrupt(): void {
    if (this.active !== null) {
      this.restart();
      return;
    }
    for (const call of this.live) this.process?.send({ t: "drop", call });
    this.live.clear();
    this.generation += 1;
    this.failQueued();
  }

  shutdown(): void {
    this.closed = true;
    this.restart();
    this.spare?.kill("shutdown");
    this.spare = null;
  }

  /** Modules that are not part of the deployment yet, for their analysis. */
  useModules(frames: Frame[]): void {
    this.extraModules = frames;
    this.loaded = null;
  }

  /** Calls of these modules will probably come: a process with nothing to do gets ready for them. */
  expect(starts: readonly StartOptions[]): void {
    if (this.active !== null || this.queue.length > 0) return;
    const process = this.running();
    this.loadModules(process);
    for (const start of starts) process.send({ t: "prepare", ...start });
  }

  begin(start: StartOptions, payload: string, handler: StepHandler): { call: number; generation: number; first: Promise<StepResult> } {
    this.running();
    if (this.leaked > MAX_LEAKED_CONTEXTS && this.live.size === 0 && this.active === null) {
      this.restart();
      this.running();
    }
    this.prepareSpare();
    const call = this.nextCall++;
    this.live.add(call);
    const { generation } = this;
    const first = this.step(call, generation, handler, (process) => process.send({ t: "start", call, alone: this.isAlone, ...start }, payload));
    return { call, generation, first };
  }

  resume(call: number, generation: number, handler: StepHandler, resolutions: readonly Resolution[]): Promise<StepResult> {
    return this.step(call, generation, handler, (process) => {
      resolutions.forEach((resolution, at) => {
        const header: Record<string, unknown> = {
          t: "resolve",
          call,
          id: resolution.id,
          ok: resolution.ok,
          more: at < resolutions.length - 1,
          alone: this.isAlone,
        };
        if (resolution.data !== undefined) header["data"] = resolution.data;
        process.send(header, resolution.payload);
      });
    });
  }

  /** Nobody waits for the step that runs. */
  private get isAlone(): boolean {
    return this.queue.length === 0;
  }

  /** The call is over; a process that holds garbage may be replaced once none is left. */
  finished(call: number): void {
    this.live.delete(call);
  }

  drop(call: number, generation: number): void {
    if (generation === this.generation) this.process?.send({ t: "drop", call });
  }

  private step(call: number, generation: number, handler: StepHandler, send: (process: RunnerProcess) => void): Promise<StepResult> {
    return new Promise((resolve, reject) => {
      this.queue.push({ call, generation, handler, send, resolve, reject, result: { syscalls: [], done: null }, startedNs: 0, answered: 0, failure: null });
      this.pump();
    });
  }

  private pump(): void {
    if (this.active !== null) return;
    const step = this.queue.shift();
    if (step === undefined) return;
    const process = this.process;
    if (process === null || step.generation !== this.generation) {
      step.reject(new RunnerLost("the runner was restarted"));
      this.pump();
      return;
    }
    this.active = step;
    this.loadModules(process);
    step.startedNs = process.cpuNs();
    step.send(process);
    this.watch(step, process, performance.now());
  }

  private watch(step: Step, process: RunnerProcess, since: number): void {
    setTimeout(() => {
      if (this.active !== step) return;
      if (usedNs(step, process) + step.handler.budget.usedNs > step.handler.budget.limitNs) {
        this.abandon(step, process, new Terminated(step.handler.budget.message));
      } else if (performance.now() - since > MAX_WALL_MS) {
        this.abandon(step, process, new Terminated(TOO_MANY_OPERATIONS));
      } else this.watch(step, process, since);
    }, WATCH_MS).unref();
  }

  /** Gives up the process because of one step. */
  private abandon(step: Step, process: RunnerProcess, error: Error): void {
    this.active = null;
    step.reject(error);
    process.kill(error.message);
    this.replace(process);
  }

  private running(): RunnerProcess {
    if (this.process !== null && !this.process.isGone) return this.process;
    this.generation += 1;
    this.loaded = null;
    this.leaked = 0;
    const process = this.spare !== null && !this.spare.isGone ? this.spare : this.spawn();
    this.spare = null;
    this.process = process;
    return process;
  }

  private spawn(): RunnerProcess {
    const process: RunnerProcess = new RunnerProcess(
      "udf",
      this.settings,
      { frame: (frame) => this.onFrame(process, frame), gone: () => this.onGone(process) },
      this.watchdog,
    );
    return process;
  }

  /** Keeps one process booted for the next restart, once the first has had work. */
  private prepareSpare(): void {
    if (this.spare !== null || this.closed) return;
    this.spare = this.spawn();
  }

  private onGone(process: RunnerProcess): void {
    if (this.spare === process) this.spare = null;
    if (this.process !== process) return;
    const step = this.active;
    this.active = null;
    if (!process.ranOutOfMemory) this.deaths += 1;
    if (step !== null) {
      step.reject(
        process.ranOutOfMemory
          ? new Terminated("JavaScript execution ran out of memory (maximum memory usage: 64 MB)")
          : new RunnerDied("The function's process ended unexpectedly."),
      );
    }
    this.replace(process);
  }

  private replace(process: RunnerProcess): void {
    if (this.process !== process) return;
    this.process = null;
    this.generation += 1;
    this.failQueued();
    this.running();
  }

  private failQueued(): void {
    if (this.active !== null) {
      this.active.reject(new RunnerLost("the runner was restarted"));
      this.active = null;
    }
    for (const step of this.queue.splice(0)) step.reject(new RunnerLost("the runner was restarted"));
  }

  private loadModules(process: RunnerProcess): void {
    const deployment = this.deployment();
    if (this.loaded === deployment) return;
    this.loaded = deployment;
    process.send({ t: "forget" });
    for (const frame of deployment.moduleFrames(false)) process.send(frame.header, frame.payload);
    for (const frame of this.extraModules) process.send(frame.header, frame.payload);
  }

  private onFrame(process: RunnerProcess, frame: Frame): void {
    const { header, payload } = frame;
    if (process !== this.process) return;
    if (header.t === "ready") {
      this.prepareSpare();
      return;
    }
    const step = this.active;
    if (step === null || header["call"] !== step.call) throw new Error(`unexpected ${header.t}`);
    switch (header.t) {
      case "sync":
        this.answerSync(process, step, String(header["op"]), payload);
        break;
      case "cleanup":
        step.handler.sync("1.0/queryCleanup", payload);
        break;
      case "syscall":
        this.later(step, Number(header["id"]), String(header["op"]), payload);
        break;
      case "now":
        this.answerNow(process, step, Number(header["id"]), String(header["op"]), payload);
        break;
      case "log":
        step.handler.log(String(header["level"]), payload);
        break;
      case "done":
        step.result.done = header["ok"] === true ? { ok: true, payload } : { ok: false, error: parseWireError(payload) };
        break;
      case "yield":
        this.leaked = Number(header["leaked"] ?? 0);
        this.finishStep(process, step);
        break;
      default:
        throw new Error(`unknown message ${header.t}`);
    }
  }

  private later(step: Step, id: number, op: string, json: string): void {
    if (step.result.syscalls.length >= MAX_SYSCALLS_PER_STEP) throw new Error("too many system calls in one step");
    step.result.syscalls.push({ id, op, json });
  }

  /** Answers at once while nobody else wants to run; the end of a call is told at the end of its step. */
  private answerNow(process: RunnerProcess, step: Step, id: number, op: string, json: string): void {
    let found: Resolution | null = null;
    try {
      if (this.isAlone && step.failure === null && step.result.syscalls.length === 0) found = step.handler.answer(id, op, json);
    } catch (error) {
      step.failure = error as Error;
    }
    if (found === null) {
      if (step.failure === null) this.later(step, id, op, json);
      process.send({ t: "now", later: true });
      return;
    }
    step.answered += 1;
    process.send({ t: "now", ok: found.ok, ...(found.data === undefined ? {} : { data: found.data }) }, found.payload);
  }

  private answerSync(process: RunnerProcess, step: Step, op: string, json: string): void {
    let answer: string;
    let ok = true;
    try {
      answer = step.handler.sync(op, json);
    } catch (error) {
      if (!(error instanceof UserError)) {
        this.abandon(step, process, error instanceof SystemError ? error : (error as Error));
        return;
      }
      ok = false;
      answer = error.message;
    }
    process.send({ t: "sync", ok }, answer);
  }

  private finishStep(process: RunnerProcess, step: Step): void {
    this.active = null;
    const { budget } = step.handler;
    budget.usedNs += Math.max(0, usedNs(step, process) - STEP_OVERHEAD_NS);
    const failure = step.failure ?? (budget.usedNs > budget.limitNs ? new Terminated(budget.message) : null);
    if (failure !== null) {
      process.send({ t: "drop", call: step.call });
      step.reject(failure);
    } else step.resolve(step.result);
    this.pump();
  }
}

/** Processor time of a step without the runner's own part in the operations that were answered at once. */
function usedNs(step: Step, process: RunnerProcess): number {
  return process.cpuNs() - step.startedNs - step.answered * STEP_OVERHEAD_NS;
}

/** Errors come from an untrusted process: only their shape is believed. */
export function parseWireError(payload: string): WireError {
  const raw = JSON.parse(payload) as Record<string, unknown>;
  const frames = Array.isArray(raw["frames"]) ? raw["frames"].slice(0, 100).map(String) : [];
  const error: WireError = { message: String(raw["message"]).slice(0, 70_000), frames };
  if (typeof raw["data"] !== "string") return error;
  try {
    parseValue(JSON.parse(raw["data"]));
    return { ...error, data: raw["data"] };
  } catch (problem) {
    return { message: `ConvexError with invalid data: ${(problem as Error).message}`, frames };
  }
}
