/** Log lines of one call with their caps, and the stream of all function logs. */

const MAX_LINES = 256;
const MAX_LINE_BYTES = 32_768;
const KEPT_ENTRIES = 5000;
const KEPT_CHARACTERS = 32 * 1024 * 1024;

export class CallLog {
  readonly lines: string[] = [];
  private overflown = false;

  add(level: string, text: string): void {
    if (this.overflown) return;
    if (this.lines.length === MAX_LINES - 1) {
      this.overflown = true;
      this.lines.push(`[ERROR] Log overflow (maximum ${MAX_LINES}). Remaining log lines omitted.`);
      return;
    }
    this.lines.push(cut(`[${level}] ${text}`));
  }

  /** Lines of a nested call, already formed. */
  append(lines: readonly string[]): void {
    for (const line of lines) if (this.lines.length < MAX_LINES) this.lines.push(line);
  }

  /** Warnings of the platform come last and are not counted. */
  warn(text: string): void {
    this.lines.push(cut(`[WARN] ${text}`));
  }
}

function cut(line: string): string {
  const bytes = Buffer.byteLength(line);
  if (bytes <= MAX_LINE_BYTES) return line;
  const tail = " (truncated due to length)";
  return Buffer.from(line).subarray(0, MAX_LINE_BYTES - tail.length).toString() + tail;
}

/** One finished function execution. */
export interface LogEntry {
  /** Milliseconds since the epoch. */
  timestamp: number;
  udfType: string;
  identifier: string;
  componentPath: string;
  caller: string;
  requestId: string;
  executionTime: number;
  success: boolean;
  error: string | null;
  logLines: string[];
}

function sizeOf(entry: LogEntry): number {
  return entry.logLines.reduce((sum, line) => sum + line.length, entry.error?.length ?? 0);
}

export class LogStream {
  private entries: { cursor: number; entry: LogEntry }[] = [];
  private characters = 0;
  private cursor = 0;
  private readonly waiters = new Set<() => void>();

  push(entry: LogEntry): void {
    this.cursor = Math.max(this.cursor + 1, Math.floor(entry.timestamp));
    this.entries.push({ cursor: this.cursor, entry });
    this.characters += sizeOf(entry);
    if (this.entries.length > 2 * KEPT_ENTRIES || this.characters > 2 * KEPT_CHARACTERS) this.forgetOldest();
    for (const wake of [...this.waiters]) wake();
  }

  clear(): void {
    this.entries = [];
    this.characters = 0;
  }

  private forgetOldest(): void {
    let from = Math.max(0, this.entries.length - KEPT_ENTRIES);
    const sizes = this.entries.map(({ entry }) => sizeOf(entry));
    let kept = sizes.slice(from).reduce((sum, size) => sum + size, 0);
    for (; kept > KEPT_CHARACTERS && from < this.entries.length - 1; from++) kept -= sizes[from] as number;
    this.entries = this.entries.slice(from);
    this.characters = kept;
  }

  all(): LogEntry[] {
    return this.entries.map(({ entry }) => entry);
  }

  since(cursor: number): { entries: LogEntry[]; newCursor: number } {
    return { entries: this.entries.filter((item) => item.cursor > cursor).map((item) => item.entry), newCursor: Math.max(cursor, this.cursor) };
  }

  /** Resolves when an entry arrives or the time is over. Returns a way to give up. */
  wait(ms: number, done: () => void): () => void {
    const finish = (): void => {
      clearTimeout(timer);
      this.waiters.delete(finish);
      done();
    };
    const timer = setTimeout(finish, ms);
    this.waiters.add(finish);
    return finish;
  }
}
