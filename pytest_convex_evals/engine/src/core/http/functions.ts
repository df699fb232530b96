/** The function API over HTTP. */

import type { IncomingMessage, ServerResponse } from "node:http";

import { isAdmin, seesInternal } from "../auth/identity.js";
import type { Snapshot } from "../db/database.js";
import { findFunction, type UdfKind } from "../deployment.js";
import type { Engine } from "../engine.js";
import { JsFailure, UserError } from "../errors.js";
import { clientError, newRequestId, type CallRequest, type CallResult } from "../functions/caller.js";
import { isSystemPath, systemKind } from "../system/functions.js";
import { parseFunctionPath, shortName } from "../functions/paths.js";
import { encodeValue, exportJson, parseValue, type Json, type Value } from "../values/value.js";
import { API_BODY_LIMIT, asText, readJson, sendJson } from "./exchange.js";
import { ReadPoints } from "./readpoints.js";

type Encode = (value: Value) => Json;

const FORMATS: Record<string, Encode> = {
  json: exportJson,
  convex_clean_json: exportJson,
  export_json: exportJson,
  convex_encoded_json: encodeValue,
  convex_json: encodeValue,
};

function encoderFor(format: unknown): Encode {
  if (format === undefined || format === null) return exportJson;
  const name = asText(format);
  const encode = Object.hasOwn(FORMATS, name) ? FORMATS[name] : undefined;
  if (encode === undefined) throw new UserError("BadFormat", `Unknown format ${name}`);
  return encode;
}

export class FunctionApi {
  private readonly points: ReadPoints;

  constructor(private readonly engine: Engine) {
    this.points = new ReadPoints(engine);
  }

  async call(request: IncomingMessage, response: ServerResponse, kind: UdfKind): Promise<void> {
    const body = await readJson(request, API_BODY_LIMIT, true);
    await this.answer(request, response, kind, body);
  }

  async queryAtTs(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readJson(request, API_BODY_LIMIT, true);
    await this.answer(request, response, "Query", body, this.points.find(body["ts"]));
  }

  async queryByUrl(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const args = url.searchParams.get("args");
    let parsed: unknown = {};
    try {
      parsed = args === null ? {} : (JSON.parse(args) as unknown);
    } catch {
      throw new UserError("BadQueryArgs", "Failed to parse args as JSON");
    }
    await this.answer(request, response, "Query", { path: url.searchParams.get("path"), args: parsed, format: url.searchParams.get("format") });
  }

  queryTs(response: ServerResponse): void {
    sendJson(response, 200, { ts: this.points.take() });
  }

  async queryBatch(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readJson(request, API_BODY_LIMIT, true);
    const { queries } = body;
    if (!Array.isArray(queries) || !queries.every(isRecord)) throw new UserError("BadJsonBody", "missing or invalid field `queries`: it must be a list of queries");
    const { snapshot } = this.engine.db;
    const results: unknown[] = [];
    for (const item of queries) {
      const call = await this.prepare(request, item);
      results.push(render(await this.engine.caller.query({ ...call, snapshot }), encoderFor(item["format"])));
    }
    sendJson(response, 200, { results });
  }

  /** `/api/function` and `/api/run/…`: any kind of function, found by name. */
  async any(request: IncomingMessage, response: ServerResponse, path: string | null): Promise<void> {
    const body = await readJson(request, API_BODY_LIMIT, true);
    const call = await this.prepare(request, path === null ? body : { ...body, path });
    if (path === null && !seesInternal(call.identity)) throw new UserError("BadDeployKey", "The provided deploy key was invalid for deployment", undefined, 403);
    const encode = encoderFor(body["format"]);
    if (typeof body["componentPath"] === "string" && path === null) call.componentPath = body["componentPath"];
    if (isSystemPath(call.path)) {
      sendJson(response, 200, render(await this.engine.caller.any(call, systemKind(call.path)), encode));
      return;
    }
    const component = this.engine.deployment.component(call.componentPath ?? "");
    const found = component === null ? null : findFunction(component, call.path.module, call.path.fn);
    if (found === null || (found.fn.visibility !== "public" && !isAdmin(call.identity))) {
      const failure = new JsFailure(`Could not find function for '${shortName(call.path)}'. Did you forget to run \`npx convex dev\`?`);
      sendJson(response, 200, { status: "error", errorMessage: clientError(newRequestId(), failure) });
      return;
    }
    sendJson(response, 200, render(await this.engine.caller.any(call, found.fn.kind), encode));
  }

  private async prepare(request: IncomingMessage, body: Record<string, unknown>): Promise<CallRequest> {
    if (typeof body["path"] !== "string") throw new UserError("BadJsonBody", "missing field `path`");
    if (body["args"] === undefined || body["args"] === null) throw new UserError("BadJsonBody", "missing field `args`");
    if (typeof body["args"] !== "object") throw new UserError("BadJsonBody", "invalid field `args`: it must be an object, or a list of positional arguments");
    return {
      path: parseFunctionPath(body["path"]),
      args: body["args"],
      identity: await this.engine.auth.header(request.headers.authorization),
      request: { ip: request.socket.remoteAddress ?? null, userAgent: request.headers["user-agent"] ?? null },
      caller: "Http",
    };
  }

  private async answer(request: IncomingMessage, response: ServerResponse, kind: UdfKind, body: Record<string, unknown>, snapshot?: Snapshot): Promise<void> {
    const call = await this.prepare(request, body);
    if (typeof body["componentPath"] === "string") call.componentPath = body["componentPath"];
    if (snapshot !== undefined) call.snapshot = snapshot;
    const encode = encoderFor(body["format"]);
    sendJson(response, 200, render(await this.engine.caller.any(call, kind), encode));
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function render(result: CallResult, encode: Encode): Record<string, unknown> {
  const logs = result.logLines.length === 0 ? {} : { logLines: result.logLines };
  const { outcome } = result;
  if (outcome.ok) return { status: "success", value: encode(outcome.value), ...logs };
  const { data } = outcome.failure;
  return {
    status: "error",
    errorMessage: clientError(result.requestId, outcome.failure),
    ...(data === undefined ? {} : { errorData: encode(parseValue(data)) }),
    ...logs,
  };
}
