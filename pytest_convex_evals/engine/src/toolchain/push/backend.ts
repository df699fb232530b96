/**
 * Requests of the CLI to the backend.
 *
 * They go over loopback: what the CLI packs travels as it is, and the client of Node's `http` takes a fraction of the time of `fetch`.
 */
import http from "node:http";
import zlib from "node:zlib";

import type { Stage } from "./stage.js";
import { Unfit } from "./unfit.js";

const REPORT = "/api/deploy2/report_push_completed";
const BODILESS = [204, 205, 304];
const agent = new http.Agent({ keepAlive: true });

export interface ToBackend {
  /** `fetch` of the CLI; a backend that is gone ends the push at once, where the CLI would ask again for half a minute. */
  fetch: typeof fetch;
  zlib: typeof zlib;
}

export function toBackend(stage: Stage): ToBackend {
  /** What is said to be packed, and is not. */
  const plain = new WeakSet<object>();
  const brotliCompress = (data: string | Buffer, _options: unknown, done: zlib.CompressCallback): void => {
    const bytes = Buffer.from(data as string);
    plain.add(bytes);
    setImmediate(() => done(null, bytes));
  };

  async function ask(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.origin !== stage.backend) return stage.give(new Unfit("outside", `the CLI asks for ${url.origin}, which is not the backend`));
    // Times that nobody reads; nobody would wait for the answer either.
    if (url.pathname === REPORT) return Response.json(null);
    const { body, method = "GET" } = init;
    const headers = Object.fromEntries(new Headers(init.headers));
    if (Buffer.isBuffer(body) && plain.has(body)) delete headers["content-encoding"];
    const send = input instanceof Request || !isSimple(body) ? () => fetch(input, init) : () => request(url, method, headers, body);
    try {
      // The second one has a fresh connection: an idle one may be closed in the moment in which it is used.
      return await send().catch(send);
    } catch (error) {
      return stage.give(new Unfit("unreachable", `${url.pathname} of the backend cannot be reached: ${(error as Error).message}`));
    }
  }

  return { fetch: ask as typeof fetch, zlib: { ...zlib, brotliCompress: brotliCompress as typeof zlib.brotliCompress } };
}

function isSimple(body: unknown): body is string | Buffer | undefined | null {
  return body === undefined || body === null || typeof body === "string" || Buffer.isBuffer(body);
}

function request(url: URL, method: string, headers: Record<string, string>, body: string | Buffer | undefined | null): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = http.request(url, { method, headers, agent }, (answer) => {
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () => resolve(responseOf(answer, Buffer.concat(parts))));
    });
    sent.on("error", reject);
    sent.end(body ?? undefined);
  });
}

function responseOf({ statusCode: status = 0, statusMessage: statusText, rawHeaders }: http.IncomingMessage, body: Buffer<ArrayBuffer>): Response {
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
  return new Response(BODILESS.includes(status) ? null : body, { status, headers, ...(statusText === undefined ? {} : { statusText }) });
}
