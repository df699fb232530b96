/** `fetch` of actions, made by the core and only to origins that the engine or the grader allows. */

import { connect } from "node:net";
import type { Agent, buildConnector } from "undici";

import type { Engine } from "../engine.js";
import { UserError } from "../errors.js";
import type { CallStreams } from "./streams.js";

const MAX_REDIRECTS = 20;

/** A loopback interface that a grader listens on. */
export interface SharedNetwork {
  /** The socket file of its gate; null when it is the interface of this process. */
  gate: string | null;
  /** Ports on it that are not for the submission. */
  hidden: ReadonlySet<number>;
}

/** The head of a response; its body is read from `streams` under the number that the runner chose. */
export async function proxiedFetch(engine: Engine, streams: CallStreams, args: Record<string, unknown>): Promise<unknown> {
  const signal = streams.reserve(args["stream"]);
  try {
    const { url, response } = await follow(engine, args, signal);
    const kept = [...response.headers].filter(([name]) => name !== "content-encoding" && name !== "content-length");
    if (response.body === null) streams.close(args["stream"]);
    else streams.attach(Number(args["stream"]), piecesOf(response.body.values()));
    return { url, status: response.status, statusText: response.statusText, headers: kept, hasBody: response.body !== null };
  } catch (error) {
    streams.close(args["stream"]);
    throw error;
  }
}

async function follow(engine: Engine, args: Record<string, unknown>, signal: AbortSignal): Promise<{ url: string; response: Response }> {
  let url = String(args["url"]);
  let method = String(args["method"]);
  let body = typeof args["body"] === "string" ? Buffer.from(args["body"], "base64") : null;
  const headers = (Array.isArray(args["headers"]) ? args["headers"] : []) as [string, string][];
  for (let redirects = 0; ; redirects++) {
    const ask = wayTo(engine, url);
    if (ask === null) throw new UserError("FetchFailed", `fetch failed: ${originOf(url)} cannot be reached from here`);
    let response: Response;
    try {
      response = await ask(url, { method, headers, redirect: "manual", signal, ...(body === null ? {} : { body }) });
    } catch (error) {
      throw failed(error);
    }
    const location = response.headers.get("location");
    if (location === null || ![301, 302, 303, 307, 308].includes(response.status) || args["redirect"] === "manual") return { url, response };
    await response.body?.cancel();
    if (args["redirect"] === "error" || redirects >= MAX_REDIRECTS) throw new UserError("FetchFailed", "fetch failed: unexpected redirect");
    url = new URL(location, url).href;
    if (response.status === 303 || (response.status !== 307 && response.status !== 308 && method === "POST")) {
      method = "GET";
      body = null;
    }
  }
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** How an address is asked: through the gate, unless it is that of the deployment itself. Null when it may not be asked at all. */
export function wayTo(engine: Engine, url: string): Fetch | null {
  if (!mayReach(engine, url)) return null;
  const gate = engine.network?.gate ?? null;
  return askAlone(gate === null || isGranted(engine, new URL(url)) ? {} : { connect: throughGate(gate) });
}

/** Asks over a connection of its own: one that was used before may be closed by its server just when the next request is on its way. */
function askAlone(options: Agent.Options): Fetch {
  return async (target, init) => {
    const undici = await import("undici");
    const agent = new undici.Agent(options);
    try {
      return (await undici.fetch(target, { ...(init as object), dispatcher: agent })) as unknown as Response;
    } finally {
      // What is under way goes on to its end.
      void agent.close();
    }
  };
}

function throughGate(gate: string): buildConnector.connector {
  return ({ port }, callback) => {
    const socket = connect({ path: gate });
    socket.once("error", (error) => callback(error, null));
    socket.once("connect", () => {
      socket.write(`${port}\n`);
      callback(null, socket);
    });
  };
}

/** Takes a body that has a reader already: one without is emptied as soon as its response is collected as garbage. */
async function* piecesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of body) yield piece;
  } catch (error) {
    throw failed(error);
  }
}

function failed(error: unknown): UserError {
  return new UserError("FetchFailed", `fetch failed: ${String((error as Error & { cause?: unknown }).cause ?? error)}`);
}

function originOf(text: string): string {
  return URL.canParse(text) ? new URL(text).origin : text;
}

/** The deployment itself and what the grader allows. */
function mayReach(engine: Engine, text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  if (isGranted(engine, url)) return true;
  return engine.network !== null && isLoopback(url) && !engine.network.hidden.has(portOf(url));
}

function isGranted(engine: Engine, url: URL): boolean {
  return isOwn(engine, url) || engine.allowedOrigins.has(url.origin);
}

function isOwn(engine: Engine, url: URL): boolean {
  return [engine.cloudUrl, engine.siteUrl].flatMap(aliases).includes(url.origin);
}

function portOf(url: URL): number {
  return url.port !== "" ? Number(url.port) : url.protocol === "https:" ? 443 : 80;
}

export function isLoopback(url: URL): boolean {
  return ["127.0.0.1", "localhost", "[::1]"].includes(url.hostname);
}

/** The names under which a loopback address can be meant. */
export function aliases(text: string): string[] {
  const url = new URL(text);
  return ["127.0.0.1", "localhost", "[::1]"].map((host) => `${url.protocol}//${host}:${url.port}`);
}
