/**
 * Temporary files of the CLI, in memory: it writes each of them whole, and moves it to its place or drops it.
 *
 * On a disk each of them costs more than what is written: some file systems look for a place long when much was deleted a moment ago.
 */
import { randomUUID } from "node:crypto";
import { dirname, resolve } from "node:path";

interface Sheet {
  path: string;
  contents: string | Uint8Array;
}

export class Sheets {
  /** Folders that exist here only. */
  private readonly folders = new Set<string>();
  private readonly byPath = new Map<string, Sheet>();
  private readonly open = new Map<number, Sheet>();
  /** Descriptors of the system are not negative. */
  private next = -1000;

  /** What `mkdtemp` makes. */
  folder(prefix: string): string {
    const path = prefix + randomUUID().slice(0, 6);
    this.folders.add(resolve(path));
    return path;
  }

  /** A descriptor to write a new file with; undefined when it is not to lie here. */
  create(path: string): number | undefined {
    const place = resolve(path);
    if (!this.folders.has(dirname(place))) return undefined;
    const sheet = { path: place, contents: "" };
    this.byPath.set(place, sheet);
    this.open.set(--this.next, sheet);
    return this.next;
  }

  /** Whether the descriptor was one of ours. */
  write(descriptor: number, contents: string | Uint8Array): boolean {
    const sheet = this.open.get(descriptor);
    if (sheet !== undefined) sheet.contents = sheet.contents.length === 0 ? contents : Buffer.concat([Buffer.from(sheet.contents as string), Buffer.from(contents as string)]);
    return sheet !== undefined;
  }

  /** Whether the descriptor was one of ours. */
  close(descriptor: number): boolean {
    return this.open.delete(descriptor);
  }

  /** Takes a file away; undefined when it does not lie here. */
  take(path: string): string | Uint8Array | undefined {
    const place = resolve(path);
    const sheet = this.byPath.get(place);
    this.byPath.delete(place);
    return sheet?.contents;
  }

  /** Drops a folder with what is in it. Returns whether it was here. */
  drop(path: string): boolean {
    const place = resolve(path);
    for (const [name] of this.byPath) if (dirname(name) === place) this.byPath.delete(name);
    return this.folders.delete(place);
  }
}
