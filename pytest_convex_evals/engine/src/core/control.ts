/**
 * The control channel: JSON lines on the core's standard input and output.
 *
 * It is never reachable over TCP, so neither submitted code nor foreign graders can use it. The first line printed is
 * `{"ready": {"url", "siteUrl", "adminKey", "instanceName", "version"}}`. A request is `{"id", "op", "params"}`, its answer
 * `{"id", "ok": result}` or `{"id", "error": {"code", "message"}}`; requests run concurrently and answers come as they finish. When
 * standard input closes, the core ends. Values are Convex JSON.
 *
 * | op            | params                                             | result                                                    |
 * |---------------|----------------------------------------------------|-----------------------------------------------------------|
 * | `reset`       | `{clock?: ms}`                                     | `{runnerDeaths}`. Drops all data, keeps deployment and    |
 * |               |                                                    | environment; runners, scheduler and crons start anew, on  |
 * |               |                                                    | a virtual clock when a time is given, else on the real    |
 * | `wipe`        | `{}`                                               | null. Drops everything                                    |
 * | `renew`       | `{}`                                               | as `ready`. Drops everything; other ports, another key    |
 * | `clock.start` | `{time: ms}`                                       | as `reset` with that time                                 |
 * | `clock.advance` | `{ms, deadline?: ms}`                            | `{now}`. Runs what falls due, in order, to its end        |
 * | `clock.now`   | `{}`                                               | `{now, virtual}`                                          |
 * | `call`        | `{path, args?, kind?, identity?, component?}`      | `{value}` or `{error: {message, data?, code?}}`, with     |
 * |               | identity: `"anonymous"`, `"admin"` or attributes   | `logLines`, `requestId`, `usage`, `kind`                  |
 * | `insert`      | `{table, documents, component?}`                   | `{ids}`; error `SchemaEnforcementError`… by its code      |
 * | `list`        | `{table, component?, limit?}`                      | `{documents}`, oldest first, system tables too            |
 * | `clear`       | `{table?, component?}`                             | `{deleted}`; without a table: all user tables             |
 * | `schema`      | `{component?}`                                     | the stored schema or null                                 |
 * | `functionSpec`| `{component?}`                                     | `{url, functions}` as `convex function-spec` prints       |
 * | `components`  | `{}`                                               | `[{path, definitionPath, id}]`                            |
 * | `crons`       | `{}`                                               | `[{name, component, function, args, schedule, nextRun}]`  |
 * | `cronRuns`    | `{}`                                               | `[{name, component, function, scheduledFor, status, …}]`  |
 * | `scheduled`   | `{component?}`                                     | rows of `_scheduled_functions`, with their `component`    |
 * | `logs`        | `{clear?}`                                         | `[{function, kind, success, error, logLines, …}]`         |
 * | `env.set`     | `{variables: {name: value or null}}`               | null                                                      |
 * | `env.list`    | `{}`                                               | `{name: value}`                                           |
 * | `allowFetch`  | `{origins}`                                        | null. Replaces the origins that actions may fetch         |
 * | `developmentKey` | `{}`                                            | null. The public development key counts until `wipe`      |
 * | `network`     | `{gate?, prefix?, hidden}`                         | null. Actions reach the loopback interface that a grader  |
 * |               |                                                    | listens on: behind a gate, with Node actions started by   |
 * |               |                                                    | that prefix, or that of the machine; but no hidden port   |
 * | `save`        | `{}`                                               | `{deployment}`: what was pushed, analysed                 |
 * | `load`        | `{deployment}`                                     | null. Deploys what was saved                              |
 * | `packages`    | `{folder: path or null}`                           | null. A `node_modules` for packages outside the bundle    |
 * |               |                                                    | (`externalPackages`), readable to Node actions only       |
 * | `pushes`      | `{}`                                               | `{finished, refusal}`: how many were activated, and why   |
 * |               |                                                    | the latest one was not (null when it was)                 |
 * | `idle`        | `{deadline?: ms}`                                  | `{idle}`. Waits until nothing runs and no job is due      |
 * | `stats`       | `{}`                                               | `{conflicts, documents, memory, runnerDeaths}`            |
 * | `deaths`      | `{}`                                               | `{runnerDeaths}`                                          |
 * | `shutdown`    | `{}`                                               | null, then the core ends                                  |
 */

import { createInterface } from "node:readline";

import { actingAs, ADMIN, ANONYMOUS, type Identity } from "./auth/identity.js";
import { insertDocuments } from "./db/documents.js";
import { docCount, docsOf, isSystemTable, tableKey } from "./db/tables.js";
import { findFunction, type UdfKind } from "./deployment.js";
import type { Engine } from "./engine.js";
import { SystemError, UserError, type JsFailure } from "./errors.js";
import { transact } from "./functions/actionSyscalls.js";
import { clientError, type CallRequest } from "./functions/caller.js";
import { parseFunctionPath } from "./functions/paths.js";
import { updateEnvironment } from "./http/environment.js";
import { schemaJson } from "./schema/schema.js";
import { apiSpec } from "./system/deployment.js";
import { isSystemPath } from "./system/functions.js";
import { encodeValue, parseValue } from "./values/value.js";

type Params = Record<string, unknown>;
type Operation = (params: Params) => unknown;

const DEFAULT_DEADLINE_MS = 60_000;

const text = (params: Params, name: string): string => {
  const value = params[name];
  if (typeof value !== "string") throw new UserError("BadParams", `\`${name}\` must be a string`);
  return value;
};
const number = (params: Params, name: string): number => {
  const value = params[name];
  if (typeof value !== "number" || !Number.isFinite(value)) throw new UserError("BadParams", `\`${name}\` must be a number`);
  return value;
};
const optional = (params: Params, name: string): string | null => (typeof params[name] === "string" ? params[name] : null);
const componentOf = (params: Params): string => (typeof params["component"] === "string" ? params["component"] : "");
const deadlineOf = (params: Params): number => (typeof params["deadline"] === "number" ? params["deadline"] : DEFAULT_DEADLINE_MS);

export class Control {
  private readonly operations: ReadonlyMap<string, Operation>;

  constructor(
    private readonly engine: Engine,
    private readonly exit: () => void,
    private readonly renew: () => Promise<Record<string, string>>,
  ) {
    this.operations = new Map(Object.entries(this.table()));
  }

  /** Serves until standard input closes. */
  serve(ready: Record<string, string>): void {
    this.print({ ready });
    const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
    lines.on("line", (line) => void this.onLine(line));
    lines.on("close", () => this.exit());
  }

  private print(message: unknown): void {
    process.stdout.write(`${JSON.stringify(message)}\n`);
  }

  private async onLine(line: string): Promise<void> {
    let id: unknown = null;
    try {
      const request = JSON.parse(line) as { id?: unknown; op?: unknown; params?: unknown };
      id = request.id ?? null;
      const operation = this.operations.get(String(request.op));
      if (operation === undefined) throw new UserError("UnknownOperation", `unknown operation ${JSON.stringify(request.op)}`);
      this.print({ id, ok: (await operation((request.params ?? {}) as Params)) ?? null });
    } catch (error) {
      const known = error instanceof UserError || error instanceof SystemError;
      if (!known) this.engine.report(error);
      this.print({ id, error: { code: known ? error.code : "InternalError", message: error instanceof Error ? error.message : String(error) } });
    }
  }

  private table(): Record<string, Operation> {
    const { engine } = this;
    return {
      reset: (params) => this.reset(typeof params["clock"] === "number" ? params["clock"] : null),
      wipe: () => engine.wipe(),
      renew: () => this.renew(),
      "clock.start": (params) => this.reset(number(params, "time")),
      "clock.advance": (params) => this.advance(params),
      "clock.now": () => ({ now: engine.clock.nowMs(), virtual: engine.clock.isVirtual }),
      call: (params) => this.call(params),
      insert: (params) => this.insert(params),
      list: (params) => this.list(params),
      clear: (params) => this.clear(params),
      schema: (params) => {
        const schema = engine.db.schemas.get(componentOf(params));
        return schema === undefined ? null : schemaJson(schema);
      },
      functionSpec: (params) => ({ url: engine.cloudUrl, functions: apiSpec(engine, componentOf(params)) }),
      components: () =>
        engine.deployment.components().map((component) => ({ path: component.path, definitionPath: component.definition.path, id: engine.componentId(component.path) })),
      pushes: () => ({ finished: engine.pushes.finished, refusal: engine.pushes.refusal }),
      crons: () => this.crons(),
      cronRuns: () => this.cronRuns(),
      scheduled: (params) =>
        engine.scheduler.rows(typeof params["component"] === "string" ? params["component"] : null).map(({ namespace, doc }) => ({
          ...(encodeValue(doc.value) as Record<string, unknown>),
          component: namespace,
        })),
      logs: (params) => this.logs(params),
      "env.set": (params) => updateEnvironment(engine, Object.entries((params["variables"] ?? {}) as Params).map(([name, value]) => ({ name, value }))),
      "env.list": () => Object.fromEntries(engine.env),
      allowFetch: (params) => this.allowFetch(params),
      network: (params) => engine.useNetwork({ gate: optional(params, "gate"), hidden: new Set(params["hidden"] as number[]) }, (params["prefix"] as string[] | undefined) ?? null),
      save: () => ({ deployment: engine.saved() }),
      load: (params) => engine.load(text(params, "deployment")),
      packages: (params) => engine.usePackages(typeof params["folder"] === "string" ? params["folder"] : null),
      idle: async (params) => ({ idle: await engine.activity.idle(deadlineOf(params)) }),
      developmentKey: () => {
        this.engine.auth.acceptsDevelopmentKey = true;
      },
      stats: () => this.stats(),
      deaths: () => this.deaths(),
      shutdown: () => void setImmediate(() => this.exit()),
    };
  }

  private async reset(clock: number | null): Promise<unknown> {
    await this.engine.reset(clock);
    return this.deaths();
  }

  private deaths(): { runnerDeaths: number } {
    const { udfRunner, actionRunner, nodeRunner } = this.engine;
    return { runnerDeaths: udfRunner.deaths + actionRunner.deaths + nodeRunner.deaths };
  }

  private async advance(params: Params): Promise<unknown> {
    if (!this.engine.clock.isVirtual) throw new UserError("ClockIsReal", "clock.start must come before clock.advance");
    const ms = number(params, "ms");
    if (ms < 0) throw new UserError("BadParams", "the clock only moves forward");
    if (!(await this.engine.activity.advance(ms, deadlineOf(params)))) throw new UserError("Deadline", "functions were still running at the deadline");
    await this.engine.keepTime();
    return { now: this.engine.clock.nowMs() };
  }

  private async call(params: Params): Promise<unknown> {
    const { engine } = this;
    const request: CallRequest = {
      path: parseFunctionPath(text(params, "path")),
      args: [params["args"] ?? {}],
      identity: identityOf(params["identity"]),
      componentPath: componentOf(params),
      caller: "Control",
    };
    const component = engine.deployment.component(request.componentPath ?? "");
    const found = component === null ? null : findFunction(component, request.path.module, request.path.fn);
    const wanted = params["kind"];
    const kind: UdfKind = wanted === "Query" || wanted === "Mutation" || wanted === "Action" ? wanted : (found?.fn.kind ?? "Query");
    const result = await engine.caller.any(request, isSystemPath(request.path) && wanted === undefined ? "Query" : kind);
    const { outcome } = result;
    return {
      ...(outcome.ok
        ? { value: encodeValue(outcome.value) }
        : { error: failureJson(clientError(result.requestId, outcome.failure), outcome.failure) }),
      kind,
      logLines: result.logLines,
      requestId: result.requestId,
      usage: result.usage,
    };
  }

  private async insert(params: Params): Promise<unknown> {
    const documents = Array.isArray(params["documents"]) ? params["documents"] : [];
    const table = text(params, "table");
    const ids = await transact(this.engine, (tx) => {
      const unlimited = Number.MAX_SAFE_INTEGER;
      tx.limits = { ...tx.limits, documentsWritten: unlimited, bytesWritten: unlimited };
      return insertDocuments(tx, componentOf(params), table, Iterator.from(documents).map((document) => parseValue(document)));
    });
    return { ids };
  }

  private list(params: Params): unknown {
    const table = this.engine.db.tableOf(componentOf(params), text(params, "table"));
    const limit = typeof params["limit"] === "number" ? params["limit"] : Infinity;
    const documents: unknown[] = [];
    for (const doc of table === undefined ? [] : docsOf(table)) {
      if (documents.length >= limit) break;
      documents.push(encodeValue(doc.value));
    }
    return { documents };
  }

  private async clear(params: Params): Promise<unknown> {
    const namespace = componentOf(params);
    const only = typeof params["table"] === "string" ? params["table"] : null;
    const deleted = await transact(this.engine, (tx) => {
      const unlimited = Number.MAX_SAFE_INTEGER;
      tx.limits = { ...tx.limits, documentsWritten: unlimited };
      let count = 0;
      for (const table of [...tx.tables.values()]) {
        if (table.namespace !== namespace || isSystemTable(table.name) || (only !== null && tableKey(namespace, only) !== tableKey(namespace, table.name))) continue;
        for (const doc of [...docsOf(table)]) {
          tx.write(namespace, table.name, doc, null);
          count += 1;
        }
      }
      return count;
    });
    return { deleted };
  }

  private crons(): unknown {
    return this.engine.crons.all().map((job) => ({
      name: job.spec.name,
      component: job.component,
      function: job.spec.udfPath.replace(".js:", ":"),
      args: job.spec.args,
      schedule: job.spec.schedule,
      nextRun: job.nextMs,
    }));
  }

  private cronRuns(): unknown {
    return this.engine.crons.runs().map((run) => ({
      name: run.cron,
      component: run.component,
      function: run.udfPath.replace(".js:", ":"),
      scheduledFor: run.scheduledFor,
      at: run.at,
      status: run.status,
      logLines: run.logLines,
    }));
  }

  private logs(params: Params): unknown {
    const entries = this.engine.logs.all().map((entry) => ({
      timestamp: entry.timestamp,
      function: entry.identifier.replace(".js:", ":"),
      kind: entry.udfType,
      component: entry.componentPath,
      caller: entry.caller,
      requestId: entry.requestId,
      success: entry.success,
      error: entry.error,
      logLines: entry.logLines,
    }));
    if (params["clear"] === true) this.engine.logs.clear();
    return entries;
  }

  private async allowFetch(params: Params): Promise<null> {
    await this.engine.allowOrigins(Array.isArray(params["origins"]) ? params["origins"].map(String) : []);
    return null;
  }

  private stats(): unknown {
    let documents = 0;
    for (const table of this.engine.db.snapshot.tables.values()) documents += docCount(table);
    return { conflicts: this.engine.db.conflicts, documents, memory: process.memoryUsage.rss(), ...this.deaths() };
  }
}

function failureJson(message: string, { data, code }: JsFailure): Record<string, unknown> {
  return { message, ...(data === undefined ? {} : { data }), ...(code === undefined ? {} : { code }) };
}

function identityOf(given: unknown): Identity {
  if (given === undefined || given === null || given === "anonymous") return ANONYMOUS;
  if (given === "admin") return ADMIN;
  const user = actingAs(given);
  // A user who has logged in, not an administrator who acts as one: internal functions stay out of reach.
  return user.kind === "user" ? { ...user, actingAs: false } : user;
}
