/** The action runners: actions and HTTP actions of the default runtime ("action"), and "use node" actions ("node"). */

import { AsyncLocalStorage } from "node:async_hooks";
import { once } from "node:events";
import { Socket } from "node:net";

import { encodeFrame, FrameReader, type Frame } from "../shared/frames.js";
import type { RunnerKind, StartOptions } from "../shared/protocol.js";
import { Reach } from "../shared/reach.js";
import { describeModule } from "./analyze.js";
import { READ_FD } from "./channel.js";
import { describeThrown, PlatformError, StackMapper } from "./failures.js";
import { hostFetch, hostStream, REQUEST_STREAM, storageCall, withOwnJson } from "./hostcalls.js";
import { currentRealm, ModuleStore } from "./modules.js";
import { NodeRealm } from "./node.js";
import type { Realm } from "./realm.js";
import { closeRealm, exportedFunction, forgetModules, openRealm, warmUp } from "./realms.js";

/** Submitted Node code may replace or call `process.exit`; the runner's own end does not depend on it. */
const exitProcess = process.exit.bind(process);

export interface ActionCall {
  id: number;
  start: StartOptions;
  finished: boolean;
  nextSyscall: number;
  /** Operations of the platform under way, where they are limited. */
  pending: number;
  /** Fires when the client of an HTTP action has gone. */
  readonly clientGone: AbortController;
  /** The client takes no more of the response. */
  cut: boolean;
  waiting: Map<number, { resolve: (json: string) => void; reject: (message: string, data?: string) => void }>;
  /** Where it runs, if another call may run there after it. */
  realm: Realm | null;
}

/** The call whose code is running, also in callbacks and in promises that nobody awaits. */
export const currentCall = new AsyncLocalStorage<ActionCall>();

/** The core's time when it was last heard, and the local time at that moment. */
let clock = { now: Date.now(), at: performance.now(), virtual: false };

export class ActionRunner {
  private readonly store = new ModuleStore(new StackMapper());
  private readonly calls = new Map<number, ActionCall>();
  private readonly socket: Socket;
  /** Frames wait for the end of the turn, and leave together. */
  private isCorked = false;
  private readonly node: NodeRealm | null;
  private readonly reach = (process.argv[4] ?? "") === "" ? null : new Reach(process.argv[4] as string);
  private reached: Promise<void> | null = null;

  constructor(kind: RunnerKind) {
    this.socket = new Socket({ fd: READ_FD, readable: true, writable: true });
    this.node = kind === "node" ? new NodeRealm(this.store, this) : null;
  }

  run(): void {
    const reader = new FrameReader();
    this.socket.on("data", (chunk: Buffer) => {
      reader.push(chunk);
      for (let frame = reader.next(); frame !== null; frame = reader.next()) this.handle(frame);
    });
    this.socket.on("close", () => exitProcess(0));
    this.socket.on("error", () => exitProcess(0));
    process.on("unhandledRejection", (reason) => {
      for (const call of this.responsible()) this.fail(call, reason);
    });
    process.on("uncaughtException", (error) => {
      for (const call of this.responsible()) this.fail(call, error);
    });
    if (this.node === null) warmUp("action");
    this.send({ t: "ready" });
  }

  /** Whose failure an error is that nobody caught: the running call's, or everybody's when it cannot be told. */
  private responsible(): ActionCall[] {
    const call = currentCall.getStore();
    return call === undefined ? [...this.calls.values()] : [call];
  }

  /**
   * Returns whether the pipe takes more at once. What is sent while code runs that does not wait leaves in one write, but for Node
   * actions, which may end the process.
   */
  send(header: Record<string, unknown>, payload = ""): boolean {
    if (!this.isCorked && this.node === null) {
      this.isCorked = true;
      this.socket.cork();
      process.nextTick(() => {
        this.isCorked = false;
        this.socket.uncork();
      });
    }
    return this.socket.write(encodeFrame(header, payload));
  }

  private handle(frame: Frame): void {
    const header = frame.header as Record<string, unknown> & { t: string };
    switch (header.t) {
      case "module":
        this.store.add(String(header["def"]), String(header["path"]), header["node"] === true, frame.payload);
        break;
      case "sourceMap":
        this.store.mapper.add(ModuleStore.id(String(header["def"]), String(header["path"]), header["node"] === true), frame.payload);
        break;
      case "forget":
        this.store.clear();
        forgetModules();
        this.node?.forget();
        break;
      case "start":
        void this.start(header["call"] as number, header as unknown as StartOptions, frame.payload);
        break;
      case "resolve":
        this.resolve(header, frame.payload);
        break;
      case "reach": {
        const reached = Promise.resolve(this.reach?.serve(header["ports"] as number[])).then(() => {
          if (this.reached === reached) this.reached = null;
        });
        this.reached = reached;
        break;
      }
      case "ping":
        // Only after what was started before has yielded.
        setImmediate(() => this.send({ t: "pong", n: header["n"] }));
        break;
      case "gone":
        this.clientGone(this.calls.get(header["call"] as number), header["cut"] === true);
        break;
      case "drop":
        this.calls.delete(header["call"] as number);
        break;
      default:
        break;
    }
  }

  private clientGone(call: ActionCall | undefined, cut: boolean): void {
    if (call === undefined) return;
    if (cut) call.cut = true;
    else currentCall.run(call, () => call.clientGone.abort());
  }

  private resolve(header: Record<string, unknown>, payload: string): void {
    clock = { ...clock, now: header["now"] as number, at: performance.now() };
    const call = this.calls.get(header["call"] as number);
    const waiting = call?.waiting.get(header["id"] as number);
    if (call === undefined || waiting === undefined) return;
    call.waiting.delete(header["id"] as number);
    if (header["ok"] === true) waiting.resolve(payload);
    else waiting.reject(payload, header["data"] as string | undefined);
  }

  private async start(id: number, start: StartOptions, payload: string): Promise<void> {
    clock = { now: start.now, at: performance.now(), virtual: start.frozen === true };
    const call: ActionCall = { id, start, finished: false, nextSyscall: 0, pending: 0, clientGone: new AbortController(), cut: false, waiting: new Map(), realm: null };
    this.calls.set(id, call);
    if (this.reached !== null) await this.reached;
    await currentCall.run(call, async () => {
      try {
        if (this.node !== null) this.done(call, await this.node.run(call, payload));
        else await currentRealm.run({ dynamicImport: null, parseJson: null }, () => this.runInRealm(call, payload));
      } catch (error) {
        this.fail(call, error);
      }
    });
  }

  /** A system call of a running action. */
  syscall(call: ActionCall, op: string, json: string, resolve: (json: string) => void, reject: (message: string, data?: string) => void): void {
    const id = call.nextSyscall++;
    call.waiting.set(id, { resolve, reject });
    this.send({ t: "syscall", call: call.id, id, op }, json);
  }

  private async runInRealm(call: ActionCall, payload: string): Promise<void> {
    const { start } = call;
    const { realm, namespace } = openRealm(start, {
      now: () => (clock.virtual ? clock.now : clock.now + performance.now() - clock.at),
      sync: (op) => ({ error: `Unknown operation ${op}` }),
      async: (op, json, resolve, reject) => this.syscall(call, op, json, resolve, reject),
      log: (level, text) => this.send({ t: "log", call: call.id, level }, text),
      pending: (work) => work,
      js: (op, args, syscall) => storageCall(op, args, syscall),
      fetch: (input, init, syscall) => hostFetch(input, init, syscall),
    }, this.store);
    // Requests and responses are objects of the host, which may be at work when the call has ended.
    if (start.what !== "http") call.realm = realm;
    if (start.what === "analyze") {
      this.done(call, describeModule(namespace, start, this.store.get(ModuleStore.id(start.def, start.path, false))?.source ?? ""));
      return;
    }
    if (start.what === "http") {
      await this.serve(call, namespace);
      return;
    }
    const registered = exportedFunction(namespace, start.path, start.fn);
    const invoke = registered["invokeAction"];
    if (typeof invoke !== "function") throw new PlatformError(`Couldn't find "${start.fn}" in module "${start.path}".`);
    this.done(call, String(await (invoke as (id: string, args: string) => Promise<unknown>).call(registered, start.requestId ?? "", payload)));
  }

  private async serve(call: ActionCall, namespace: Record<string, unknown>): Promise<void> {
    const asked = call.start.request as NonNullable<StartOptions["request"]>;
    const router = namespace["default"] as { lookup(path: string, method: string): [{ invokeHttpAction(request: Request): Promise<unknown> }] | null };
    const match = router.lookup(asked.routePath, asked.method);
    if (match === null) throw new PlatformError("No matching routes found");
    const { signal } = call.clientGone;
    const init: RequestInit & { duplex?: "half" } = { method: asked.method, headers: asked.headers, signal };
    if (asked.hasBody) {
      init.body = hostStream(REQUEST_STREAM, (op, json) => this.asyncCall(call, op, json), signal);
      init.duplex = "half";
    }
    const response = await match[0].invokeHttpAction(withOwnJson(new Request(asked.url, init)));
    if (!(response instanceof Response)) throw new Error("HTTP action must return a Response object");
    this.send({ t: "head", call: call.id }, JSON.stringify({ status: response.status, headers: [...response.headers] }));
    if (response.body !== null) {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        if (call.cut) break;
        if (!(chunk instanceof Uint8Array)) throw new TypeError("Received non-Uint8Array chunk");
        const isTaken = this.send({ t: "chunk", call: call.id }, Buffer.from(chunk).toString("base64"));
        // The core is heard in the meantime, also when the stream itself never pauses.
        if (!isTaken) await once(this.socket, "drain");
      }
    }
    this.done(call, "null");
  }

  private asyncCall(call: ActionCall, op: string, json: string): Promise<string> {
    return new Promise((resolve, reject) => this.syscall(call, op, json, resolve, (message) => reject(new Error(message))));
  }

  private done(call: ActionCall, payload: string): void {
    if (call.finished) return;
    call.finished = true;
    this.calls.delete(call.id);
    this.send({ t: "done", call: call.id, ok: true, leaked: this.store.leaked }, payload);
    this.leave(call);
  }

  /** Once all that the call can still do without an answer has been done. */
  private leave(call: ActionCall): void {
    setImmediate(() => {
      if (call.waiting.size === 0) closeRealm(call.realm);
    });
  }

  private fail(call: ActionCall, thrown: unknown): void {
    if (call.finished) return;
    call.finished = true;
    this.calls.delete(call.id);
    const uncaught = !(this.node !== null && call.start.what === "analyze");
    this.send({ t: "done", call: call.id, ok: false }, JSON.stringify(describeThrown(thrown, this.store.mapper, uncaught)));
    this.leave(call);
  }
}
