/**
 * One process of an action runner with the calls that run in it.
 *
 * JavaScript that never yields holds up its whole process. A ping that is not answered shows it: new calls then go to another
 * process, and this one is killed when it has used its processor time without an answer.
 */

import type { Frame } from "../../shared/frames.js";
import type { RunnerKind } from "../../shared/protocol.js";
import { JsFailure } from "../errors.js";
import { RunnerProcess, type RunnerSettings } from "./process.js";
import type { Done } from "./udf.js";
import type { Watchdog } from "./watchdog.js";

export interface ActionHandler {
  /** The JSON answer of a system call; a UserError or JsFailure is thrown into the action. */
  syscall(op: string, json: string): Promise<string>;
  log(level: string, text: string): void;
  /** Given a way to tell the action that its client has gone, or (`cut`) takes no more of the response. */
  entered?(clientGone: (cut: boolean) => void): void;
  head?(status: number, headers: [string, string][]): void;
  chunk?(bytes: Buffer): void;
}

export interface Running {
  handler: ActionHandler;
  outstanding: Map<number, string>;
  /** Length of what those operations were asked with. */
  characters: number;
  running: number;
  waiting: (() => void)[];
  /** Seconds of processor time without a yield that the call is granted. */
  busySeconds: number;
  resolve(result: { done: Done; unawaited: string[] }): void;
  reject(error: Error): void;
}

/** How long an answer to a ping may take before new calls go elsewhere. */
const STALL_MS = 300;
const WATCH_MS = 500;

export class Lane {
  readonly process: RunnerProcess;
  readonly calls = new Map<number, Running>();
  /** What the process has loaded; compared by identity. */
  loaded: unknown = null;
  /** It has had calls. */
  isUsed = false;
  /** Code of calls that were given up may still run. */
  mayBeBusy = false;
  private sinceNs: number | null = null;
  private nextPing = 0;
  /** Who waits for the answer to which ping: an earlier one says nothing about what was sent after it. */
  private readonly asked = new Map<number, () => void>();
  private readonly timer: NodeJS.Timeout;

  constructor(kind: RunnerKind, settings: RunnerSettings, watchdog: Watchdog, frame: (lane: Lane, frame: Frame) => void, gone: (lane: Lane) => void) {
    this.process = new RunnerProcess(
      kind,
      settings,
      {
        frame: (received) => (received.header.t === "pong" ? this.onPong(Number(received.header["n"])) : frame(this, received)),
        gone: () => {
          clearInterval(this.timer);
          gone(this);
        },
      },
      watchdog,
    );
    this.timer = setInterval(() => this.watch(), WATCH_MS);
    this.timer.unref();
  }

  /** Whether the process still turns its event loop. */
  async isResponsive(): Promise<boolean> {
    return new Promise((resolve) => {
      const number = this.ping();
      const answer = (isAnswered: boolean): void => {
        clearTimeout(timer);
        this.asked.delete(number);
        resolve(isAnswered);
      };
      const timer = setTimeout(() => answer(false), STALL_MS);
      this.asked.set(number, () => answer(true));
    });
  }

  failAll(message: string): void {
    const calls = [...this.calls.values()];
    this.calls.clear();
    for (const call of calls) call.reject(new JsFailure(message));
  }

  kill(reason: string, message: string): void {
    clearInterval(this.timer);
    this.process.kill(reason);
    this.failAll(message);
  }

  private ping(): number {
    this.sinceNs ??= this.process.cpuNs();
    this.process.send({ t: "ping", n: ++this.nextPing });
    return this.nextPing;
  }

  private onPong(number: number): void {
    this.sinceNs = number === this.nextPing ? null : this.process.cpuNs();
    this.asked.get(number)?.();
  }

  private watch(): void {
    if (this.calls.size === 0) return;
    if (this.sinceNs === null) {
      this.ping();
      return;
    }
    const granted = Math.max(...[...this.calls.values()].map((call) => call.busySeconds));
    if (this.process.cpuNs() - this.sinceNs > granted * 1e9) {
      this.kill("busy without end", `Function execution timed out (maximum duration: ${granted}s)`);
    }
  }
}
