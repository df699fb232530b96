/** One HTTP request and its answer: bodies with limits and encodings, JSON, errors, CORS. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate } from "node:zlib";

import { INTERNAL_MESSAGE, SystemError, UserError } from "../errors.js";

export const PUSH_BODY_LIMIT = 200 * 1024 * 1024;
export const API_BODY_LIMIT = 16 * 1024 * 1024 + 2000;

const decoders: Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>> = {
  br: promisify(brotliDecompress) as never,
  gzip: promisify(gunzip) as never,
  deflate: promisify(inflate) as never,
};

/** A field of a request as text, whatever it is: `String` fails on objects that bring their own `toString`. */
export function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined");
}

/** Whether the client announced a body. */
export function hasBody(request: IncomingMessage): boolean {
  return request.headers["transfer-encoding"] !== undefined || Number(request.headers["content-length"] ?? 0) > 0;
}

/** The bytes of a request as they arrive, up to a limit. Leaves the connection alone when the reader stops early. */
export async function* limitedBody(request: IncomingMessage, limit: number, tooLarge: () => UserError): AsyncGenerator<Buffer> {
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > limit) {
        request.resume();
        throw tooLarge();
      }
      yield chunk;
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError("RequestAborted", "The client closed the connection before the whole body had arrived");
  }
}

/** The whole body as it was sent. */
export async function readRawBody(request: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of limitedBody(request, limit, () => new UserError("BadJsonBody", `Request body is larger than ${limit} bytes`))) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function readBody(request: IncomingMessage, limit: number): Promise<Buffer> {
  const bytes = await readRawBody(request, limit);
  const encoding = request.headers["content-encoding"];
  if (encoding === undefined || encoding === "identity") return bytes;
  const decode = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined;
  if (decode === undefined) throw new UserError("BadEncoding", `Unknown content encoding ${encoding}`);
  try {
    return await decode(bytes, { maxOutputLength: limit });
  } catch {
    throw new UserError("BadEncoding", "Could not decompress the request body");
  }
}

export async function readJson(request: IncomingMessage, limit: number, typed: boolean): Promise<Record<string, unknown>> {
  const type = request.headers["content-type"] ?? "";
  const bytes = await readBody(request, limit);
  if (typed && !/^application\/(.*\+)?json\b/i.test(type)) {
    throw new UserError("BadJsonBody", "Expected request with `Content-Type: application/json`");
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new UserError("BadJsonBody", `Failed to parse the request body as JSON: ${(error as Error).message}`);
  }
  if (typeof parsed !== "object" || parsed === null) throw new UserError("BadJsonBody", "The request body must be a JSON object");
  return parsed as Record<string, unknown>;
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  if (response.headersSent) return;
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(value));
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) return;
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" });
  response.end(text);
}

/** Mirrors the origin, as all routes of the API do. */
export function setCors(request: IncomingMessage, response: ServerResponse): void {
  const { origin } = request.headers;
  if (origin === undefined) return;
  response.setHeader("Access-Control-Allow-Origin", origin);
  response.setHeader("Access-Control-Allow-Credentials", "true");
  response.setHeader("Access-Control-Allow-Methods", "GET, POST, OPTIONS, PATCH, DELETE, PUT");
  response.setHeader("Access-Control-Allow-Headers", request.headers["access-control-request-headers"] ?? "*");
  response.setHeader("Access-Control-Max-Age", "86400");
  response.setHeader("Vary", "Origin");
}

/** The platform's error body, whatever went wrong. */
export function sendError(response: ServerResponse, error: unknown, report: (error: unknown) => void): void {
  if (error instanceof UserError || error instanceof SystemError) {
    sendJson(response, error.status, { code: error.code, message: error.message });
    return;
  }
  report(error);
  sendJson(response, 500, { code: "InternalServerError", message: INTERNAL_MESSAGE });
}
