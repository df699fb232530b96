/**
 * Message types on the pipe between core and runner.
 *
 * The transactional runner ("udf") works in steps: each `start` or last `resolve` of a batch makes it run JavaScript until
 * nothing is left to run, and it answers with the frames that happened and one `yield`. The action runners ("action", "node")
 * send frames as they happen.
 */

export type RunnerKind = "udf" | "action" | "node";

/** Core → runner. `call` numbers are unique for the life of the runner. */
export type CoreHeader =
  | { t: "module"; def: string; path: string; node: boolean }
  | { t: "sourceMap"; def: string; path: string; node: boolean }
  | { t: "forget" }
  /** A call of this module will probably come: it can be evaluated meanwhile. */
  | ({ t: "prepare" } & StartOptions)
  /** `alone`: nobody else wants to run, so that operations may be asked for with `now`. */
  | ({ t: "start"; call: number; alone: boolean } & StartOptions)
  | { t: "resolve"; call: number; id: number; ok: boolean; data?: string; more: boolean; alone: boolean; now: number }
  | { t: "sync"; ok: boolean }
  /** The answer to `now`; `later` when it comes, if at all, as that of a `syscall`. */
  | { t: "now"; ok: boolean; data?: string; later?: boolean }
  | { t: "drop"; call: number }
  /** The client of an HTTP action has gone, or takes no more of its response. */
  | { t: "gone"; call: number; cut: boolean }
  /** Asks an action runner whether its event loop still turns; answered by `pong`. */
  | { t: "ping"; n: number };

export interface StartOptions {
  /** What to do with the module. `query`… call a function; the others evaluate and describe. */
  what: "query" | "mutation" | "action" | "http" | "analyze" | "schema" | "config" | "auth";
  def: string;
  path: string;
  fn: string;
  /** Frozen (queries, mutations) or starting (actions) time in milliseconds. */
  now: number;
  /** Whether the time of an action stands still between answers of the core (virtual clock). */
  frozen?: boolean;
  seed: number;
  importNow: number;
  importSeed: number;
  env: Record<string, string>;
  /** For http: method, url, headers. The body is read from the core's stream 0. */
  request?: { method: string; url: string; routePath: string; headers: [string, string][]; hasBody: boolean };
  requestId?: string;
  /** For config: names of the component definitions evaluated before, by path. */
  components?: Record<string, string>;
}

/** Runner → core. */
export type RunnerHeader =
  | { t: "ready" }
  | { t: "sync"; call: number; op: string }
  /** A stream that is not needed any more. */
  | { t: "cleanup"; call: number }
  | { t: "syscall"; call: number; id: number; op: string }
  /** The same, and JavaScript waits for the answer, which saves the end of the step. */
  | { t: "now"; call: number; id: number; op: string }
  | { t: "log"; call: number; level: string }
  | { t: "done"; call: number; ok: boolean }
  | { t: "head"; call: number }
  | { t: "chunk"; call: number }
  | { t: "yield"; call: number }
  | { t: "pong"; n: number };

/** Payload of a failed `done`. */
export interface WireError {
  /** `Uncaught Name: message`, or a bare text for failures of the platform. */
  message: string;
  /** Source-mapped stack lines, outermost last. */
  frames: string[];
  /** Convex JSON text of a ConvexError's data. */
  data?: string;
}
