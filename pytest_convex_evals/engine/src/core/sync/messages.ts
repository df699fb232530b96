/** Shapes of the sync protocol's messages from clients, checked, and small encodings. */

import { UserError } from "../errors.js";
import { parseFunctionPath, type FunctionPath } from "../functions/paths.js";

/** The function a message names, its arguments and its component. */
interface Named {
  path: FunctionPath;
  args: unknown[];
  componentPath: string | undefined;
}

export type ClientMessage =
  | { type: "Connect"; sessionId: string; maxObservedTimestamp: bigint | null; clientTs: number | null }
  | { type: "Authenticate"; baseVersion: number; tokenType: "Admin" | "User" | "None"; value: string; actingAs: unknown }
  | { type: "ModifyQuerySet"; baseVersion: number; newVersion: number; modifications: QueryChange[] }
  | ({ type: "Mutation" | "Action"; requestId: number } & Named)
  | { type: "Event" };

export type QueryChange =
  | ({ type: "Add"; queryId: number; journal: string | null } & Named)
  | { type: "Remove"; queryId: number };

/** Thrown for frames that are not messages of the protocol. */
export class BadMessage extends Error {}

function number(raw: Record<string, unknown>, name: string): number {
  const value = raw[name];
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0) throw new BadMessage(`invalid ${name}`);
  return value;
}

function string(raw: Record<string, unknown>, name: string): string {
  const value = raw[name];
  if (typeof value !== "string") throw new BadMessage(`invalid ${name}`);
  return value;
}

function named(raw: Record<string, unknown>): Named {
  const args = raw["args"] ?? [{}];
  if (!Array.isArray(args)) throw new BadMessage("invalid args");
  try {
    return { path: parseFunctionPath(string(raw, "udfPath")), args, componentPath: optional(raw["componentPath"]) };
  } catch (error) {
    if (error instanceof UserError) throw new BadMessage(error.message);
    throw error;
  }
}

const optional = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

export function parseMessage(text: string): ClientMessage {
  let raw: Record<string, unknown>;
  try {
    raw = JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new BadMessage((error as Error).message);
  }
  if (typeof raw !== "object" || raw === null) throw new BadMessage("not an object");
  switch (raw["type"]) {
    case "Connect": {
      const observed = optional(raw["maxObservedTimestamp"]);
      return {
        type: "Connect",
        sessionId: string(raw, "sessionId"),
        maxObservedTimestamp: observed === undefined ? null : decodeTs(observed),
        clientTs: typeof raw["clientTs"] === "number" ? raw["clientTs"] : null,
      };
    }
    case "Authenticate": {
      const tokenType = raw["tokenType"];
      if (tokenType !== "Admin" && tokenType !== "User" && tokenType !== "None") throw new BadMessage("invalid tokenType");
      return {
        type: "Authenticate",
        baseVersion: number(raw, "baseVersion"),
        tokenType,
        value: optional(raw["value"]) ?? "",
        actingAs: raw["impersonating"] ?? raw["acting_as"] ?? null,
      };
    }
    case "ModifyQuerySet":
      if (!Array.isArray(raw["modifications"])) throw new BadMessage("invalid modifications");
      return {
        type: "ModifyQuerySet",
        baseVersion: number(raw, "baseVersion"),
        newVersion: number(raw, "newVersion"),
        modifications: (raw["modifications"] as Record<string, unknown>[]).map(parseChange),
      };
    case "Mutation":
    case "Action":
      return { type: raw["type"], requestId: number(raw, "requestId"), ...named(raw) };
    case "Event":
      return { type: "Event" };
    default:
      throw new BadMessage(`unknown type ${JSON.stringify(raw["type"])}`);
  }
}

function parseChange(raw: Record<string, unknown>): QueryChange {
  if (typeof raw !== "object" || raw === null) throw new BadMessage("invalid modification");
  if (raw["type"] === "Remove") return { type: "Remove", queryId: number(raw, "queryId") };
  if (raw["type"] !== "Add") throw new BadMessage("invalid modification");
  return { type: "Add", queryId: number(raw, "queryId"), journal: optional(raw["journal"]) ?? null, ...named(raw) };
}

export function encodeTs(ts: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(ts);
  return bytes.toString("base64");
}

function decodeTs(text: string): bigint {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== 8) throw new BadMessage("invalid timestamp");
  return bytes.readBigUInt64LE(0);
}
