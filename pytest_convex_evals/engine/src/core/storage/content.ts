/** The bytes of a stored file: in memory, or in a file of their own when the engine keeps a data folder. */

import { readFileSync } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";

import { ConflictError } from "../errors.js";

export const FILES_TABLE = "_storage";

export class FileContent {
  private constructor(
    /** Names the file in its URL. */
    readonly uuid: string,
    private memory: Buffer | null,
    private path: string | null,
  ) {}

  static of(uuid: string, bytes: Buffer): FileContent {
    return new FileContent(uuid, bytes, null);
  }

  /** Content that `save` has written, from what `toJSON` returned. */
  static stored(json: unknown, folder: string): FileContent {
    const { uuid } = json as { uuid: string };
    return new FileContent(uuid, null, join(folder, uuid));
  }

  get bytes(): Buffer {
    if (this.memory !== null) return this.memory;
    try {
      return readFileSync(this.path as string);
    } catch (error) {
      // Deleted after the reader's snapshot was taken: a transaction that read it cannot commit any more.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new ConflictError(`The file ${this.uuid} was deleted while it was being read.`);
      throw error;
    }
  }

  toJSON(): unknown {
    return { uuid: this.uuid };
  }

  get isSaved(): boolean {
    return this.path !== null;
  }

  /** Writes the bytes and flushes them; from then on they are read from there. */
  async save(folder: string): Promise<void> {
    const path = join(folder, this.uuid);
    const file = await open(path, "w");
    try {
      await file.writeFile(this.memory as Buffer);
      await file.datasync();
    } finally {
      await file.close();
    }
    [this.path, this.memory] = [path, null];
  }

  /** Removes what `save` wrote, or began to write. */
  async remove(folder: string): Promise<void> {
    await unlink(join(folder, this.uuid)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
}
