/** A runner child process: its command line, its pipe, its processor time, its death. */

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import type { Duplex } from "node:stream";

import { encodeFrame, FrameReader, type Frame } from "../../shared/frames.js";
import type { RunnerKind } from "../../shared/protocol.js";
import { Allowance } from "./allowance.js";
import type { Watchdog } from "./watchdog.js";

/** How runners are caged; paths of Node, script and packages are those inside. */
export interface CageSettings {
  /** What comes before the Node command line of runners for queries, mutations and actions; empty for none. */
  prefix: readonly string[];
  /** The same for Node actions; `/{packages}` in it stands for the folder of packages. */
  nodePrefix: readonly string[];
  /** Where Node actions find that folder; null for its own path, when the cage has no root of its own. */
  packages: string | null;
  /** The folder of the sockets that lead out of the cage, as it is called on both sides; null when no cage cuts the network. */
  relay: { inside: string; outside: string } | null;
}

export interface RunnerSettings extends CageSettings {
  /** Path of the bundled runner. */
  script: string;
  node: string;
  heapMegabytes: number;
  /** Seconds of processor time that an action may use without yielding. */
  actionSeconds?: number;
  /** Folder with packages that Node actions import from outside their bundle; only the runner for Node actions may read it. */
  packageFolder?: string | null;
  /** In the place of `nodePrefix`, for a cell whose Node actions share a network with its grader. */
  sharedPrefix?: readonly string[] | null;
}

export interface RunnerEvents {
  frame(frame: Frame): void;
  /** The process has ended or must be treated as such. */
  gone(reason: string): void;
}

const STDERR_KEPT = 4096;
/** Bytes that may wait for a runner to read them; one that asks and does not read is ended. */
const MAX_UNREAD_BYTES = 256 * 1024 * 1024;
const NO_PACKAGES = "/dev/null";
const NO_FILE = -1;
/** How long a launcher may take to follow the program that it started. */
const LAUNCHER_MS = 1000;
const NODE_HEAP_MEGABYTES = 512;
/** Where Node actions may write, in a cage that has a root of its own: there it is memory that ends with the process. */
const SCRATCH = ["/tmp", "/tmp/*"];

export class RunnerProcess {
  private readonly child: ChildProcess;
  private readonly pipe: Duplex;
  private readonly reader = new FrameReader();
  private readonly allowance = new Allowance();
  private ended = false;
  /** The process we started has ended; its number may belong to somebody else from now on. */
  private collected = false;
  private stderr = "";
  private cpuFile: number | null = null;
  private bootNs = 0;
  /** Of the runner itself, once it is ready; before that a launcher may stand in its place. */
  private innerPid: number | null = null;

  constructor(
    readonly kind: RunnerKind,
    settings: RunnerSettings,
    private readonly events: RunnerEvents,
    private readonly watchdog: Watchdog,
  ) {
    const command = commandOf(kind, settings);
    this.child = spawn(command[0] as string, command.slice(1), {
      stdio: ["ignore", "ignore", "pipe", "pipe"],
      env: { TZ: "UTC" },
      cwd: "/",
      detached: true,
    });
    if (this.child.pid !== undefined) watchdog.add(this.child.pid);
    this.pipe = this.child.stdio[3] as Duplex;
    this.pipe.on("data", (chunk: Buffer) => this.receive(chunk));
    this.pipe.on("error", () => undefined);
    this.pipe.on("close", () => {
      if (!this.ended) this.kill("the pipe closed");
    });
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.stderr = (this.stderr + chunk.toString()).slice(-STDERR_KEPT);
    });
    this.child.on("error", (error) => this.end(error.message));
    this.child.on("exit", (code, signal) => this.onExit(`exit ${code ?? signal ?? ""}`));
  }

  get isReady(): boolean {
    return this.cpuFile !== null && !this.ended;
  }

  get isGone(): boolean {
    return this.ended;
  }

  /** Whether the process died because its heap was full. */
  get ranOutOfMemory(): boolean {
    return this.stderr.includes("heap out of memory") || this.stderr.includes("Reached heap limit");
  }

  get errorOutput(): string {
    return this.stderr;
  }

  send(header: Record<string, unknown>, payload = ""): void {
    if (this.ended) return;
    this.pipe.write(encodeFrame(header, payload));
    if (this.pipe.writableLength > MAX_UNREAD_BYTES) this.kill("it does not read what it is sent");
  }

  /** Processor time of the process's main thread in nanoseconds, since it was ready: its start is nobody's doing. */
  cpuNs(): number {
    if (this.ended || this.cpuFile === null) return 0;
    return this.readCpu() - this.bootNs;
  }

  /** The first message: only now the launcher of a cage is certain to have started the runner. */
  private onReady(): void {
    if (this.cpuFile !== null) throw new Error("ready twice");
    this.innerPid = runnerPid(this.child.pid as number);
    this.cpuFile = openCpu(this.innerPid);
    this.bootNs = this.readCpu();
  }

  private readCpu(): number {
    if (this.cpuFile === NO_FILE) return performance.now() * 1e6;
    const bytes = Buffer.alloc(64);
    try {
      const length = readSync(this.cpuFile as number, bytes, 0, 64, 0);
      return Number(bytes.toString("latin1", 0, length).split(" ")[0]);
    } catch {
      return this.bootNs; // It is gone; the event that says so is on its way.
    }
  }

  /** Ends the runner itself, and what is left of its process group when its launcher does not follow. */
  kill(reason: string): void {
    if (this.child.pid !== undefined && !this.collected) {
      signal(this.innerPid ?? runnerPid(this.child.pid));
      setTimeout(() => this.killGroup(), LAUNCHER_MS).unref();
    }
    this.end(reason);
  }

  private killGroup(): void {
    if (this.child.pid === undefined || this.collected) return;
    signal(-this.child.pid);
  }

  private receive(chunk: Buffer): void {
    if (this.ended) return;
    try {
      this.reader.push(chunk);
      for (let frame = this.reader.next(); frame !== null; frame = this.reader.next()) {
        this.allowance.take(frame.payload.length);
        if (frame.header.t === "ready") this.onReady();
        else if (this.cpuFile === null) throw new Error(`${frame.header.t} before ready`);
        this.events.frame(frame);
      }
    } catch (error) {
      this.kill(`bad message from the runner: ${(error as Error).message}`);
    }
  }

  private end(reason: string): void {
    if (this.ended) return;
    this.ended = true;
    if (this.cpuFile !== null && this.cpuFile !== NO_FILE) closeSync(this.cpuFile);
    this.pipe.destroy();
    // A moment for the last words on stderr, which say whether memory ran out.
    setTimeout(() => this.events.gone(reason), 10);
  }

  private onExit(reason: string): void {
    this.killGroup();
    this.collected = true;
    if (this.child.pid !== undefined) this.watchdog.remove(this.child.pid);
    this.end(reason);
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

function commandOf(kind: RunnerKind, settings: RunnerSettings): string[] {
  const folder = kind === "node" ? (settings.packageFolder ?? null) : null;
  const packages = folder === null ? null : (settings.packages ?? folder);
  const relay = kind === "node" ? settings.relay : null;
  const prefix = kind === "node" ? (settings.sharedPrefix ?? settings.nodePrefix).map((word) => word.replaceAll("/{packages}", folder ?? NO_PACKAGES)) : settings.prefix;
  return [
    ...prefix,
    settings.node,
    "--permission",
    `--allow-fs-read=${settings.script}`,
    ...(packages === null ? [] : [`--allow-fs-read=${packages}/*`]),
    ...(kind === "node" && settings.packages !== null ? SCRATCH.flatMap((folder) => [`--allow-fs-read=${folder}`, `--allow-fs-write=${folder}`]) : []),
    "--experimental-vm-modules",
    "--no-warnings",
    `--max-old-space-size=${kind === "node" ? NODE_HEAP_MEGABYTES : settings.heapMegabytes}`,
    settings.script,
    kind,
    packages ?? "",
    relay?.inside ?? "",
  ];
}

/** Where the kernel cannot tell the time of a thread, wall time stands for it. */
function openCpu(pid: number): number {
  try {
    return openSync(`/proc/${pid}/schedstat`, "r");
  } catch {
    return NO_FILE;
  }
}

/** The innermost descendant: a cage runs Node as a child of the process we started. */
function runnerPid(pid: number): number {
  let current = pid;
  for (let depth = 0; depth < 8; depth++) {
    let children: string[];
    try {
      children = readFileSync(`/proc/${current}/task/${current}/children`, "latin1").trim().split(/\s+/).filter(Boolean);
    } catch {
      break;
    }
    if (children.length === 0) break;
    current = Number(children[children.length - 1]);
  }
  return current;
}
