/** The long poll of function logs. */

import type { ServerResponse } from "node:http";

import type { Engine } from "../engine.js";
import type { LogEntry } from "../functions/logs.js";
import { sendJson } from "./exchange.js";

const POLL_MS = 60_000;

export function streamLogs(engine: Engine, response: ServerResponse, cursor: number): void {
  const answer = (): void => {
    const { entries, newCursor } = engine.logs.since(cursor);
    sendJson(response, 200, { entries: entries.map(wire), newCursor: Math.max(newCursor, cursor) });
  };
  if (engine.logs.since(cursor).entries.length > 0) {
    answer();
    return;
  }
  const giveUp = engine.logs.wait(POLL_MS, answer);
  response.on("close", () => {
    if (!response.writableEnded) giveUp();
  });
}

function wire(entry: LogEntry): unknown {
  return {
    kind: "Completion",
    timestamp: entry.timestamp / 1000,
    udfType: entry.udfType,
    identifier: entry.identifier,
    componentPath: entry.componentPath === "" ? null : entry.componentPath,
    logLines: entry.logLines.map((line) => {
      const match = /^\[(\w+)\] ([^]*)$/.exec(line);
      return { messages: [match?.[2] ?? line], level: match?.[1] ?? "LOG", timestamp: entry.timestamp, isTruncated: false };
    }),
    cachedResult: false,
    requestId: entry.requestId,
    executionTime: entry.executionTime,
    success: entry.success ? null : undefined,
    error: entry.error,
  };
}
