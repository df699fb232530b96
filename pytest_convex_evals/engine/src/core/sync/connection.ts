/** One client of the sync protocol: its identity, its queries, its requests, and the transitions it is sent. */

import { randomUUID } from "node:crypto";

import type { WebSocket } from "ws";

import { actingAs, ADMIN, ANONYMOUS, type Identity } from "../auth/identity.js";
import type { Engine } from "../engine.js";
import { SystemError, UserError } from "../errors.js";
import { clientError, socketRequestId, type CallRequest, type CallResult } from "../functions/caller.js";
import type { RequestFacts } from "../functions/context.js";
import type { FunctionPath } from "../functions/paths.js";
import { encodeValue } from "../values/value.js";
import { keepAlive, PROBE_MS } from "./keepalive.js";
import type { MutationMemory } from "./memory.js";
import { BadMessage, encodeTs, parseMessage, type ClientMessage } from "./messages.js";
import { Outbox, understandsChunks } from "./outbox.js";
import { QuerySet } from "./queries.js";

interface Version {
  querySet: number;
  identity: number;
  ts: bigint;
}

type Request = ClientMessage & { type: "Mutation" | "Action" };

const MAX_PENDING = 1000;

export class SyncConnection {
  /** Until the client says who it is, a session of its own: requests of strangers are never taken for each other. */
  private session: string = randomUUID();
  /** How far the client's clock is ahead, in milliseconds. */
  private clockSkew: number | null = null;
  private identity: Identity = ANONYMOUS;
  private wanted = { querySet: 0, identity: 0 };
  private current: Version = { querySet: 0, identity: 0, ts: 0n };
  private readonly queries: QuerySet;
  private readonly outbox: Outbox;
  private needed = false;
  private updating = false;
  private closed = false;
  private mutations: Promise<void> = Promise.resolve();
  private pendingMutations = 0;
  private pendingActions = 0;
  /** Messages are handled in order even where a token must be verified first. */
  private inbox: Promise<void> = Promise.resolve();
  private lastHeard = performance.now();
  private readonly stop: (() => void)[] = [];

  constructor(
    private readonly engine: Engine,
    private readonly socket: WebSocket,
    private readonly memory: MutationMemory,
    private readonly facts: RequestFacts,
    clientVersion: string,
  ) {
    this.queries = new QuerySet(engine);
    this.outbox = new Outbox(socket, understandsChunks(clientVersion), () => this.close(1013, "ClientTooSlow: too many answers wait to be read"));
    socket.on("message", (data, isBinary) => {
      this.lastHeard = performance.now();
      this.inbox = this.inbox.then(() => this.onFrame(data, isBinary));
    });
    socket.on("pong", () => (this.lastHeard = performance.now()));
    socket.on("close", () => this.end());
    socket.on("error", () => this.end());
    this.stop.push(engine.db.onCommit((commit) => this.queries.invalidate(commit) && this.update()));
    this.stop.push(engine.onReset(() => this.invalidateAll()));
    const timer = setInterval(() => this.keepAlive(), PROBE_MS);
    this.stop.push(() => clearInterval(timer));
  }

  private keepAlive(): void {
    const wanted = keepAlive(performance.now(), this.lastHeard, this.outbox.lastSent);
    if (wanted === "give up") {
      this.socket.terminate();
      return;
    }
    this.socket.ping();
    if (wanted === "probe and tell") this.send({ type: "Ping" });
  }

  private end(): void {
    if (this.closed) return;
    this.closed = true;
    for (const stop of this.stop) stop();
    this.queries.clear();
  }

  private send(message: Record<string, unknown>): void {
    if (!this.closed) this.outbox.send(message);
  }

  private fatal(error: string): void {
    this.send({ type: "FatalError", error });
    this.close(1000, "FatalError");
  }

  /** Nothing is done for the client any more; what it was sent before, it still gets. */
  private close(code: number, reason: string): void {
    this.socket.close(code, reason.slice(0, 120));
    this.end();
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
        this.clockSkew = message.clientTs === null ? null : Math.round(message.clientTs - this.engine.clock.nowMs());
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
      if (!this.queries.modify(change)) {
        this.close(1011, "duplicate or unknown query");
        return;
      }
    }
    this.wanted.querySet = message.newVersion;
    this.update();
  }

  // ── subscriptions ─────────────────────────────────────────────────────────────────────────────────────────────────

  private invalidateAll(): void {
    this.queries.invalidateAll();
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
        await this.outbox.ready();
        this.needed = false;
        if (!this.closed) await this.transition();
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
    const { identity } = this;
    if (this.expired(identity)) return;
    const { snapshot } = this.engine.db;
    const target: Version = { ...this.wanted, ts: snapshot.ts > this.current.ts ? snapshot.ts : this.current.ts };
    const { modifications, outdated } = await this.queries.update(snapshot, (query) => this.request(query, identity));
    if (outdated) this.needed = true;
    if (this.closed) return;
    const startVersion = { ...this.current, ts: encodeTs(this.current.ts) };
    this.current = target;
    this.outbox.sendTransition({
      type: "Transition",
      startVersion,
      endVersion: { ...target, ts: encodeTs(target.ts) },
      modifications,
      ...(this.clockSkew === null ? {} : { clientClockSkew: this.clockSkew }),
    });
  }

  /** An expired token is noticed when it is used. */
  private expired(identity: Identity): boolean {
    if (identity.kind !== "user" || identity.expires === null || identity.expires > this.engine.clock.nowMs()) return false;
    this.send({ type: "AuthError", error: "Convex token identity expired", baseVersion: this.wanted.identity, authUpdateAttempted: false });
    this.close(1000, "AuthError");
    return true;
  }

  // ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

  private request(call: { path: FunctionPath; args: unknown[]; componentPath: string | undefined }, identity: Identity): CallRequest {
    return {
      path: call.path,
      args: call.args,
      identity,
      ...(call.componentPath === undefined ? {} : { componentPath: call.componentPath }),
      request: this.facts,
      caller: "SyncWorker",
    };
  }

  /** One after the other, each as the identity the client had when it asked. */
  private mutation(message: Request): void {
    if (this.pendingMutations >= MAX_PENDING) {
      this.close(1013, "TooManyConcurrentMutations");
      return;
    }
    this.pendingMutations += 1;
    const request = { ...this.request(message, this.identity), requestId: socketRequestId(this.session, message.requestId) };
    this.mutations = this.mutations.then(async () => {
      try {
        if (this.closed || this.expired(request.identity)) return;
        const result = await this.memory.once(this.session, message.requestId, (hooks) => this.engine.caller.mutation(request, hooks));
        this.respond("MutationResponse", message.requestId, result);
      } catch (error) {
        this.failed(error);
      } finally {
        this.pendingMutations -= 1;
      }
    });
  }

  private async action(message: Request): Promise<void> {
    if (this.pendingActions >= MAX_PENDING) {
      this.close(1013, "TooManyConcurrentActions");
      return;
    }
    this.pendingActions += 1;
    const request = { ...this.request(message, this.identity), requestId: socketRequestId(this.session, message.requestId) };
    try {
      if (this.expired(request.identity)) return;
      this.respond("ActionResponse", message.requestId, await this.engine.caller.action(request));
    } catch (error) {
      this.failed(error);
    } finally {
      this.pendingActions -= 1;
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
