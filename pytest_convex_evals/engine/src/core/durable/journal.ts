/**
 * The log of a running engine: group commit and compaction.
 *
 * Entries that arrive while a flush is under way share the next one. A log is a snapshot followed by what came later; when the
 * later part has outgrown the snapshot, a new log is written beside it, from the state at one moment and the frames that were
 * flushed since, and takes its place by a rename. Until then the old one holds everything, afterwards the new one does.
 */

import { errorCode, NotWritten } from "./errors.js";
import { entryText, type Change } from "./entries.js";
import { frameOf } from "./frames.js";
import { nextLog, UNFINISHED } from "./layout.js";
import { LogFile } from "./logfile.js";

interface Waiting {
  entry: string;
  seen: () => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** A new log that is being written. */
interface Successor {
  /** Frames flushed to the old log since the snapshot was taken. */
  frames: Buffer[];
  file: LogFile | null;
}

export interface JournalOptions {
  /** The log is not compacted before its later part has this size. */
  compactBytes: number;
  /** Entries of the state at this moment. */
  snapshot: () => Iterable<string>;
  /** Called when entries were refused, before those who wait for them hear of it. */
  lost: () => void;
  report: (error: unknown) => void;
}

const GROUP_CHARACTERS = 16 * 1024 * 1024;

export class Journal {
  private queue: Waiting[] = [];
  private flushing: Promise<void> | null = null;
  private successor: Successor | null = null;
  /** Entries are refused; said once. */
  private refusing = false;
  private compactAbove: number;

  constructor(
    private file: LogFile,
    /** How much of the file is its snapshot. */
    private base: number,
    private readonly options: JournalOptions,
  ) {
    this.compactAbove = this.threshold();
  }

  append(change: Change, seen: () => void): Promise<void> {
    const entry = entryText(change);
    return new Promise<void>((resolve, reject) => {
      this.queue.push({ entry, seen, resolve, reject });
      this.flushing ??= this.flushAll();
    });
  }

  async drained(): Promise<void> {
    while (this.flushing !== null) await this.flushing;
  }

  private async flushAll(): Promise<void> {
    try {
      // Whatever else arrives in this turn of the event loop joins the first group.
      await Promise.resolve();
      while (this.queue.length > 0 || this.successor?.file) {
        if (this.successor?.file) await this.succeed(this.successor, this.successor.file);
        if (this.queue.length > 0) await this.flushGroup(this.nextGroup());
        this.compactWhenDue();
      }
    } finally {
      this.flushing = null;
    }
  }

  private nextGroup(): Waiting[] {
    let characters = 0;
    let count = 0;
    while (count < this.queue.length && (count === 0 || characters < GROUP_CHARACTERS)) characters += (this.queue[count++] as Waiting).entry.length;
    return this.queue.splice(0, count);
  }

  private async flushGroup(group: Waiting[]): Promise<void> {
    const frame = frameOf(group.map(({ entry }) => entry).join("\n"));
    try {
      await this.file.append(frame);
    } catch (error) {
      this.refuse(group, error);
      return;
    }
    if (this.refusing) this.options.report(`${this.file.path} can be written again.`);
    this.refusing = false;
    this.successor?.frames.push(frame);
    for (const { seen, resolve } of group) {
      try {
        seen();
      } catch (error) {
        this.options.report(error);
      }
      resolve();
    }
  }

  /** Later entries build on the refused ones, so they are refused too. */
  private refuse(group: Waiting[], error: unknown): void {
    const refused = [...group, ...this.queue.splice(0)];
    const reason = new NotWritten(this.file.path, error);
    this.options.lost();
    if (!this.refusing) this.options.report(reason.message);
    this.refusing = true;
    for (const { reject } of refused) reject(reason);
  }

  // ── compaction ────────────────────────────────────────────────────────────────────────────────────────────────────

  private threshold(): number {
    return this.base + Math.max(this.base, this.options.compactBytes);
  }

  /** Between two flushes, when what is seen is exactly what is on disk. */
  private compactWhenDue(): void {
    if (this.successor !== null || this.file.size <= this.compactAbove) return;
    const successor: Successor = { frames: [], file: null };
    this.successor = successor;
    const path = nextLog(this.file.path);
    void writeLog(path + UNFINISHED, this.options.snapshot()).then(
      (file) => {
        successor.file = file;
        this.flushing ??= this.flushAll();
      },
      (error: unknown) => this.abandon(path, error),
    );
  }

  /** Puts the new log in the place of the old one. */
  private async succeed(successor: Successor, file: LogFile): Promise<void> {
    const base = file.size;
    const path = nextLog(this.file.path);
    try {
      for (const frame of successor.frames) await file.add(frame);
      await file.flush();
      await file.rename(path);
    } catch (error) {
      this.abandon(path, error);
      await file.remove().catch((reason: unknown) => this.options.report(reason));
      return;
    }
    const old = this.file;
    this.file = file;
    this.base = base;
    this.compactAbove = this.threshold();
    this.successor = null;
    await old.remove().catch((reason: unknown) => this.options.report(reason));
  }

  /** The old log goes on; the next attempt is made when it has grown again. */
  private abandon(path: string, error: unknown): void {
    this.options.report(`${path} could not be written (${errorCode(error)}), so the log is not compacted yet.`);
    this.successor = null;
    this.compactAbove = this.file.size + Math.max(this.base, this.options.compactBytes);
  }
}

/** A log that holds a snapshot, flushed, under a name that nobody reads. */
export async function writeLog(path: string, entries: Iterable<string>): Promise<LogFile> {
  const file = await LogFile.create(path);
  try {
    for (const entry of entries) await file.add(frameOf(entry));
    await file.flush();
  } catch (error) {
    await file.remove();
    throw error;
  }
  return file;
}
