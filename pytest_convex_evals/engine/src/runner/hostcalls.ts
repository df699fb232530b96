/** What actions reach through the core beside system calls: `fetch` and blobs. */

import { AsyncLocalStorage } from "node:async_hooks";

import { currentRealm } from "./modules.js";
import type { AsyncCall } from "./realm.js";

const NULL_BODY = new Set([101, 204, 205, 304]);

interface FetchAnswer {
  url: string;
  status: number;
  statusText: string;
  headers: [string, string][];
  hasBody: boolean;
}

/** The number of the core's stream that carries the body of an HTTP action's request. */
export const REQUEST_STREAM = 0;
let lastStream = REQUEST_STREAM;

/** A body that the core hands over piece by piece, as it is read. It fails when the signal fires. */
export function hostStream(id: number, call: AsyncCall, signal: AbortSignal): ReadableStream<Uint8Array> {
  // Readers may be anywhere; the system calls belong to the action that opened the stream.
  const inAction = AsyncLocalStorage.snapshot();
  const ask = (op: string): Promise<string> => inAction(() => call(op, JSON.stringify({ stream: id })));
  return new ReadableStream(
    {
      type: "bytes",
      start(controller) {
        signal.addEventListener("abort", () => controller.error(signal.reason));
      },
      async pull(controller) {
        let piece: string | null;
        try {
          piece = JSON.parse(await ask("host/read")) as string | null;
        } catch (error) {
          throw new TypeError((error as Error).message);
        }
        if (signal.aborted) return;
        if (piece !== null) {
          controller.enqueue(new Uint8Array(Buffer.from(piece, "base64")));
          return;
        }
        controller.close();
        controller.byobRequest?.respond(0);
      },
      async cancel() {
        await ask("host/close");
      },
    },
    { highWaterMark: 0 },
  );
}

export async function hostFetch(input: unknown, init: unknown, call: AsyncCall): Promise<Response> {
  const options = init as RequestInit | undefined;
  const request = new Request(input as string, options?.body instanceof ReadableStream ? ({ ...options, duplex: "half" } as RequestInit) : options);
  request.signal.throwIfAborted();
  const stream = ++lastStream;
  const body = request.body === null ? null : Buffer.from(await request.arrayBuffer()).toString("base64");
  const sent = call(
    "host/fetch",
    JSON.stringify({ stream, url: request.url, method: request.method, headers: [...request.headers], redirect: request.redirect, body }),
  );
  const inAction = AsyncLocalStorage.snapshot();
  const aborted = new Promise<never>((_, reject) => {
    request.signal.addEventListener("abort", () => {
      reject(request.signal.reason as Error);
      inAction(() => call("host/close", JSON.stringify({ stream }))).catch(() => undefined);
    });
  });
  // Nobody may be waiting any more when the signal fires.
  aborted.catch(() => undefined);
  let text: string;
  try {
    text = await Promise.race([sent, aborted]);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new TypeError((error as Error).message);
  }
  const answer = JSON.parse(text) as FetchAnswer;
  const content = NULL_BODY.has(answer.status) || !answer.hasBody ? null : hostStream(stream, call, request.signal);
  const response = new Response(content, { status: answer.status, statusText: answer.statusText, headers: answer.headers });
  Object.defineProperty(response, "url", { value: answer.url });
  return withOwnJson(response);
}

/** What `json()` gives belongs to the realm that asked, not to the host. */
export function withOwnJson<T extends Request | Response>(body: T): T {
  const parse = currentRealm.getStore()?.parseJson ?? JSON.parse;
  const json = async (): Promise<unknown> => parse(await body.text());
  return Object.defineProperty(body, "json", { value: json, writable: true, configurable: true });
}

export async function storageCall(op: string, args: Record<string, unknown>, call: AsyncCall): Promise<unknown> {
  if (op === "storage/storeBlob") {
    const blob = args["blob"];
    if (!(blob instanceof Blob)) {
      throw new Error("store() expects a Blob. If you are trying to store a Request, `await request.blob()` will give you the correct input.");
    }
    const bytes = Buffer.from(await blob.arrayBuffer());
    const sha256 = (args["options"] as { sha256?: string } | undefined)?.sha256;
    return JSON.parse(await call("host/storeBlob", JSON.stringify({ blob: bytes.toString("base64"), contentType: blob.type, sha256 })));
  }
  if (op === "storage/getBlob") {
    const found = JSON.parse(await call("host/getBlob", JSON.stringify({ storageId: args["storageId"] }))) as { blob: string; contentType: string | null } | null;
    return found === null ? null : new Blob([Buffer.from(found.blob, "base64")], { type: found.contentType ?? "" });
  }
  throw new Error(`Unknown JS operation ${op}`);
}
