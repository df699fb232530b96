/**
 * Caged worker processes, booted before they are needed, and the pool that hands them to vitest.
 *
 * A worker runs one grader and is killed. Its command line comes from outside: this process only starts it and talks to it.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { constants } from "node:os";
import type { PoolRunnerInitializer, PoolWorker } from "vitest/node";

import { isOurs, type ToWorker } from "./messages.js";
import { ProcessServer, type Processes } from "./processes.js";

const OUTPUT_KEPT = 64 * 1024;

type Request = Parameters<PoolWorker["send"]>[0];

export class BootedWorker {
  private readonly child: ChildProcess;
  private readonly events = new EventEmitter();
  private kept = "";
  private dropped = 0;
  private killed = false;
  /** Ends when the worker takes messages, or has ended. */
  readonly ready: Promise<void>;
  /** The grader called `process.exit`, with this code. */
  exited: string | null = null;
  /** How the process ended when nobody here ended it. */
  died: string | null = null;

  private readonly processes: ProcessServer | null;

  constructor(command: readonly string[], folder: string, processes: Processes | null) {
    this.processes = processes === null ? null : new ProcessServer(processes);
    this.child = spawn(command[0] as string, command.slice(1), {
      cwd: folder,
      env: { NODE_CHANNEL_FD: "3" },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      serialization: "advanced",
      detached: true,
    });
    for (const stream of [this.child.stdout, this.child.stderr]) stream?.on("data", (chunk: Buffer) => this.keep(chunk.toString()));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ready = promise;
    this.child.on("message", (message) => {
      if (!isOurs(message)) {
        this.events.emit("message", message);
      } else if (message.evals === "ready") {
        resolve();
      } else {
        this.exited ??= message.code;
        this.kill();
      }
    });
    this.child.on("error", (error) => {
      this.died ??= error.message;
      resolve();
      this.events.emit("exit");
    });
    this.child.on("exit", (code, signal) => {
      if (!this.killed) this.died ??= endingOf(code, signal);
      resolve();
      this.events.emit("exit");
    });
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null && this.died === null;
  }

  /** What it printed; the middle of much is left out. */
  get output(): string {
    return this.dropped === 0 ? this.kept : `${this.kept}\n… (${this.dropped} more characters)`;
  }

  private keep(text: string): void {
    const room = Math.max(0, OUTPUT_KEPT - this.kept.length);
    this.kept += text.slice(0, room);
    this.dropped += Math.max(0, text.length - room);
  }

  tell(message: ToWorker | Request): void {
    if (this.child.connected) this.child.send(message, () => undefined);
  }

  on(event: string, callback: (argument: unknown) => void): void {
    this.events.on(event, callback);
  }

  off(event: string, callback: (argument: unknown) => void): void {
    this.events.off(event, callback);
  }

  /** Nothing is asked of a worker once its grader has ended: it may hold connections, timers or a busy loop. */
  stopped(): void {
    this.kill();
    setImmediate(() => this.events.emit("message", { type: "stopped", __vitest_worker_response__: true }));
  }

  kill(): void {
    if (this.killed) return;
    this.killed = true;
    this.processes?.close();
    if (this.child.pid === undefined || !this.isAlive) return;
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

/** A launcher reports a signal as 128 plus its number. */
function endingOf(code: number | null, signal: string | null): string {
  const name = signal ?? Object.entries(constants.signals).find(([, number]) => number === (code ?? 0) - 128)?.[0];
  return name === undefined ? `exit code ${code}` : `signal ${name}`;
}

/** A pool of whichever worker `next` gives. */
export function poolOf(next: () => BootedWorker): PoolRunnerInitializer {
  return {
    name: "caged",
    createPoolWorker(): PoolWorker {
      const worker = next();
      return {
        name: "caged",
        on: (event, callback) => worker.on(event, callback),
        off: (event, callback) => worker.off(event, callback),
        send: (message) => (message.type === "stop" ? worker.stopped() : worker.tell(message)),
        deserialize: (data) => data,
        start: () => worker.ready,
        stop: async () => worker.kill(),
      };
    },
  };
}
