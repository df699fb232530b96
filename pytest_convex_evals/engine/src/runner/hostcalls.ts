/** What actions reach through the core beside system calls: `fetch` and blobs. */

import type { AsyncCall } from "./realm.js";

const NULL_BODY = new Set([101, 204, 205, 304]);

interface FetchAnswer {
  url: string;
  status: number;
  statusText: string;
  headers: [string, string][];
  body: string;
}

export async function hostFetch(input: unknown, init: unknown, call: AsyncCall): Promise<Response> {
  const options = init as RequestInit | undefined;
  const request = new Request(input as string, options?.body instanceof ReadableStream ? ({ ...options, duplex: "half" } as RequestInit) : options);
  request.signal.throwIfAborted();
  const hasBody = request.body !== null;
  const sent = call(
    "host/fetch",
    JSON.stringify({
      url: request.url,
      method: request.method,
      headers: [...request.headers],
      redirect: request.redirect,
      body: hasBody ? Buffer.from(await request.arrayBuffer()).toString("base64") : null,
    }),
  );
  const aborted = new Promise<never>((_, reject) => {
    request.signal.addEventListener("abort", () => reject(request.signal.reason as Error));
  });
  let text: string;
  try {
    text = await Promise.race([sent, aborted]);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new TypeError((error as Error).message);
  }
  const answer = JSON.parse(text) as FetchAnswer;
  const body = NULL_BODY.has(answer.status) ? null : Buffer.from(answer.body, "base64");
  const response = new Response(body, { status: answer.status, statusText: answer.statusText, headers: answer.headers });
  Object.defineProperty(response, "url", { value: answer.url });
  return response;
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
