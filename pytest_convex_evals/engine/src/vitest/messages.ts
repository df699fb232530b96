/** What passes between the server and a booted worker beside vitest's own messages. */

/** To the worker, in this order: packages to load while there is time, then the variables of the grader. */
export type ToWorker = { evals: "preload"; files: readonly string[] } | { evals: "begin"; env: Readonly<Record<string, string>> };

/** From the worker: it can take messages; the grader wanted to end its process. */
export type FromWorker = { evals: "ready" } | { evals: "exit"; code: string };

export function isOurs(message: unknown): message is FromWorker {
  return typeof message === "object" && message !== null && "evals" in message;
}
