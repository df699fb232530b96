/** The HTTP front: every endpoint of the API on the main port, HTTP actions on the site port. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

import { isAdmin } from "../auth/identity.js";
import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { SyncFront } from "../sync/front.js";
import { deleteTables, indexes, shapes } from "./dashboard.js";
import { updateEnvironment } from "./environment.js";
import { API_BODY_LIMIT, PUSH_BODY_LIMIT, readJson, readRawBody, sendError, sendJson, sendText, setCors } from "./exchange.js";
import { FunctionApi } from "./functions.js";
import { HttpActions } from "./httpActions.js";
import { cancelAll, cancelOne } from "./jobs.js";
import { listenOnLoopback } from "./ports.js";
import { exportEndpoint, PORTABLE_ENDPOINTS } from "./portable.js";
import { streamLogs } from "./logs.js";
import { download, upload } from "./storage.js";

export const VERSION = "1.48.0";

const METHODS = ["GET", "HEAD", "POST"];

type Handler = (request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void> | void;

export class HttpFront {
  private servers: Server[] = [];
  private readonly sync: SyncFront;
  private readonly api: FunctionApi;
  private readonly actions: HttpActions;
  private readonly routes: ReadonlyMap<string, Handler>;

  constructor(private readonly engine: Engine) {
    this.sync = new SyncFront(engine);
    this.api = new FunctionApi(engine);
    this.actions = new HttpActions(engine);
    this.routes = this.table();
  }

  async listen(port: number | null, sitePort: number | null): Promise<void> {
    const main = await listenOnLoopback(() => {
      const server = createServer((request, response) => void this.onRequest(request, response));
      server.keepAliveTimeout = 60_000;
      this.sync.attach(server);
      return server;
    }, port);
    const site = await listenOnLoopback(() => createServer((request, response) => void this.onSite(request, response, request.url ?? "/")), sitePort);
    this.servers = [...main.servers, ...site.servers];
    this.engine.cloudUrl = `http://127.0.0.1:${main.port}`;
    this.engine.siteUrl = `http://127.0.0.1:${site.port}`;
  }

  private async onSite(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    try {
      await this.actions.serve(request, response, path);
    } catch (error) {
      sendError(response, error, (unexpected) => this.engine.report(unexpected));
    }
  }

  private async onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = request.url ?? "/";
    if (raw === "/http" || raw.startsWith("/http/") || raw.startsWith("/http?")) {
      const rest = raw.slice("/http".length);
      await this.onSite(request, response, rest.startsWith("/") ? rest : `/${rest}`);
      return;
    }
    try {
      setCors(request, response);
      if (request.method === "OPTIONS") {
        response.writeHead(200);
        response.end();
        return;
      }
      const url = URL.parse(raw, "http://localhost");
      if (url === null) throw new UserError("BadRequest", `Not a path: ${raw.slice(0, 200)}`);
      const handler = this.routes.get(`${request.method ?? ""} ${url.pathname}`) ?? this.prefixed(request.method ?? "", url.pathname);
      if (handler === null) throw this.unknown(request.method ?? "", url.pathname);
      await handler(request, response, url);
    } catch (error) {
      sendError(response, error, (unexpected) => this.engine.report(unexpected));
    }
  }

  private unknown(method: string, path: string): UserError {
    const allowed = METHODS.filter((other) => this.routes.has(`${other} ${path}`) || this.prefixed(other, path) !== null);
    if (allowed.length === 0) return new UserError("NotFound", `No such endpoint: ${path}`, undefined, 404);
    return new UserError("MethodNotAllowed", `${path} does not answer ${method}, only ${allowed.join(" and ")}`, undefined, 405);
  }

  private prefixed(method: string, path: string): Handler | null {
    if (path.startsWith("/api/storage/") && (method === "GET" || method === "HEAD")) {
      return (request, response) => download(this.engine, request, response, path.slice("/api/storage/".length));
    }
    const archive = method === "GET" ? exportEndpoint(path) : null;
    if (archive !== null) return this.guarded((request, response, url) => archive(this.engine, request, response, url));
    if (path.startsWith("/api/run/") && method === "POST") {
      const parts = path.slice("/api/run/".length).split("/").filter(Boolean);
      return async (request, response) => {
        if (parts.length < 2) throw new UserError("MissingIdentifier", "The path must name a module and a function");
        await this.api.any(request, response, `${parts.slice(0, -1).join("/")}:${parts[parts.length - 1] as string}`);
      };
    }
    return null;
  }

  /** Requests that only an administrator may make; the key may also come in the body or the query. */
  private admin(limit: number, run: (body: Record<string, unknown>, url: URL) => unknown): Handler {
    return async (request, response, url) => {
      const body = request.method === "GET" ? {} : await readJson(request, limit, false);
      await this.requireAdmin(request, url, body["adminKey"]);
      sendJson(response, 200, (await run(body, url)) ?? null);
    };
  }

  private guarded(run: Handler): Handler {
    return async (request, response, url) => {
      await this.requireAdmin(request, url, null);
      await run(request, response, url);
    };
  }

  private async requireAdmin(request: IncomingMessage, url: URL, inBody: unknown): Promise<void> {
    const key = typeof inBody === "string" ? inBody : url.searchParams.get("adminKey");
    const identity = key !== null ? this.engine.auth.admin(key) : await this.engine.auth.header(request.headers.authorization);
    if (!isAdmin(identity)) throw new UserError("BadDeployKey", "The provided deploy key was invalid for deployment", undefined, 403);
  }

  private table(): ReadonlyMap<string, Handler> {
    const { engine, api } = this;
    const { pushes } = engine;
    const text = (value: () => string): Handler => (_request, response) => sendText(response, 200, value());
    return new Map<string, Handler>([
      ["GET /", text(() => "This Convex deployment is running. See https://docs.convex.dev/.")],
      ["GET /version", text(() => VERSION)],
      ["GET /instance_name", text(() => engine.instanceName)],
      ["GET /instance_version", text(() => VERSION)],
      ["GET /api/v1/get_canonical_urls", this.admin(0, () => ({ convexCloudUrl: engine.cloudUrl, convexSiteUrl: engine.siteUrl }))],
      ["GET /api/check_admin_key", this.admin(0, () => ({ success: true }))],
      ["POST /api/check_admin_key", this.admin(API_BODY_LIMIT, () => ({ success: true }))],
      ["GET /api/stream_function_logs", (request, response, url) => this.logs(request, response, url)],
      ["POST /api/get_config_hashes", this.admin(API_BODY_LIMIT, () => pushes.configHashes())],
      ["POST /api/deploy2/evaluate_schema", (request, response, url) => this.evaluateSchema(request, response, url)],
      ["POST /api/deploy2/start_push", this.admin(PUSH_BODY_LIMIT, (body) => pushes.start(body))],
      ["POST /api/deploy2/wait_for_schema", this.admin(PUSH_BODY_LIMIT, (body) => pushes.waitForSchema(body))],
      ["POST /api/deploy2/finish_push", this.admin(PUSH_BODY_LIMIT, (body) => pushes.finish(body))],
      ["POST /api/deploy2/report_push_completed", this.admin(PUSH_BODY_LIMIT, () => null)],
      ["POST /api/update_environment_variables", this.admin(API_BODY_LIMIT, (body) => updateEnvironment(engine, body["changes"]))],
      ["GET /api/list_environment_variables", this.admin(0, () => ({ environmentVariables: Object.fromEntries(engine.env) }))],
      ["POST /api/query", (request, response) => api.call(request, response, "Query")],
      ["GET /api/query", (request, response, url) => api.queryByUrl(request, response, url)],
      ["POST /api/mutation", (request, response) => api.call(request, response, "Mutation")],
      ["POST /api/action", (request, response) => api.call(request, response, "Action")],
      ["POST /api/function", (request, response) => api.any(request, response, null)],
      ["POST /api/query_ts", (_request, response) => api.queryTs(response)],
      ["POST /api/query_at_ts", (request, response) => api.queryAtTs(request, response)],
      ["POST /api/query_batch", (request, response) => api.queryBatch(request, response)],
      ["POST /api/storage/upload", (request, response, url) => upload(engine, request, response, url)],
      ...PORTABLE_ENDPOINTS.map(([name, run]): [string, Handler] => [name, this.guarded((request, response, url) => run(engine, request, response, url))]),
      ["POST /api/cancel_job", this.admin(API_BODY_LIMIT, (body) => cancelOne(engine, body))],
      ["POST /api/cancel_all_jobs", this.admin(API_BODY_LIMIT, (body) => cancelAll(engine, body))],
      ["GET /api/shapes2", this.admin(0, (_body, url) => shapes(engine, url.searchParams.get("component")))],
      ["GET /api/get_indexes", this.admin(0, (_body, url) => indexes(engine, url.searchParams.get("component_id")))],
      ["POST /api/delete_tables", this.admin(API_BODY_LIMIT, (body) => deleteTables(engine, body))],
    ]);
  }

  /** The body is that of the push that follows, and is not looked at unless it holds the key. */
  private async evaluateSchema(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const nothing = { componentSchemaEvaluations: {}, newComponentDefinitions: [] };
    if (request.headers.authorization === undefined) {
      await this.admin(PUSH_BODY_LIMIT, () => nothing)(request, response, url);
      return;
    }
    await this.requireAdmin(request, url, null);
    await readRawBody(request, PUSH_BODY_LIMIT);
    sendJson(response, 200, nothing);
  }

  private async logs(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    await this.requireAdmin(request, url, null);
    const cursor = Number(url.searchParams.get("cursor") ?? 0);
    if (!Number.isFinite(cursor)) throw new UserError("BadQueryArgs", "invalid field `cursor`: it must be a number");
    streamLogs(this.engine, response, cursor);
  }

  close(): void {
    this.sync.dropAll();
    for (const server of this.servers) {
      server.close();
      server.closeAllConnections();
    }
  }
}
