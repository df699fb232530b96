/**
 * The pipe to the grader: a request `{"id", "op", "params"}` per line, an answer `{"id", "ok"}` or
 * `{"id", "error": {"code", "message"}}` per line, first `{"ready": …}`.
 *
 * Submitted code shares this process. It gets neither of the two streams in its window, and ids are unguessable, so that
 * a line of its own making answers nothing; what it prints goes elsewhere.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";

const { parse, stringify } = JSON;
const put = writeSync;

/** Why a request cannot be done, in words for the grader. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export type Operation = (params: Record<string, unknown>) => unknown;

export function answer(line: unknown): void {
  const bytes = Buffer.from(`${stringify(line)}\n`);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += put(1, bytes, sent);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") process.exit(3);
    }
  }
}

/** Serves one request after the other until the input ends. */
export async function serve(operations: ReadonlyMap<string, Operation>): Promise<void> {
  const input = process.stdin;
  const hidden = { configurable: false, value: undefined };
  for (const name of ["stdin", "stdout", "stderr"]) Object.defineProperty(process, name, hidden);
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    const { id, op, params } = parse(line) as { id: string; op: string; params: Record<string, unknown> };
    try {
      const operation = operations.get(op);
      if (operation === undefined) throw new Refusal("unknown_op", `there is no ${op}`);
      answer({ id, ok: (await operation(params)) ?? null });
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal("threw", words(error));
      answer({ id, error: { code: refusal.code, message: refusal.message } });
    }
  }
}

const MOST = 2_000;

/** A thrown value in words, whatever it is. */
export function words(error: unknown): string {
  let said: string;
  try {
    if (typeof error === "object" && error !== null && "message" in error) {
      const { name, message } = error as { name?: unknown; message: unknown };
      said = `${typeof name === "string" ? name : "Error"}: ${String(message)}`;
    } else {
      said = String(error);
    }
  } catch {
    said = "something that cannot be put in words";
  }
  return said.length > MOST ? `${said.slice(0, MOST)}…` : said;
}
