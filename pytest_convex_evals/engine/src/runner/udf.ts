/**
 * The transactional runner: queries, mutations, analysis and evaluation of definitions.
 *
 * It works strictly in steps. A step runs JavaScript until the microtask queue is empty, reports what happened and then blocks on
 * the pipe, so that the core can attribute the processor time of a step to one call.
 */

import type { Frame } from "../shared/frames.js";
import type { StartOptions } from "../shared/protocol.js";
import { Ahead } from "./ahead.js";
import { describeModule } from "./analyze.js";
import { flush, queue, receive } from "./channel.js";
import { describeThrown, PlatformError, StackMapper } from "./failures.js";
import { ModuleStore } from "./modules.js";
import type { Answer, Realm, RealmHost } from "./realm.js";
import { closeRealm, exportedFunction, forgetModules, openRealm, warmUp } from "./realms.js";

interface Call {
  id: number;
  start: StartOptions;
  /** A call that has returned may still have operations under way, and may still fail by one of them. */
  state: "running" | "returned" | "failed";
  nextSyscall: number;
  waiting: Map<number, { resolve: (json: string) => void; reject: (message: string, data?: string) => void }>;
  /** Answers of streams that came together with earlier ones. */
  ahead: Map<string, string[]>;
  /** Promises of the host that will wake the realm. */
  hostWork: number;
  /** Nobody else wanted to run when it was last heard. */
  isAlone: boolean;
  /** Operations that nobody was asked for yet, in their order. */
  unasked: { id: number; op: string; json: string }[];
  realm: Realm | null;
}

const NESTED = "1.0/runUdf";
/** Turns of the event loop granted to host promises when a call has nothing else to wait for. */
const IDLE_TURNS = 64;

const store = new ModuleStore(new StackMapper());
const ahead = new Ahead(store);
const calls = new Map<number, Call>();
let current: Call | null = null;
let stepOf = 0;

export function runTransactional(): void {
  process.on("unhandledRejection", (reason) => {
    if (current !== null) fail(current, reason);
  });
  warmUp("query");
  queue({ t: "ready" });
  flush();
  setImmediate(turn);
}

function turn(): void {
  let running = false;
  while (!running) running = handle(receive());
  setImmediate(() => settle(0));
}

/** Ends the step once the call is finished, waits for the core, or has had its chance to be woken by the host. */
function settle(turns: number): void {
  const call = current;
  let ended: Realm | null = null;
  if (call !== null && ask(call)) {
    setImmediate(() => settle(0));
    return;
  }
  if (call !== null && call.waiting.size === 0) {
    if (call.hostWork > 0 || (call.state === "running" && turns < IDLE_TURNS)) {
      setImmediate(() => settle(turns + 1));
      return;
    }
    if (call.state === "running") fail(call, new PlatformError("Returned promise will never resolve"));
    calls.delete(call.id);
    ended = call.realm;
  }
  queue({ t: "yield", call: stepOf, leaked: store.leaked });
  current = null;
  flush();
  closeRealm(ended);
  if (ended !== null && call !== null && calls.size === 0) ahead.prepare(call.start);
  turn();
}

/** Handles one frame. Returns whether JavaScript of a call now runs. */
function handle(frame: Frame): boolean {
  const header = frame.header as Record<string, unknown> & { t: string };
  switch (header.t) {
    case "module":
      store.add(String(header["def"]), String(header["path"]), header["node"] === true, frame.payload);
      return false;
    case "sourceMap":
      store.mapper.add(ModuleStore.id(String(header["def"]), String(header["path"]), header["node"] === true), frame.payload);
      return false;
    case "forget":
      store.clear();
      forgetModules();
      ahead.forget();
      return false;
    case "prepare":
      ahead.prepare(header as unknown as StartOptions);
      return false;
    case "drop":
      calls.delete(header["call"] as number);
      return false;
    case "start":
      stepOf = header["call"] as number;
      startCall(header["call"] as number, header["alone"] === true, header as unknown as StartOptions, frame.payload);
      return true;
    case "resolve":
      return resolveSyscall(header, frame.payload);
    default:
      return false;
  }
}

function resolveSyscall(header: Record<string, unknown>, payload: string): boolean {
  stepOf = header["call"] as number;
  const call = calls.get(stepOf);
  if (call === undefined || !call.waiting.has(header["id"] as number)) return header["more"] !== true;
  current = call;
  call.isAlone = header["alone"] === true;
  answered(call, header, header["id"] as number, payload);
  return header["more"] !== true;
}

function startCall(id: number, isAlone: boolean, start: StartOptions, payload: string): void {
  const call: Call = { id, start, state: "running", nextSyscall: 0, waiting: new Map(), ahead: new Map(), hostWork: 0, isAlone, unasked: [], realm: null };
  calls.set(id, call);
  current = call;
  try {
    run(call, payload);
  } catch (error) {
    fail(call, error);
  }
}

function run(call: Call, payload: string): void {
  const { start } = call;
  const host: RealmHost = {
    now: () => start.now,
    sync: (op, json) => syncSyscall(call, op, json),
    async: (op, json, resolve, reject) => {
      if (op === "1.0/queryStreamNext") nextOfStream(call, json, resolve, reject);
      else asyncSyscall(call, op, json, resolve, reject);
    },
    log: (level, text) => queue({ t: "log", call: call.id, level }, text),
    pending: async (work) => {
      call.hostWork += 1;
      try {
        return await work;
      } finally {
        call.hostWork -= 1;
      }
    },
  };
  const { realm, namespace } = ahead.take(start, host) ?? ahead.timed(start, () => openRealm(start, host, store));
  call.realm = realm;
  if (start.what !== "query" && start.what !== "mutation") {
    const source = store.get(ModuleStore.id(start.def, start.path, false))?.source ?? "";
    succeed(call, describeModule(namespace, start, source));
    return;
  }
  const registered = exportedFunction(namespace, start.path, start.fn);
  const invoke = registered[start.what === "query" ? "invokeQuery" : "invokeMutation"];
  if (typeof invoke !== "function") throw new PlatformError(`Couldn't find "${start.fn}" in module "${start.path}".`);
  // What the module has put off comes first.
  setImmediate(() => begin(call, () => (invoke as (args: string) => Promise<unknown>).call(registered, payload)));
}

function begin(call: Call, invoke: () => Promise<unknown>): void {
  if (call.state !== "running") return;
  try {
    Promise.resolve(invoke()).then(
      (value) => succeed(call, String(value)),
      (error: unknown) => fail(call, error),
    );
  } catch (error) {
    fail(call, error);
  }
}

type Resolve = (json: string) => void;
type Reject = (message: string, data?: string) => void;

function asyncSyscall(call: Call, op: string, json: string, resolve: Resolve, reject: Reject): void {
  const id = call.nextSyscall++;
  call.waiting.set(id, { resolve, reject });
  call.unasked.push({ id, op, json });
}

/** Asks for what a call wants. Returns whether there was an answer at once, so that its JavaScript goes on. */
function ask(call: Call): boolean {
  const { unasked } = call;
  const [first] = unasked;
  call.unasked = [];
  if (call.state === "failed") return false;
  if (first !== undefined && call.isAlone && unasked.length === 1 && call.waiting.size === 1 && first.op !== NESTED) {
    const { id, op, json } = first;
    queue({ t: "now", call: call.id, id, op }, json);
    const { header, payload } = answerTo("now");
    // Somebody else wants to run, and it comes with the answers of a later step.
    if (header["later"] === true) return false;
    answered(call, header, id, payload);
    return true;
  }
  for (const { id, op, json } of unasked) queue({ t: "syscall", call: call.id, id, op }, json);
  return false;
}

function answered(call: Call, header: Record<string, unknown>, id: number, payload: string): void {
  const waiting = call.waiting.get(id);
  call.waiting.delete(id);
  if (header["ok"] === true) waiting?.resolve(payload);
  else waiting?.reject(payload, header["data"] as string | undefined);
}

/** Waits for the answer to a question; in between others may be told that their calls are over. */
function answerTo(question: "now" | "sync"): Frame {
  flush();
  for (;;) {
    const frame = receive();
    if (frame.header.t === question) return frame;
    handle(frame);
  }
}

/** Streams are told apart by the text of their request. */
function nextOfStream(call: Call, request: string, resolve: Resolve, reject: Reject): void {
  const ahead = call.ahead.get(request);
  const line = ahead?.shift();
  if (line !== undefined) {
    resolve(line);
    return;
  }
  const receive = (lines: string): void => {
    const rows = [...(call.ahead.get(request) ?? []), ...lines.split("\n")];
    call.ahead.set(request, rows);
    resolve(rows.shift() as string);
  };
  asyncSyscall(call, "1.0/queryStreamNext", request, receive, reject);
}

function syncSyscall(call: Call, op: string, json: string): Answer {
  if (op === "1.0/queryCleanup") {
    // Nobody waits for the answer.
    queue({ t: "cleanup", call: call.id }, json);
    return { value: "true" };
  }
  queue({ t: "sync", call: call.id, op }, json);
  const frame = answerTo("sync");
  return frame.header["ok"] === true ? { value: frame.payload } : { error: frame.payload };
}

function succeed(call: Call, payload: string): void {
  if (call.state !== "running") return;
  call.state = "returned";
  queue({ t: "done", call: call.id, ok: true }, payload);
}

function fail(call: Call, thrown: unknown): void {
  if (call.state === "failed") return;
  call.state = "failed";
  call.waiting.clear();
  queue({ t: "done", call: call.id, ok: false }, JSON.stringify(describeThrown(thrown, store.mapper)));
}
