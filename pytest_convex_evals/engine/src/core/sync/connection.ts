/** One client of the sync protocol: its identity, its queries, its requests, and the transitions it is sent. */

import type { WebSocket } from "ws";

import { actingAs, ADMIN, ANONYMOUS, type Identity } from "../auth/identity.js";
import type { Commit, Snapshot } from "../db/database.js";
import type { ReadSet } from "../db/readset.js";
import type { Engine } from "../engine.js";
import { SystemError, UserError } from "../errors.js";
import { clientError, socketRequestId, type CallRequest, type CallResult } from "../functions/caller.js";
import type { RequestFacts } from "../functions/context.js";
import { parseFunctionPath } from "../functions/paths.js";
import { encodeValue } from "../values/value.js";
import type { MutationMemory } from "./memory.js";
import { BadMessage, encodeTs, parseMessage, type ClientMessage, type QueryChange } from "./messages.js";

interface Subscription {
  id: number;
  udfPath: string;
  args: unknown;
  componentPath: string | undefined;
  journal: string | null;
  reads: ReadSet | null;
  dirty: boolean;
  /** What was last sent, to send only changes. */
  sent: string | null;
}

interface Version {
  querySet: number;
  identity: number;
  ts: bigint;
}

const PING_AFTER_MS = 15_000;
const SOCKET_PING_MS = 5_000;
const DEAD_AFTER_MS = 120_000;
const MAX_PENDING_MUTATIONS = 1000;
const CHUNK_BYTES = 5_000_000;
const PARALLEL_QUERIES = 20;

export class SyncConnection {
  private session = "";
  private identity: Identity = ANONYMOUS;
  private wanted = { querySet: 0, identity: 0 };
  private current: Version = { querySet: 0, identity: 0, ts: 0n };
  private readonly queries = new Map<number, Subscription>();
  private removed: number[] = [];
  private needed = false;
  private updating = false;
  private closed = false;
  private mutations: Promise<void> = Promise.resolve();
  private pendingMutations = 0;
  /** Messages are handled in order even where a token must be verified first. */
  private inbox: Promise<void> = Promise.resolve();
  private lastSent = performance.now();
  private lastHeard = performance.now();
  private readonly stop: (() => void)[] = [];

  constructor(
    private readonly engine: Engine,
    private readonly socket: WebSocket,
    private readonly memory: MutationMemory,
    private readonly facts: RequestFacts,
    private readonly clientVersion: string,
  ) {
    socket.on("message", (data, isBinary) => {
      this.lastHeard = performance.now();
      this.inbox = this.inbox.then(() => this.onFrame(data, isBinary));
    });
    socket.on("pong", () => (this.lastHeard = performance.now()));
    socket.on("close", () => this.end());
    socket.on("error", () => this.end());
    this.stop.push(engine.db.onCommit((commit) => this.onCommit(commit)));
    this.stop.push(engine.onReset(() => this.invalidateAll()));
    const timer = setInterval(() => this.keepAlive(), SOCKET_PING_MS);
    this.stop.push(() => clearInterval(timer));
  }

  private keepAlive(): void {
    if (performance.now() - this.lastHeard > DEAD_AFTER_MS) this.socket.terminate();
    else {
      this.socket.ping();
      if (performance.now() - this.lastSent > PING_AFTER_MS) this.send({ type: "Ping" });
    }
  }

  private end(): void {
    if (this.closed) return;
    this.closed = true;
    for (const stop of this.stop) stop();
    this.queries.clear();
  }

  private send(message: Record<string, unknown>): void {
    if (this.closed) return;
    this.lastSent = performance.now();
    this.socket.send(JSON.stringify(message));
  }

  private fatal(error: string): void {
    this.send({ type: "FatalError", error });
    this.socket.close(1000);
  }

  private close(code: number, reason: string): void {
    this.socket.close(code, reason.slice(0, 120));
  }

  private async onFrame(data: Buffer, isBinary: boolean): Promise<void> {
    if (this.closed) return;
    if (isBinary) {
      this.close(1011, "binary frame");
      return;
    }
    try {
      await this.onMessage(parseMessage(data.toString("utf8")));
    } catch (error) {
      if (error instanceof BadMessage) this.fatal(`Received Invalid JSON on websocket: ${error.message}`);
      else {
        this.engine.report(error);
        this.close(1011, "InternalServerError");
      }
    }
  }

  private async onMessage(message: ClientMessage): Promise<void> {
    switch (message.type) {
      case "Connect":
        this.session = message.sessionId;
        if (message.maxObservedTimestamp !== null && message.maxObservedTimestamp > this.engine.db.nextTs()) {
          this.close(1011, "The client has seen a timestamp ahead of the server");
        }
        break;
      case "Authenticate":
        await this.authenticate(message);
        break;
      case "ModifyQuerySet":
        this.modifyQueries(message);
        break;
      case "Mutation":
        this.mutation(message);
        break;
      case "Action":
        void this.action(message);
        break;
      case "Event":
        break;
    }
  }

  private async authenticate(message: ClientMessage & { type: "Authenticate" }): Promise<void> {
    if (message.baseVersion !== this.wanted.identity) {
      this.close(1011, "wrong identity base version");
      return;
    }
    try {
      this.identity = await this.identify(message);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      this.send({ type: "AuthError", error: error.message, baseVersion: this.wanted.identity, authUpdateAttempted: true });
      this.close(1000, "AuthError");
      return;
    }
    this.wanted.identity = message.baseVersion + 1;
    this.invalidateAll();
  }

  private async identify(message: ClientMessage & { type: "Authenticate" }): Promise<Identity> {
    if (message.tokenType === "None") return ANONYMOUS;
    if (message.tokenType === "User") return this.engine.auth.token(message.value);
    if (!this.engine.auth.isAdminKey(message.value)) {
      throw new UserError("BadDeployKey", "The provided deploy key was invalid for deployment", undefined, 403);
    }
    return message.actingAs === null ? ADMIN : actingAs(message.actingAs);
  }

  private modifyQueries(message: ClientMessage & { type: "ModifyQuerySet" }): void {
    if (message.baseVersion !== this.wanted.querySet) {
      this.fatal(`Base version ${message.baseVersion} passed up doesn't match the current version ${this.wanted.querySet}`);
      return;
    }
    for (const change of message.modifications) {
      if (!this.modify(change)) {
        this.close(1011, "duplicate or unknown query");
        return;
      }
    }
    this.wanted.querySet = message.newVersion;
    this.update();
  }

  private modify(change: QueryChange): boolean {
    if (change.type === "Remove") {
      if (!this.queries.delete(change.queryId)) return false;
      this.removed.push(change.queryId);
      return true;
    }
    if (this.queries.has(change.queryId)) return false;
    const { queryId, udfPath, args, componentPath, journal } = change;
    this.queries.set(queryId, { id: queryId, udfPath, args, componentPath, journal, reads: null, dirty: true, sent: null });
    return true;
  }

  // ── subscriptions ─────────────────────────────────────────────────────────────────────────────────────────────────

  private onCommit(commit: Commit): void {
    let touched = false;
    for (const query of this.queries.values()) {
      if (query.dirty || query.reads === null) continue;
      const { reads } = query;
      const changes =
        commit.structural ||
        commit.writes.some((write) => {
          const table = this.engine.db.tableOf(write.namespace, write.table);
          return table === undefined || reads.touchedBy(table, write.before, write.after);
        });
      if (changes) {
        query.dirty = true;
        touched = true;
      }
    }
    if (touched) this.update();
  }

  private invalidateAll(): void {
    for (const query of this.queries.values()) query.dirty = true;
    this.update();
  }

  /** Asks for a transition; several requests made before it starts share one. */
  private update(): void {
    this.needed = true;
    if (this.updating || this.closed) return;
    this.updating = true;
    setImmediate(() => void this.updateLoop());
  }

  private async updateLoop(): Promise<void> {
    try {
      while (this.needed && !this.closed) {
        this.needed = false;
        await this.transition();
      }
    } catch (error) {
      if (!(error instanceof SystemError)) this.engine.report(error);
      this.close(1011, "InternalServerError");
    } finally {
      this.updating = false;
    }
    if (this.needed && !this.closed) this.update();
  }

  private async transition(): Promise<void> {
    if (this.expired()) return;
    const { snapshot } = this.engine.db;
    const target: Version = { ...this.wanted, ts: snapshot.ts > this.current.ts ? snapshot.ts : this.current.ts };
    const modifications: Record<string, unknown>[] = this.removed.splice(0).map((queryId) => ({ type: "QueryRemoved", queryId }));
    const dirty = [...this.queries.values()].filter((query) => query.dirty);
    for (let at = 0; at < dirty.length; at += PARALLEL_QUERIES) {
      const batch = dirty.slice(at, at + PARALLEL_QUERIES);
      const found = await Promise.all(batch.map((query) => this.run(query, snapshot)));
      modifications.push(...found.filter((item) => item !== null));
    }
    const startVersion = { ...this.current, ts: encodeTs(this.current.ts) };
    this.current = target;
    this.sendTransition({ type: "Transition", startVersion, endVersion: { ...target, ts: encodeTs(target.ts) }, modifications });
  }

  /** Runs one query again; null when nothing changed for the client. */
  private async run(query: Subscription, snapshot: Snapshot): Promise<Record<string, unknown> | null> {
    query.dirty = false;
    const result = await this.engine.caller.query({ ...this.request(query), journal: query.journal, snapshot });
    query.reads = result.reads;
    query.journal = result.journal;
    if (result.reads !== null && this.engine.db.changedSince(snapshot.ts, result.reads)) {
      query.dirty = true;
      this.needed = true;
    }
    const { outcome, logLines } = result;
    const sent = JSON.stringify([outcome.ok ? encodeValue(outcome.value) : outcome.failure.text, outcome.ok, logLines]);
    if (sent === query.sent || !this.queries.has(query.id)) return null;
    query.sent = sent;
    const common = { queryId: query.id, logLines, journal: result.journal };
    if (outcome.ok) return { type: "QueryUpdated", ...common, value: encodeValue(outcome.value) };
    const { data } = outcome.failure;
    return {
      type: "QueryFailed",
      ...common,
      errorMessage: clientError(result.requestId, outcome.failure),
      ...(data === undefined ? {} : { errorData: data }),
    };
  }

  private sendTransition(message: Record<string, unknown>): void {
    const text = JSON.stringify(message);
    if (text.length <= CHUNK_BYTES || !understandsChunks(this.clientVersion)) {
      this.send(message);
      return;
    }
    const totalParts = Math.ceil(text.length / CHUNK_BYTES);
    for (let partNumber = 0; partNumber < totalParts; partNumber++) {
      const chunk = text.slice(partNumber * CHUNK_BYTES, (partNumber + 1) * CHUNK_BYTES);
      this.send({ type: "TransitionChunk", chunk, partNumber, totalParts, transitionId: String(text.length) });
    }
  }

  /** An expired token is noticed when it is used. */
  private expired(): boolean {
    if (this.identity.kind !== "user" || this.identity.expires === null || this.identity.expires > this.engine.clock.nowMs()) return false;
    this.send({ type: "AuthError", error: "Convex token identity expired", baseVersion: this.wanted.identity, authUpdateAttempted: false });
    this.close(1000, "AuthError");
    return true;
  }

  // ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

  private request(call: { udfPath: string; args: unknown; componentPath: string | undefined }): CallRequest {
    return {
      path: parsePath(call.udfPath),
      args: call.args ?? [{}],
      identity: this.identity,
      ...(call.componentPath === undefined ? {} : { componentPath: call.componentPath }),
      request: this.facts,
      caller: "SyncWorker",
    };
  }

  private mutation(message: ClientMessage & { type: "Mutation" | "Action" }): void {
    if (this.pendingMutations >= MAX_PENDING_MUTATIONS) {
      this.close(1013, "TooManyConcurrentMutations");
      return;
    }
    this.pendingMutations += 1;
    const request = { ...this.request(message), requestId: socketRequestId(this.session, message.requestId) };
    this.mutations = this.mutations.then(async () => {
      try {
        if (this.closed || this.expired()) return;
        const result = await this.memory.once(this.session, message.requestId, (hooks) => this.engine.caller.mutation(request, hooks));
        this.respond("MutationResponse", message.requestId, result);
      } catch (error) {
        this.failed(error);
      } finally {
        this.pendingMutations -= 1;
      }
    });
  }

  private async action(message: ClientMessage & { type: "Mutation" | "Action" }): Promise<void> {
    try {
      if (this.expired()) return;
      const result = await this.engine.caller.action({ ...this.request(message), requestId: socketRequestId(this.session, message.requestId) });
      this.respond("ActionResponse", message.requestId, result);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Failures of the system are not answers: the client reconnects and sends the request again. */
  private failed(error: unknown): void {
    if (error instanceof UserError && error.status < 500) this.fatal(error.message);
    else if (error instanceof SystemError) this.close(error.status === 403 ? 1000 : 1013, error.code);
    else {
      this.engine.report(error);
      this.close(1011, "InternalServerError");
    }
  }

  private respond(type: "MutationResponse" | "ActionResponse", requestId: number, result: CallResult): void {
    const { outcome, logLines } = result;
    if (outcome.ok) {
      const ts = type === "MutationResponse" ? { ts: encodeTs(result.ts) } : {};
      this.send({ type, requestId, success: true, result: encodeValue(outcome.value), logLines, ...ts });
    } else {
      const { data } = outcome.failure;
      const error = clientError(result.requestId, outcome.failure);
      this.send({ type, requestId, success: false, result: error, logLines, ...(data === undefined ? {} : { errorData: data }) });
    }
    this.update();
  }
}

function parsePath(text: string): ReturnType<typeof parseFunctionPath> {
  try {
    return parseFunctionPath(text);
  } catch (error) {
    if (error instanceof UserError) throw new BadMessage(error.message);
    throw error;
  }
}

/** TransitionChunk is known to npm clients from 1.27.5 on. */
function understandsChunks(version: string): boolean {
  const parts = version.split(".").map(Number);
  const [major = 0, minor = 0, patch = 0] = parts;
  return parts.length === 3 && (major > 1 || (major === 1 && (minor > 27 || (minor === 27 && patch >= 5))));
}
