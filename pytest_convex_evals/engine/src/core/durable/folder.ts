/** A data folder: opened once, by one process, with the state that it held; then the place where changes become durable. */

import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import type { Database, Durability, Write } from "../db/database.js";
import { docsOf } from "../db/tables.js";
import { FILES_TABLE, type FileContent } from "../storage/content.js";
import type { Change, Entry } from "./entries.js";
import { DataError, errorCode, NotWritten } from "./errors.js";
import { readFrames } from "./frames.js";
import { Journal, writeLog } from "./journal.js";
import { CONTENTS, FORMAT, FORMAT_FILE, isUnfinished, LOCK_FILE, logName, logNumber, UNFINISHED } from "./layout.js";
import { takeLock } from "./lock.js";
import { flushFolder, LogFile } from "./logfile.js";
import { Replay, type Recovered } from "./replay.js";
import { snapshotEntries } from "./snapshot.js";

const COMPACT_BYTES = 8 * 1024 * 1024;
const RESTORE = "put the folder back from a copy, or choose an empty one";

export class DataFolder implements Durability {
  /** What the folder held when it was opened; null when it is new. */
  recovered: Recovered | null = null;
  private journal: Journal | null = null;
  private logPath: string;
  private logBytes = 0;
  private snapshotBytes = 0;

  private constructor(
    readonly path: string,
    private readonly compactBytes: number,
    private readonly report: (error: unknown) => void,
  ) {
    this.logPath = join(path, logName(1));
  }

  /** Locks the folder and reads it. Throws a DataError for what cannot be used. */
  static open(path: string, report: (error: unknown) => void, compactBytes = COMPACT_BYTES): DataFolder {
    const folder = new DataFolder(resolve(path), compactBytes, report);
    try {
      folder.read();
    } catch (error) {
      if (error instanceof DataError || (error as NodeJS.ErrnoException).code === undefined) throw error;
      throw new DataError(`The data folder ${folder.path} cannot be used: ${(error as Error).message}`, "check the path, its permissions and its disk");
    }
    return folder;
  }

  get contents(): string {
    return join(this.path, CONTENTS);
  }

  private read(): void {
    mkdirSync(this.path, { recursive: true });
    this.checkFormat(readdirSync(this.path));
    if (!takeLock(join(this.path, LOCK_FILE))) {
      throw new DataError(`The data folder ${this.path} is in use by another process.`, "end that one first, or choose another folder");
    }
    const names = readdirSync(this.path);
    const logs = names.filter((name) => logNumber(name) !== null).sort((a, b) => (logNumber(a) as number) - (logNumber(b) as number));
    const newest = logs.pop();
    if (newest !== undefined) {
      this.logPath = join(this.path, newest);
      this.recovered = this.replay();
    } else if (names.includes(FORMAT_FILE) && !names.some(isUnfinished)) {
      throw new DataError(`The data folder ${this.path} is damaged: its log is missing.`, RESTORE);
    }
    for (const name of [...logs, ...names.filter(isUnfinished)]) unlinkSync(join(this.path, name));
    mkdirSync(this.contents, { recursive: true });
    if (this.recovered !== null) this.sweep(this.recovered.tables);
  }

  private checkFormat(names: readonly string[]): void {
    if (!names.includes(FORMAT_FILE)) {
      if (names.every((name) => isUnfinished(name) || name === LOCK_FILE || name === CONTENTS)) return;
      throw new DataError(`${this.path} is not empty and no data folder of this engine: it has no file "${FORMAT_FILE}".`, "choose an empty folder or a new name");
    }
    const text = readFileSync(join(this.path, FORMAT_FILE), "utf8").trim();
    if (text !== String(FORMAT)) {
      const newer = Number(text) > FORMAT;
      throw new DataError(
        `The data folder ${this.path} has format ${JSON.stringify(text)}; this version reads format ${FORMAT}.`,
        newer ? "use the newer version of pytest-convex-evals that wrote it, or choose another folder" : RESTORE,
      );
    }
  }

  private replay(): Recovered {
    const replay = new Replay();
    const file = openSync(this.logPath, "r");
    try {
      const stop = readFrames(file, (body, at) => {
        for (const line of body.split("\n")) replay.apply(JSON.parse(line) as Entry);
        if (replay.whole && this.snapshotBytes === 0) this.snapshotBytes = at;
      });
      if (stop.state === "damaged" || !replay.whole) {
        throw new DataError(`The data folder is damaged: ${this.logPath} cannot be read at byte ${stop.end}, and it is not just an unfinished write at the end.`, RESTORE);
      }
      const size = statSync(this.logPath).size;
      if (stop.state === "torn") this.report(`${this.logPath}: the last ${size - stop.end} bytes are an unfinished write and were cut off.`);
      this.logBytes = stop.end;
    } finally {
      closeSync(file);
    }
    return replay.finish(this.contents);
  }

  /** From now on the database's changes go through this folder. */
  async attach(db: Database): Promise<void> {
    const state = (): Iterable<string> => snapshotEntries(db.snapshot, db.created, [...db.facts]);
    const file = this.recovered === null ? await this.create(state()) : await LogFile.resume(this.logPath, this.logBytes);
    this.journal = new Journal(file, this.recovered === null ? file.size : this.snapshotBytes, {
      compactBytes: this.compactBytes,
      snapshot: state,
      lost: () => db.rollBack(),
      report: this.report,
    });
    db.attach(this);
    db.onCommit((commit) => {
      for (const { table, before, after } of commit.writes) {
        if (table === FILES_TABLE && before !== null && after === null) this.drop(before.hidden as FileContent);
      }
    });
  }

  /** The first log of a new folder: a name for it is the last thing it gets. */
  private async create(state: Iterable<string>): Promise<LogFile> {
    const file = await writeLog(this.logPath + UNFINISHED, state);
    const format = join(this.path, FORMAT_FILE);
    writeFileSync(format + UNFINISHED, `${FORMAT}\n`, { flush: true });
    renameSync(format + UNFINISHED, format);
    await flushFolder(this.path);
    await file.rename(this.logPath);
    return file;
  }

  append(change: Change, seen: () => void): Promise<void> {
    return (this.journal as Journal).append(change, seen);
  }

  drained(): Promise<void> {
    return (this.journal as Journal).drained();
  }

  // ── contents of stored files ──────────────────────────────────────────────────────────────────────────────────────

  async prepare(writes: readonly Write[]): Promise<void> {
    const contents = writes.flatMap(({ table, after }) => (table === FILES_TABLE && after !== null ? [after.hidden as FileContent] : [])).filter((content) => !content.isSaved);
    if (contents.length === 0) return;
    try {
      for (const content of contents) await content.save(this.contents);
      await flushFolder(this.contents);
    } catch (error) {
      const reason = new NotWritten(this.contents, error);
      this.report(reason.message);
      throw reason;
    }
  }

  discard(writes: readonly Write[]): void {
    for (const { table, before, after } of writes) if (table === FILES_TABLE && before === null && after !== null) this.drop(after.hidden as FileContent);
  }

  private drop(content: FileContent): void {
    void content.remove(this.contents).catch((error: unknown) => this.report(`${join(this.contents, content.uuid)} could not be removed (${errorCode(error)}).`));
  }

  /** Removes contents that no document refers to: of uploads that never committed, and of data that was dropped. */
  sweep(tables: Database["snapshot"]["tables"]): void {
    if (!existsSync(this.contents)) return;
    const live = new Set<string>();
    for (const table of tables.values()) if (table.name === FILES_TABLE) for (const doc of docsOf(table)) live.add((doc.hidden as FileContent).uuid);
    for (const name of readdirSync(this.contents)) if (!live.has(name)) unlinkSync(join(this.contents, name));
  }
}
