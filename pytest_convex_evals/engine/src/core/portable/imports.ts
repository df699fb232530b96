/**
 * `convex import`: an upload in parts, its parsing, the question whether to go on, the change.
 *
 * The states are those that the CLI waits for: waiting_for_confirmation, completed, failed.
 */

import { randomBytes } from "node:crypto";

import type { Engine } from "../engine.js";
import { JsFailure, UserError } from "../errors.js";
import { newId } from "../values/ids.js";
import { makeObject, type Value } from "../values/value.js";
import { applyImport, changesOf, type Change, type ImportMode } from "./apply.js";
import { parseImport, type ImportedData } from "./parse.js";

const MODES: readonly string[] = ["requireEmpty", "append", "replace", "replaceAll"] satisfies ImportMode[];
const IMPORTS_TABLE_NUMBER = 549;
const MAX_UPLOAD = 1024 * 1024 * 1024;
const KEPT_UPLOADS = 4;
const KEPT_IMPORTS = 100;

interface Import {
  readonly id: string;
  readonly createdAt: number;
  readonly mode: ImportMode;
  /** Until it is applied or given up. */
  data: ImportedData | null;
  state: Value;
}

export class Imports {
  private readonly uploads = new Map<string, Map<number, Buffer>>();
  private readonly imports = new Map<string, Import>();

  constructor(private readonly engine: Engine) {}

  clear(): void {
    this.uploads.clear();
    this.imports.clear();
  }

  startUpload(): string {
    const token = randomBytes(16).toString("hex");
    this.uploads.set(token, new Map());
    for (const old of [...this.uploads.keys()].slice(0, -KEPT_UPLOADS)) this.uploads.delete(old);
    return token;
  }

  addPart(token: string, number: number, bytes: Buffer): string {
    const parts = this.upload(token);
    if (!Number.isSafeInteger(number) || number < 1) throw new UserError("BadQueryArgs", "partNumber must be a positive number");
    parts.set(number, bytes);
    const total = [...parts.values()].reduce((sum, part) => sum + part.length, 0);
    if (total > MAX_UPLOAD) throw new UserError("ImportTooLarge", `Imports are limited to ${MAX_UPLOAD} bytes`);
    return `${token}:${number}`;
  }

  /** Reads what was uploaded. A file that cannot be read becomes a failed import, not a failed request. */
  async finishUpload(token: string, request: Record<string, unknown>): Promise<string> {
    const parts = [...this.upload(token)].sort(([a], [b]) => a - b).map(([, bytes]) => bytes);
    this.uploads.delete(token);
    const { mode, format, tableName, componentPath } = request;
    if (typeof mode !== "string" || !MODES.includes(mode)) throw new UserError("BadJsonBody", `Unknown import mode ${String(mode)}`);
    const entry: Import = { id: newId(IMPORTS_TABLE_NUMBER, Date.now()), createdAt: this.engine.clock.nowMs(), mode: mode as ImportMode, data: null, state: null };
    this.imports.set(entry.id, entry);
    for (const old of [...this.imports.keys()].slice(0, -KEPT_IMPORTS)) this.imports.delete(old);
    await this.attempt(entry, () => {
      const namespace = typeof componentPath === "string" ? componentPath : "";
      const data = parseImport(Buffer.concat(parts), String(format), namespace, typeof tableName === "string" ? tableName : null);
      const changes = changesOf(this.engine, data, entry.mode);
      entry.data = data;
      return makeObject([
        ["state", "waiting_for_confirmation"],
        ["message_to_confirm", summary(changes)],
        ["require_manual_confirmation", changes.some((change) => change.delete > 0)],
      ]);
    });
    return entry.id;
  }

  async perform(id: string): Promise<void> {
    const entry = this.imports.get(id);
    if (entry === undefined) throw new UserError("ImportNotFound", `There is no import ${id}`);
    const { data } = entry;
    if (data === null) throw new UserError("ImportNotWaiting", `The import ${id} is not waiting for a confirmation`);
    entry.data = null;
    await this.attempt(entry, async () => {
      const count = await applyImport(this.engine, data, entry.mode);
      return makeObject([["state", "completed"], ["num_rows_written", BigInt(count)], ["timestamp", this.engine.db.snapshot.ts]]);
    });
  }

  cancel(id: string): void {
    const entry = this.imports.get(id);
    if (entry === undefined) throw new UserError("ImportNotFound", `There is no import ${id}`);
    if (entry.data === null) return;
    entry.data = null;
    entry.state = failed("Import canceled");
    this.engine.stateChanged();
  }

  private async attempt(entry: Import, run: () => Value | Promise<Value>): Promise<void> {
    try {
      entry.state = await run();
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      entry.state = failed(error.message);
    }
    this.engine.stateChanged();
  }

  private upload(token: string): Map<number, Buffer> {
    const parts = this.uploads.get(token);
    if (parts === undefined) throw new UserError("UploadNotFound", "The upload token is not valid");
    return parts;
  }

  /** `_system/cli/queryImport`. */
  describe(id: string): Value {
    const entry = this.imports.get(id);
    if (entry === undefined) throw new JsFailure(`Uncaught Error: There is no import ${id}`);
    return rowOf(entry);
  }

  list(): Value[] {
    return [...this.imports.values()].reverse().map(rowOf);
  }
}

function failed(message: string): Value {
  return makeObject([["state", "failed"], ["error_message", message]]);
}

function rowOf(entry: Import): Value {
  return makeObject([["_id", entry.id], ["_creationTime", entry.createdAt], ["mode", entry.mode], ["state", entry.state]]);
}

function summary(changes: readonly Change[]): string {
  const header = ["table", "create", "delete"];
  const rows = changes
    .filter((change) => change.create > 0 || change.delete > 0)
    .map((change) => [
      change.namespace === "" ? change.table : `${change.namespace}:${change.table}`,
      String(change.create),
      change.delete === 0 ? "" : `${change.delete} of ${change.present}`,
    ]);
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] as string).length)));
  const line = (cells: readonly string[]): string => cells.map((cell, column) => `${cell.padEnd(widths[column] as number)} | `).join("").trimEnd();
  return ["Import change summary:", line(header), "-".repeat(line(header).length), ...rows.map(line)].join("\n");
}
