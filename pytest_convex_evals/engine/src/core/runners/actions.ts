/** The core's side of an action runner: concurrent calls, system calls answered as they come. */

import type { Frame } from "../../shared/frames.js";
import type { RunnerKind, StartOptions } from "../../shared/protocol.js";
import type { Clock } from "../time/clock.js";
import type { Deployment } from "../deployment.js";
import { JsFailure, SystemError, UserError, INTERNAL_MESSAGE } from "../errors.js";
import { Lane, type ActionHandler, type Running } from "./lane.js";
import type { RunnerProcess, RunnerSettings } from "./process.js";
import { MAX_LEAKED_CONTEXTS, parseWireError, type Done } from "./udf.js";
import type { Watchdog } from "./watchdog.js";

const INTERRUPTED = "The action was interrupted.";
const PARALLEL = 8;
/** What the operations of one action that wait for their turn may take of the core's memory; some of any size may always wait. */
const MAX_OUTSTANDING = 100_000;
const MAX_OUTSTANDING_CHARACTERS = 64 * 1024 * 1024;
const ALWAYS_OUTSTANDING = 1000;

/** Operations that wait for others than the database; they take no place among those that run at once. */
const UNCOUNTED: ReadonlySet<string> = new Set(["host/sleep", "host/fetch", "host/read", "host/close"]);

/** Seconds of processor time that an action may use without yielding to its process. */
const BUSY_SECONDS = 30;
/** The same at import, when a push analyses a module. */
const IMPORT_SECONDS = 4;
/** Seconds that a whole action may take. */
const TOTAL_SECONDS: Record<RunnerKind, number> = { udf: 60, action: 1800, node: 600 };
/** Processes that may be busy without end at the same time. */
const MAX_STALLED = 8;

export class ActionRunnerClient {
  private lane: Lane | null = null;
  /** Booted for the next use; no code has run in it. */
  private spare: Lane | null = null;
  private closed = false;
  /** Processes that did not answer when a call came; their calls may still end. */
  private readonly stalled = new Set<Lane>();
  private entering: Promise<void> = Promise.resolve();
  private nextCall = 1;
  private extraModules: Frame[] = [];
  private reach: readonly number[] = [];
  /** How often the process ended without being told to. */
  deaths = 0;

  constructor(
    private readonly kind: RunnerKind,
    private readonly settings: RunnerSettings,
    private readonly watchdog: Watchdog,
    private readonly deployment: () => Deployment,
    private readonly clock: Clock,
  ) {}

  /** Calls that only wait for the clock, or for an action of theirs, which is counted by itself. */
  get sleeping(): number {
    let count = 0;
    for (const lane of [...(this.lane === null ? [] : [this.lane]), ...this.stalled]) {
      for (const call of lane.calls.values()) {
        const ops = [...call.outstanding.values()];
        if (ops.length > 0 && ops.every((op) => op === "host/sleep" || op === "1.0/actions/action")) count += 1;
      }
    }
    return count;
  }

  get isStarted(): boolean {
    return this.lane !== null;
  }

  warm(): void {
    this.start();
  }

  /** Boots a process for the next use, where all uses start the same one. */
  prepareSpare(): void {
    if (this.kind === "action" && this.spare === null && !this.closed) this.spare = this.boot();
  }

  shutdown(): void {
    this.closed = true;
    this.restart();
    this.spare?.kill("shutdown", "");
    this.spare = null;
  }

  restart(): void {
    const lanes = [...(this.lane === null ? [] : [this.lane]), ...this.stalled];
    this.lane = null;
    this.stalled.clear();
    for (const lane of lanes) lane.kill("restart", INTERRUPTED);
  }

  /**
   * Ends all calls and forgets what they left. Code of the default runtime may go on in its context, where nothing answers it any
   * more; state of Node modules ends with its process only.
   */
  interrupt(): void {
    const { lane } = this;
    if (lane === null || this.stalled.size > 0 || (this.kind === "node" && lane.isUsed)) {
      this.restart();
      return;
    }
    for (const call of lane.calls.keys()) lane.process.send({ t: "drop", call });
    if (lane.calls.size > 0) lane.mayBeBusy = true;
    lane.failAll(INTERRUPTED);
  }

  useModules(frames: Frame[]): void {
    this.extraModules = frames;
    if (this.lane !== null) this.lane.loaded = null;
  }

  /** Ports that caged code may connect to. */
  useReach(ports: readonly number[]): void {
    this.reach = ports;
    for (const lane of [...(this.lane === null ? [] : [this.lane]), ...this.stalled]) lane.process.send({ t: "reach", ports });
  }

  /** Calls enter one after the other, so that each is checked against all that entered before it. */
  call(start: StartOptions, payload: string, handler: ActionHandler): Promise<{ done: Done; unawaited: string[] }> {
    const entered = this.entering.then(async () => this.enter(await this.responsiveLane(), start, payload, handler));
    this.entering = entered.then(() => undefined);
    return entered.then(({ result }) => result);
  }

  private enter(lane: Lane, start: StartOptions, payload: string, handler: ActionHandler): { result: Promise<{ done: Done; unawaited: string[] }> } {
    this.loadModules(lane);
    const call = this.nextCall++;
    lane.isUsed = true;
    const busySeconds = start.what === "analyze" ? IMPORT_SECONDS : (this.settings.actionSeconds ?? BUSY_SECONDS);
    const result = new Promise<{ done: Done; unawaited: string[] }>((resolve, reject) => {
      lane.calls.set(call, { handler, outstanding: new Map(), characters: 0, running: 0, waiting: [], busySeconds, resolve, reject });
      lane.process.send({ t: "start", call, ...start }, payload);
      handler.entered?.((cut) => lane.process.send({ t: "gone", call, cut }));
    });
    if (start.what !== "analyze") {
      const timer = this.clock.after(TOTAL_SECONDS[this.kind] * 1000, () => this.expire(lane, call, start.fn));
      const cancel = (): void => timer.cancel();
      result.then(cancel, cancel);
    }
    return { result };
  }

  /** Gives up a call that took too long; its process goes on with the others. */
  private expire(lane: Lane, id: number, fn: string): void {
    const call = lane.calls.get(id);
    if (call === undefined) return;
    lane.calls.delete(id);
    lane.mayBeBusy = true;
    lane.process.send({ t: "drop", call: id });
    const seconds = TOTAL_SECONDS[this.kind];
    call.reject(
      new JsFailure(
        this.kind === "node"
          ? `Action \`${fn}\` execution timed out (maximum duration ${seconds}s)`
          : `Function execution timed out (maximum duration: ${seconds}s)`,
      ),
    );
  }

  /** The present process, or a new one when JavaScript there does not yield. */
  private async responsiveLane(): Promise<Lane> {
    for (;;) {
      const lane = this.start();
      if (lane.calls.size === 0 && !lane.mayBeBusy) return lane;
      const isResponsive = await lane.isResponsive();
      if (lane !== this.lane) continue;
      if (isResponsive) lane.mayBeBusy = false;
      if (isResponsive || this.stalled.size >= MAX_STALLED) return lane;
      this.lane = null;
      if (lane.calls.size > 0) this.stalled.add(lane);
      else lane.kill("busy after its calls had ended", "");
    }
  }

  private start(): Lane {
    if (this.lane !== null && !this.lane.process.isGone) return this.lane;
    this.lane = this.spare !== null && !this.spare.process.isGone ? this.spare : this.boot();
    this.spare = null;
    if (this.reach.length > 0) this.lane.process.send({ t: "reach", ports: this.reach });
    return this.lane;
  }

  private boot(): Lane {
    return new Lane(this.kind, this.settings, this.watchdog, (lane, frame) => this.onFrame(lane, frame), (lane) => this.onGone(lane));
  }

  private onGone(lane: Lane): void {
    this.stalled.delete(lane);
    if (this.spare === lane) this.spare = null;
    if (this.lane === lane) this.lane = null;
    if (lane.calls.size === 0) return;
    if (!lane.process.ranOutOfMemory) this.deaths += 1;
    const megabytes = this.kind === "node" ? 512 : 64;
    lane.failAll(
      lane.process.ranOutOfMemory ? `JavaScript execution ran out of memory (maximum memory usage: ${megabytes} MB)` : "The action's process ended unexpectedly.",
    );
  }

  private loadModules(lane: Lane): void {
    const deployment = this.deployment();
    if (lane.loaded === deployment) return;
    lane.loaded = deployment;
    lane.process.send({ t: "forget" });
    for (const frame of deployment.moduleFrames(this.kind === "node")) lane.process.send(frame.header, frame.payload);
    for (const frame of this.extraModules) lane.process.send(frame.header, frame.payload);
  }

  private onFrame(lane: Lane, { header, payload }: Frame): void {
    if (header.t === "ready") return;
    const id = Number(header["call"]);
    const call = lane.calls.get(id);
    if (call === undefined) return;
    switch (header.t) {
      case "syscall":
        void this.answer(lane.process, id, call, Number(header["id"]), String(header["op"]), payload);
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
      case "done": {
        // Read first: a result that cannot be read ends the process, and with it every call that is still listed.
        const done: Done = header["ok"] === true ? { ok: true, payload } : { ok: false, error: parseWireError(payload) };
        lane.calls.delete(id);
        call.resolve({ done, unawaited: [...call.outstanding.values()].filter((op) => !UNCOUNTED.has(op) || op === "host/fetch") });
        if (lane.calls.size === 0) this.afterLast(lane, Number(header["leaked"] ?? 0));
        break;
      }
      default:
        throw new Error(`unknown message ${header.t}`);
    }
  }

  /** A process that had stalled is not used again; one that cannot free its contexts is replaced. */
  private afterLast(lane: Lane, leaked: number): void {
    if (this.stalled.delete(lane)) lane.kill("stalled before", "");
    else if (lane === this.lane && leaked > MAX_LEAKED_CONTEXTS) {
      this.lane = null;
      lane.kill("restart", "");
      this.warm();
    }
  }

  private async answer(process: RunnerProcess, id: number, call: Running, syscall: number, op: string, json: string): Promise<void> {
    const { size } = call.outstanding;
    if (size >= MAX_OUTSTANDING || (size >= ALWAYS_OUTSTANDING && call.characters + json.length > MAX_OUTSTANDING_CHARACTERS)) {
      process.send({ t: "resolve", call: id, id: syscall, ok: false, more: false, now: this.clock.nowMs() }, "Too many concurrent operations.");
      return;
    }
    call.outstanding.set(syscall, op);
    call.characters += json.length;
    const header: Record<string, unknown> = { t: "resolve", call: id, id: syscall, ok: true, more: false };
    let payload: string;
    const counted = !UNCOUNTED.has(op);
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
    call.characters -= json.length;
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
