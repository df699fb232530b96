/** The runner's end of the pipe: blocking for the transactional runner, streamed for the action runners. */

import { readSync, writeSync } from "node:fs";

import { decodeFrameBody, encodeFrame, MAX_FRAME_BYTES, type Frame } from "../shared/frames.js";

export const READ_FD = 3;
export const WRITE_FD = 3;

function readExactly(length: number): Buffer | null {
  const bytes = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    let count: number;
    try {
      count = readSync(READ_FD, bytes, filled, length - filled, null);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") continue;
      return null;
    }
    if (count === 0) return null;
    filled += count;
  }
  return bytes;
}

/** Waits for the next frame. Ends the process when the core has gone. */
export function receive(): Frame {
  const head = readExactly(4);
  const length = head === null ? 0 : head.readUInt32LE(0);
  const body = head === null || length > MAX_FRAME_BYTES ? null : readExactly(length);
  if (body === null) process.exit(0);
  return decodeFrameBody(body);
}

let buffered: Buffer[] = [];

/** Queues a frame; `flush` sends what is queued. */
export function queue(header: Record<string, unknown>, payload = ""): void {
  buffered.push(encodeFrame(header, payload));
}

export function flush(): void {
  const bytes = buffered.length === 1 ? (buffered[0] as Buffer) : Buffer.concat(buffered);
  buffered = [];
  let written = 0;
  while (written < bytes.length) {
    try {
      written += writeSync(WRITE_FD, bytes, written);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") process.exit(0);
    }
  }
}
