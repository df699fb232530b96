/** HTTP actions: routing through http.js and component mounts, streaming of the response. */

import type { IncomingMessage, ServerResponse } from "node:http";

import { ANONYMOUS, type Identity } from "../auth/identity.js";
import type { Component } from "../deployment.js";
import type { Engine } from "../engine.js";
import { JsFailure, UserError } from "../errors.js";
import { actionSyscall } from "../functions/actionSyscalls.js";
import { newRequestId } from "../functions/caller.js";
import { environmentOf, seeds } from "../functions/executor.js";
import { CallLog } from "../functions/logs.js";
import { noUsage } from "../db/usage.js";
import { userBudget } from "../runners/udf.js";
import { CallStreams, REQUEST_STREAM } from "../functions/streams.js";
import { hasBody, limitedBody, sendJson, sendText } from "./exchange.js";

const MAX_BODY = 20 * 1024 * 1024;
const REQUEST_TOO_LARGE = "HttpRequestTooLarge: HTTP actions support requests up to 20 MiB";
const RESPONSE_TOO_LARGE = "HttpResponseTooLarge: HTTP actions support responses up to 20 MiB";
const METHODS = new Set(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]);

interface Match {
  component: Component;
  /** Path as the component's own router sees it. */
  path: string;
}

/** Exact routes first, then the longest of prefix routes and mounts; what a mount does not know is not found. */
function resolve(component: Component, path: string, method: string): Match | null {
  const routes = component.definition.modules.get("http.js")?.httpRoutes ?? null;
  const { httpMounts, httpPrefix } = component.definition.config;
  const base = component.parent === null ? httpPrefix : "/";
  const own = path.startsWith(base) ? `/${path.slice(base.length)}` : null;
  if (own !== null && routes?.some((route) => route.path === own && route.method === method)) return { component, path: own };
  let longest = -1;
  let found: Match | null = null;
  for (const route of own === null ? [] : (routes ?? [])) {
    if (!route.path.endsWith("*") || route.method !== method) continue;
    const prefix = route.path.slice(0, -1);
    if ((own as string).startsWith(prefix) && prefix.length > longest) {
      longest = prefix.length;
      found = { component, path: own as string };
    }
  }
  for (const [prefix, name] of httpMounts) {
    if (!path.startsWith(prefix) || prefix.length <= longest) continue;
    longest = prefix.length;
    found = resolve(component.children.get(name) as Component, `/${path.slice(prefix.length)}`, method);
  }
  return found;
}

export class HttpActions {
  constructor(private readonly engine: Engine) {}

  async serve(request: IncomingMessage, response: ServerResponse, rawPath: string): Promise<void> {
    const { engine } = this;
    const method = request.method ?? "GET";
    if (!METHODS.has(method)) {
      sendText(response, 405, "");
      return;
    }
    const { root } = engine.deployment;
    if (root === null || (root.definition.modules.get("http.js") === undefined && root.definition.config.httpMounts.size === 0)) {
      sendText(response, 404, "This Convex deployment does not have HTTP actions enabled.");
      return;
    }
    const question = rawPath.indexOf("?");
    const pathname = question === -1 ? rawPath : rawPath.slice(0, question);
    const routed = method === "HEAD" ? "GET" : method;
    const match = resolve(root, pathname, routed);
    if (match === null) {
      sendText(response, 404, "No matching routes found");
      return;
    }
    await this.run(request, response, match, rawPath, routed);
  }

  private async identity(request: IncomingMessage, component: Component): Promise<Identity> {
    if (component.path !== "") return ANONYMOUS;
    try {
      return await this.engine.auth.header(request.headers.authorization);
    } catch (error) {
      if (error instanceof UserError) return { kind: "refused", message: error.message };
      throw error;
    }
  }

  private async run(request: IncomingMessage, response: ServerResponse, match: Match, rawPath: string, method: string): Promise<void> {
    const { engine } = this;
    const { component } = match;
    const requestId = newRequestId();
    const log = new CallLog();
    const facts = { ip: request.socket.remoteAddress ?? null, userAgent: request.headers["user-agent"] ?? null };
    const root = { log, requestId, epoch: engine.epoch, budget: userBudget(), now: engine.clock.nowMs(), nextSeed: seeds(), job: null, request: facts };
    const path = { module: "http.js", fn: "default" };
    const identity = await this.identity(request, component);
    const url = `${schemeOf(request)}://${request.headers.host ?? "localhost"}${rawPath}`;
    const startedAt = performance.now();
    const streams = new CallStreams();
    const isReadable = hasBody(request) && !["GET", "OPTIONS"].includes(method);
    if (isReadable) {
      streams.reserve(REQUEST_STREAM);
      streams.attach(REQUEST_STREAM, limitedBody(request, MAX_BODY, () => new UserError("HttpRequestTooLarge", REQUEST_TOO_LARGE)));
    }
    /** What the response may still grow by; null once it was cut. */
    let room: number | null = MAX_BODY;
    let tellGone: (cut: boolean) => void = () => undefined;
    response.on("close", () => {
      if (!response.writableFinished) tellGone(false);
    });
    engine.caller.running += 1;
    let error: string | null = null;
    try {
      const { done } = await engine.actionRunner.call(
        {
          what: "http",
          def: component.definition.path,
          path: "http.js",
          fn: "default",
          now: engine.clock.nowMs(),
          frozen: engine.clock.isVirtual,
          seed: root.nextSeed(),
          importNow: engine.deployment.importNow,
          importSeed: engine.deployment.importSeed,
          env: environmentOf(engine, component),
          request: { method, url, routePath: match.path, headers: headerPairs(request), hasBody: isReadable },
        },
        "",
        {
          syscall: (op, json) => actionSyscall(engine, { root, component, path, identity, usage: noUsage(), streams }, op, json),
          log: (level, line) => log.add(level, line),
          entered: (clientGone) => {
            tellGone = clientGone;
            if (response.destroyed) clientGone(false);
          },
          head: (status, headers) => writeHead(response, status, headers),
          chunk: (bytes) => {
            if (room === null) return;
            response.write(bytes.subarray(0, room));
            if (bytes.length <= room) {
              room -= bytes.length;
              return;
            }
            room = null;
            log.add("ERROR", RESPONSE_TOO_LARGE);
            tellGone(true);
          },
        },
      );
      if (!done.ok) throw new JsFailure(done.error.message, done.error.frames, done.error.data === undefined ? undefined : JSON.parse(done.error.data));
    } catch (thrown) {
      if (!(thrown instanceof JsFailure)) throw thrown;
      error = thrown.text;
      sendFailure(response, requestId, thrown);
    } finally {
      streams.closeAll();
      engine.caller.running -= 1;
      engine.activity.changed();
      response.end();
      engine.logs.push({
        timestamp: engine.clock.nowMs(),
        udfType: "HttpAction",
        identifier: `${method} ${match.path}`,
        componentPath: component.path,
        caller: "HttpEndpoint",
        requestId,
        executionTime: (performance.now() - startedAt) / 1000,
        success: error === null,
        error,
        logLines: log.lines,
      });
    }
  }
}

/** As the outermost proxy saw it. */
function schemeOf(request: IncomingMessage): string {
  const given = request.headers["x-forwarded-proto"] ?? /(?:^|[;,\s])proto="?(\w+)"?/i.exec(request.headers["forwarded"] ?? "")?.[1];
  return given === "https" ? "https" : "http";
}

function headerPairs(request: IncomingMessage): [string, string][] {
  const pairs: [string, string][] = [];
  const raw = request.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase();
    if (!["connection", "keep-alive", "transfer-encoding", "upgrade"].includes(name)) pairs.push([name, raw[i + 1] as string]);
  }
  return pairs;
}

function writeHead(response: ServerResponse, status: number, headers: [string, string][]): void {
  if (response.headersSent) return;
  const safe = Number.isInteger(status) && status >= 200 && status <= 599 ? status : 500;
  for (const [name, value] of headers) {
    if (["content-length", "transfer-encoding", "connection"].includes(name.toLowerCase())) continue;
    try {
      response.appendHeader(name, value);
    } catch {
      // A header that HTTP does not allow is left out.
    }
  }
  response.writeHead(safe);
  response.flushHeaders();
}

function sendFailure(response: ServerResponse, requestId: string, failure: JsFailure): void {
  sendJson(response, 500, {
    code: `[Request ID: ${requestId}] Server Error: ${failure.message}`,
    trace: failure.text,
    ...(failure.data === undefined ? {} : { data: failure.data }),
  });
}
