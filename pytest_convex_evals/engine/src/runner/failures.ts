/** From what JavaScript threw to the error text of the platform: name, message, source-mapped frames, ConvexError data. */

import type { WireError } from "../shared/protocol.js";
import { BundleMap } from "./sourcemap.js";

const MAX_MESSAGE_BYTES = 64 * 1024;
export const MODULE_SCHEME = "convex:/";

/** An error of the platform itself: its text is shown without "Uncaught". */
export class PlatformError extends Error {}

export class StackMapper {
  private readonly texts = new Map<string, string>();
  private readonly maps = new Map<string, BundleMap | null>();

  /** `id` is the identifier under which the module was compiled. */
  add(id: string, text: string): void {
    this.texts.set(id, text);
    this.maps.delete(id);
  }

  clear(): void {
    this.texts.clear();
    this.maps.clear();
  }

  private mapOf(id: string): BundleMap | null {
    let map = this.maps.get(id);
    if (map === undefined) {
      const text = this.texts.get(id);
      map = text === undefined ? null : BundleMap.parse(text);
      this.maps.set(id, map);
    }
    return map;
  }

  /** Stack lines of user code, leading and trailing frames of the library dropped. */
  frames(stack: string): string[] {
    const lines: { text: string; library: boolean }[] = [];
    for (const line of stack.split("\n")) {
      const match = /^\s+at (?:(async )?(.*?) \()?(convex:\/[^)]*?):(\d+):(\d+)\)?$/.exec(line);
      if (match === null) continue;
      lines.push(this.frame(match));
    }
    while (lines[0]?.library === true) lines.shift();
    while (lines[lines.length - 1]?.library === true) lines.pop();
    return lines.map((line) => line.text);
  }

  private frame(match: RegExpExecArray): { text: string; library: boolean } {
    const id = match[3] as string;
    let file = id.slice(id.indexOf("|") + 1);
    let line = Number(match[4]);
    let column = Number(match[5]);
    const origin = this.mapOf(id)?.find(line - 1, column - 1) ?? null;
    if (origin !== null) {
      file = origin.source;
      line = origin.line + 1;
      column = origin.column;
    }
    const name = (match[2] ?? "").replace(/^Module\./, "");
    const asynchronous = match[1] ?? "";
    return {
      text: `    at ${asynchronous}${name === "" ? "<anonymous>" : name} (${file}:${line}:${column})`,
      library: file.includes("node_modules/convex/"),
    };
  }
}

function cut(text: string): string {
  return Buffer.byteLength(text) <= MAX_MESSAGE_BYTES ? text : Buffer.from(text).subarray(0, MAX_MESSAGE_BYTES).toString();
}

function isErrorLike(thrown: unknown): thrown is Error {
  return typeof thrown === "object" && thrown !== null && typeof (thrown as Error).message === "string" && typeof (thrown as Error).stack === "string";
}

export function describeThrown(thrown: unknown, mapper: StackMapper, uncaught = true): WireError {
  if (thrown instanceof PlatformError) return { message: thrown.message, frames: [] };
  const prefix = uncaught ? "Uncaught " : "";
  if (!isErrorLike(thrown)) return { message: cut(`${prefix}${safeString(thrown)}`), frames: [] };
  const name = safeString(thrown.name);
  const message = safeString(thrown.message);
  const text = name === "" ? message : message === "" ? name : `${name}: ${message}`;
  const described: WireError = { message: cut(`${prefix}${text}`), frames: mapper.frames(safeString(thrown.stack)) };
  const data = convexErrorData(thrown);
  if (data !== undefined) described.data = data;
  return described;
}

/** The library turns a ConvexError's data into JSON text before it leaves the handler. */
function convexErrorData(thrown: Error): string | undefined {
  if (!(Symbol.for("ConvexError") in thrown)) return undefined;
  const data = (thrown as { data?: unknown }).data;
  return typeof data === "string" ? data : JSON.stringify(data ?? null);
}

function safeString(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "[object]";
  }
}
