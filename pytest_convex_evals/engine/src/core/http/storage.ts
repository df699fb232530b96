/** Uploads and downloads of stored files. */

import type { IncomingMessage, ServerResponse } from "node:http";

import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import { transact } from "../functions/actionSyscalls.js";
import { fileOf, Files } from "../storage/files.js";
import { readRawBody, sendJson } from "./exchange.js";

const MAX_UPLOAD = 512 * 1024 * 1024;

export async function upload(engine: Engine, request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
  const token = url.searchParams.get("token");
  if (token === null) throw new UserError("BadQueryArgs", "missing field `token`");
  const namespace = engine.files.checkUploadToken(token);
  const digest = request.headers["digest"];
  let expected: Buffer | null = null;
  if (typeof digest === "string") {
    const match = /^sha-256=([A-Za-z0-9+/]{43}=)$/i.exec(digest);
    if (match === null) throw new UserError("BadHeader", "Invalid Digest header");
    expected = Buffer.from(match[1] as string, "base64");
  }
  const bytes = await readRawBody(request, MAX_UPLOAD);
  const type = request.headers["content-type"] ?? null;
  const doc = await transact(engine, (tx) => engine.files.store(tx, namespace, bytes, type, expected));
  sendJson(response, 200, { storageId: doc.id });
}

export function download(engine: Engine, request: IncomingMessage, response: ServerResponse, uuid: string): void {
  if (!Files.isUuid(uuid)) throw new UserError("InvalidStoragePath", `Invalid storage path: "${uuid}"`);
  const doc = engine.files.byUuid(uuid);
  if (doc === null) throw new UserError("FileNotFound", `File ${uuid} not found`, undefined, 404);
  const { bytes } = fileOf(doc);
  const type = doc.field("contentType");
  const headers: Record<string, string> = { "Accept-Ranges": "bytes", "Cache-Control": "private, max-age=2592000" };
  if (typeof type === "string") headers["Content-Type"] = type;
  const range = request.headers.range;
  if (range === undefined) {
    response.writeHead(200, { ...headers, "Content-Length": bytes.length, Digest: `sha-256=${doc.field("sha256") as string}` });
    response.end(request.method === "HEAD" ? undefined : bytes);
    return;
  }
  const wanted = parseRange(range, bytes.length);
  if (wanted === null) {
    response.writeHead(416, { "Content-Range": `bytes */${bytes.length}` });
    response.end();
    return;
  }
  const [from, to] = wanted;
  response.writeHead(206, { ...headers, "Content-Length": to - from + 1, "Content-Range": `bytes ${from}-${to}/${bytes.length}` });
  response.end(request.method === "HEAD" ? undefined : bytes.subarray(from, to + 1));
}

/** One satisfiable range, inclusive, or null. */
function parseRange(header: string, size: number): [number, number] | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header.trim());
  if (match === null || (match[1] === "" && match[2] === "")) return null;
  if (match[1] === "") {
    const last = Math.min(Number(match[2]), size);
    return last === 0 ? null : [size - last, size - 1];
  }
  const from = Number(match[1]);
  const to = match[2] === "" ? size - 1 : Math.min(Number(match[2]), size - 1);
  return from >= size || from > to ? null : [from, to];
}
