/** The core's side of an action runner: concurrent calls, system calls answered as they come. */

import type { Frame } from "../../shared/frames.js";
import type { RunnerKind, StartOptions } from "../../shared/protocol.js";
import type { Clock } from "../time/clock.js";
import type { Deployment } from "../deployment.js";
import { JsFailure, SystemError, UserError, INTERNAL_MESSAGE } from "../errors.js";
import { RunnerProcess, type RunnerSettings } from "./process.js";
import { MAX_LEAKED_CONTEXTS, parseWireError, type Done } from "./udf.js";
import type { Watchdog } from "./watchdog.js";

export interface ActionHandler {
  /** The JSON answer of a system call; a UserError or JsFailure is thrown into the action. */
  syscall(op: string, json: string): Promise<string>;
  log(level: string, text: string): void;
  head?(status: number, headers: [string, string][]): void;
  chunk?(bytes: Buffer): void;
}

interface Running {
  handler: ActionHandler;
  outstanding: Map<number, string>;
  running: number;
  waiting: (() => void)[];
  resolve(result: { done: Done; unawaited: string[] }): void;
  reject(error: Error): void;
}

const PARALLEL = 8;
const MAX_OUTSTANDING = 1000;

export class ActionRunnerClient {
  private process: RunnerProcess | null = null;
  private loaded: Deployment | null = null;
  private nextCall = 1;
  private readonly calls = new Map<number, Running>();
  private extraModules: Frame[] = [];
  /** How often the process ended without being told to. */
  deaths = 0;

  constructor(
    private readonly kind: RunnerKind,
    private readonly settings: RunnerSettings,
    private readonly watchdog: Watchdog,
    private readonly deployment: () => Deployment,
    private readonly clock: Clock,
  ) {}

  /** Calls that only wait for the clock. */
  get sleeping(): number {
    let count = 0;
    for (const call of this.calls.values()) {
      const ops = [...call.outstanding.values()];
      if (ops.length > 0 && ops.every((op) => op === "host/sleep")) count += 1;
    }
    return count;
  }

  get isStarted(): boolean {
    return this.process !== null;
  }

  warm(): void {
    this.start();
  }

  restart(): void {
    const { process } = this;
    this.process = null;
    this.loaded = null;
    process?.kill("restart");
    this.failAll("The action was interrupted.");
  }

  useModules(frames: Frame[]): void {
    this.extraModules = frames;
    this.loaded = null;
  }

  call(start: StartOptions, payload: string, handler: ActionHandler): Promise<{ done: Done; unawaited: string[] }> {
    const process = this.start();
    this.loadModules(process);
    const call = this.nextCall++;
    return new Promise((resolve, reject) => {
      this.calls.set(call, { handler, outstanding: new Map(), running: 0, waiting: [], resolve, reject });
      process.send({ t: "start", call, ...start }, payload);
    });
  }

  private start(): RunnerProcess {
    if (this.process !== null && !this.process.isGone) return this.process;
    this.loaded = null;
    const process: RunnerProcess = new RunnerProcess(
      this.kind,
      this.settings,
      { frame: (frame) => this.onFrame(process, frame), gone: () => this.onGone(process) },
      this.watchdog,
    );
    this.process = process;
    return process;
  }

  private onGone(process: RunnerProcess): void {
    if (this.process !== process) return;
    this.process = null;
    if (!process.ranOutOfMemory) this.deaths += 1;
    this.failAll(
      process.ranOutOfMemory ? "JavaScript execution ran out of memory (maximum memory usage: 64 MB)" : "The action's process ended unexpectedly.",
    );
  }

  private failAll(message: string): void {
    const calls = [...this.calls.values()];
    this.calls.clear();
    for (const call of calls) call.reject(new JsFailure(message));
  }

  private loadModules(process: RunnerProcess): void {
    const deployment = this.deployment();
    if (this.loaded === deployment) return;
    this.loaded = deployment;
    process.send({ t: "forget" });
    for (const frame of deployment.moduleFrames(this.kind === "node")) process.send(frame.header, frame.payload);
    for (const frame of this.extraModules) process.send(frame.header, frame.payload);
  }

  private onFrame(process: RunnerProcess, { header, payload }: Frame): void {
    if (header.t === "ready" || process !== this.process) return;
    const id = Number(header["call"]);
    const call = this.calls.get(id);
    if (call === undefined) return;
    switch (header.t) {
      case "syscall":
        void this.answer(process, id, call, Number(header["id"]), String(header["op"]), payload);
        break;
      case "log":
        call.handler.log(String(header["level"]), payload);
        break;
      case "head": {
        const head = JSON.parse(payload) as { status: number; headers: [string, string][] };
        call.handler.head?.(Number(head.status), head.headers);
        break;
      }
      case "chunk":
        if (payload !== "") call.handler.chunk?.(Buffer.from(payload, "base64"));
        break;
      case "done":
        this.calls.delete(id);
        call.resolve({
          done: header["ok"] === true ? { ok: true, payload } : { ok: false, error: parseWireError(payload) },
          unawaited: [...call.outstanding.values()].filter((op) => op !== "host/sleep"),
        });
        if (this.calls.size === 0 && Number(header["leaked"] ?? 0) > MAX_LEAKED_CONTEXTS) {
          this.restart();
          this.warm();
        }
        break;
      default:
        throw new Error(`unknown message ${header.t}`);
    }
  }

  private async answer(process: RunnerProcess, id: number, call: Running, syscall: number, op: string, json: string): Promise<void> {
    if (call.outstanding.size >= MAX_OUTSTANDING) {
      process.send({ t: "resolve", call: id, id: syscall, ok: false, more: false, now: this.clock.nowMs() }, "Too many concurrent operations.");
      return;
    }
    call.outstanding.set(syscall, op);
    const header: Record<string, unknown> = { t: "resolve", call: id, id: syscall, ok: true, more: false };
    let payload: string;
    const counted = op !== "host/sleep" && op !== "host/fetch";
    if (counted) await this.slot(call);
    try {
      payload = await call.handler.syscall(op, json);
    } catch (error) {
      header["ok"] = false;
      const described = describeForAction(error);
      payload = described.message;
      if (described.data !== undefined) header["data"] = described.data;
    }
    if (counted) {
      call.running -= 1;
      call.waiting.shift()?.();
    }
    call.outstanding.delete(syscall);
    header["now"] = this.clock.nowMs();
    process.send(header, payload);
  }

  private async slot(call: Running): Promise<void> {
    if (call.running >= PARALLEL) await new Promise<void>((resolve) => call.waiting.push(resolve));
    call.running += 1;
  }
}

/** In actions every error of an awaited operation can be caught. */
function describeForAction(error: unknown): { message: string; data?: string } {
  if (error instanceof JsFailure) return { message: error.text, ...(error.data === undefined ? {} : { data: JSON.stringify(error.data) }) };
  if (error instanceof UserError) return { message: error.message, ...(error.data === undefined ? {} : { data: JSON.stringify(error.data) }) };
  if (error instanceof SystemError) return { message: error.message };
  return { message: INTERNAL_MESSAGE };
}
