/** The endpoints of `convex import` and `convex export`, for administrators. */

import type { IncomingMessage, ServerResponse } from "node:http";

import type { Engine } from "../engine.js";
import { API_BODY_LIMIT, asText, readJson, readRawBody, sendJson } from "./exchange.js";

const MAX_PART = 256 * 1024 * 1024;
const EXPORT_PATH = "/api/export/zip/";

type Endpoint = (engine: Engine, request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void> | void;

/** By method and path. */
export const PORTABLE_ENDPOINTS: readonly [string, Endpoint][] = [
  ["POST /api/import/start_upload", (engine, _request, response) => sendJson(response, 200, { uploadToken: engine.imports.startUpload() })],
  ["POST /api/import/upload_part", uploadPart],
  ["POST /api/import/finish_upload", finishUpload],
  ["POST /api/perform_import", (engine, request, response) => withImport(request, response, (id) => engine.imports.perform(id))],
  ["POST /api/cancel_import", (engine, request, response) => withImport(request, response, (id) => engine.imports.cancel(id))],
  ["POST /api/export/request/zip", requestExport],
];

async function uploadPart(engine: Engine, request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
  const bytes = await readRawBody(request, MAX_PART);
  const token = engine.imports.addPart(url.searchParams.get("uploadToken") ?? "", Number(url.searchParams.get("partNumber")), bytes);
  sendJson(response, 200, token);
}

async function finishUpload(engine: Engine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readJson(request, API_BODY_LIMIT, false);
  const asked = body["import"];
  const wanted = typeof asked === "object" && asked !== null ? (asked as Record<string, unknown>) : {};
  sendJson(response, 200, { importId: await engine.imports.finishUpload(asText(body["uploadToken"]), wanted) });
}

async function withImport(request: IncomingMessage, response: ServerResponse, run: (id: string) => void | Promise<void>): Promise<void> {
  const body = await readJson(request, API_BODY_LIMIT, false);
  await run(asText(body["importId"]));
  sendJson(response, 200, null);
}

function requestExport(engine: Engine, _request: IncomingMessage, response: ServerResponse, url: URL): void {
  engine.exports.request(url.searchParams.get("includeStorage") === "true");
  sendJson(response, 200, null);
}

/** The endpoint that serves an archive, when the path is one of an archive. */
export function exportEndpoint(path: string): Endpoint | null {
  if (!path.startsWith(EXPORT_PATH)) return null;
  const ts = path.slice(EXPORT_PATH.length);
  return (engine, _request, response) => {
    const archive = engine.exports.archive(ts);
    response.writeHead(200, { "Content-Type": "application/zip", "Content-Length": archive.length, "Content-Disposition": `attachment; filename=snapshot_${ts}.zip` });
    response.end(archive);
  };
}
