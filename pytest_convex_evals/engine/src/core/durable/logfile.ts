/** A log on disk that frames are appended to. */

import { open, rename, unlink, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";

import { errorCode } from "./errors.js";

/** Errors after which a file can be written again once there is room. */
const FULL = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

export class LogFile {
  /** Why it must not be written any more: what is on disk is not known. */
  private broken: unknown = null;

  private constructor(
    public path: string,
    private readonly handle: FileHandle,
    public size: number,
  ) {}

  static async create(path: string): Promise<LogFile> {
    return new LogFile(path, await open(path, "w"), 0);
  }

  /** Goes on after the first `size` bytes; what is behind them is cut off. */
  static async resume(path: string, size: number): Promise<LogFile> {
    const file = new LogFile(path, await open(path, "r+"), size);
    await file.handle.truncate(size);
    await file.flush();
    return file;
  }

  /** Writes one frame and flushes it. When this throws, nothing of it is in the file. */
  async append(frame: Buffer): Promise<void> {
    if (this.broken !== null) throw this.broken;
    try {
      await this.write(frame);
    } catch (error) {
      if (FULL.has(errorCode(error))) await this.cut();
      else this.broken = error;
      throw error;
    }
    await this.flush();
    this.size += frame.length;
  }

  /** Writes without flushing, into a file that nobody reads yet. */
  async add(frame: Buffer): Promise<void> {
    await this.write(frame);
    this.size += frame.length;
  }

  async flush(): Promise<void> {
    try {
      await this.handle.datasync();
    } catch (error) {
      this.broken = error;
      throw error;
    }
  }

  /** Gives the file its name, under which it counts from then on. When the name may not last, the file is not written any more. */
  async rename(path: string): Promise<void> {
    await rename(this.path, path);
    this.path = path;
    await flushFolder(dirname(path)).catch((error: unknown) => (this.broken = error));
  }

  async remove(): Promise<void> {
    await this.handle.close();
    await unlink(this.path);
  }

  private async write(frame: Buffer): Promise<void> {
    for (let done = 0; done < frame.length; ) {
      const { bytesWritten } = await this.handle.write(frame, done, frame.length - done, this.size + done);
      done += bytesWritten;
    }
  }

  private async cut(): Promise<void> {
    try {
      await this.handle.truncate(this.size);
    } catch (error) {
      this.broken = error;
    }
  }
}

/** Makes names that appeared in or vanished from a folder durable. */
export async function flushFolder(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
