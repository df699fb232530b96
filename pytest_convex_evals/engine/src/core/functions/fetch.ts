/** `fetch` of actions, made by the core and only to origins that the engine or the grader allows. */

import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";

const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
const MAX_REDIRECTS = 20;

export async function proxiedFetch(engine: Engine, args: Record<string, unknown>): Promise<unknown> {
  let url = String(args["url"]);
  let method = String(args["method"]);
  let body = typeof args["body"] === "string" ? Buffer.from(args["body"], "base64") : null;
  const headers = (Array.isArray(args["headers"]) ? args["headers"] : []) as [string, string][];
  for (let redirects = 0; ; redirects++) {
    if (!isAllowed(engine, url)) throw new UserError("FetchFailed", `fetch failed: ${new URL(url).origin} cannot be reached from here`);
    let response: Response;
    try {
      response = await fetch(url, { method, headers, redirect: "manual", ...(body === null ? {} : { body }) });
    } catch (error) {
      throw new UserError("FetchFailed", `fetch failed: ${String((error as Error & { cause?: unknown }).cause ?? error)}`);
    }
    const location = response.headers.get("location");
    if (location !== null && [301, 302, 303, 307, 308].includes(response.status) && args["redirect"] !== "manual") {
      if (args["redirect"] === "error" || redirects >= MAX_REDIRECTS) throw new UserError("FetchFailed", "fetch failed: unexpected redirect");
      url = new URL(location, url).href;
      if (response.status === 303 || (response.status !== 307 && response.status !== 308 && method === "POST")) {
        method = "GET";
        body = null;
      }
      continue;
    }
    const bytes = Buffer.from(await response.arrayBuffer());
    if (bytes.length > MAX_RESPONSE_BYTES) throw new UserError("FetchFailed", "fetch failed: the response is too large");
    const kept = [...response.headers].filter(([name]) => name !== "content-encoding" && name !== "content-length");
    return { url, status: response.status, statusText: response.statusText, headers: kept, body: bytes.toString("base64") };
  }
}

function isAllowed(engine: Engine, text: string): boolean {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return false;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  const own = [engine.cloudUrl, engine.siteUrl].flatMap(aliases);
  return own.includes(url.origin) || engine.allowedOrigins.has(url.origin);
}

export function isLoopback(url: URL): boolean {
  return ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname);
}

/** The names under which a loopback address can be meant. */
export function aliases(text: string): string[] {
  const url = new URL(text);
  return ["127.0.0.1", "localhost", "[::1]"].map((host) => `${url.protocol}//${host}:${url.port}`);
}
