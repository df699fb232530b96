/** JSON values, one per line, over a stream that cuts where it likes. */

import type { Duplex } from "node:stream";

export function onLines<T>(stream: Duplex, use: (value: T) => void): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() as string;
    for (const part of parts) use(JSON.parse(part) as T);
  });
}

export function writeLine(stream: Duplex, value: unknown): boolean {
  return stream.write(`${JSON.stringify(value)}\n`);
}

/** A process that a grader wants. */
export interface Wanted {
  file: string;
  args: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

/** What is told about it: output in base64, then how it ended. */
export type Told = { out: string } | { err: string } | { code: number; signal: string | null };

/** What is told to it: input in base64; null for its end. */
export type Input = { in: string | null };
