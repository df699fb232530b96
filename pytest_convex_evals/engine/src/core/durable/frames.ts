/**
 * Frames: how text is kept in a file so that a reader knows which of it is whole.
 *
 * A frame is a mark, the length of the body, its checksum, the checksum of these three, and the body in UTF-8. The mark holds bytes
 * that UTF-8 never has, so it cannot occur in a body. One frame is written at a time, and the next one only when it is on disk:
 * a frame that is not whole is an unfinished write if nothing follows it, and damage if another frame does.
 */

import { fstatSync, readSync } from "node:fs";
import { crc32 } from "node:zlib";

const MARK = Buffer.from([0xff, 0x63, 0x76, 0xfe]);
const HEADER_BYTES = 16;
const SCAN_BYTES = 1 << 20;

export function frameOf(body: string): Buffer {
  const length = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  frame.write(body, HEADER_BYTES, "utf8");
  MARK.copy(frame);
  frame.writeUInt32LE(length, 4);
  frame.writeUInt32LE(crc32(frame.subarray(HEADER_BYTES)), 8);
  frame.writeUInt32LE(crc32(frame.subarray(0, 12)), 12);
  return frame;
}

/** Where reading stopped: `end` is the first byte that no whole frame covers. */
export interface Stop {
  end: number;
  state: "complete" | "torn" | "damaged";
}

/** Reads the frames of a file in order and hands over their bodies. */
export function readFrames(file: number, take: (body: string, at: number) => void): Stop {
  const { size } = fstatSync(file);
  let at = 0;
  while (at < size) {
    const length = bodyLength(read(file, at, HEADER_BYTES));
    const end = at + HEADER_BYTES + (length?.bytes ?? 0);
    const body = length === null || end > size ? null : read(file, at + HEADER_BYTES, length.bytes);
    if (length === null || body === null || crc32(body) !== length.checksum) {
      return { end: at, state: frameFollows(file, at + 1, size) ? "damaged" : "torn" };
    }
    take(body.toString("utf8"), at);
    at = end;
  }
  return { end: at, state: "complete" };
}

function bodyLength(header: Buffer): { bytes: number; checksum: number } | null {
  if (header.length < HEADER_BYTES || !header.subarray(0, 4).equals(MARK)) return null;
  if (crc32(header.subarray(0, 12)) !== header.readUInt32LE(12)) return null;
  return { bytes: header.readUInt32LE(4), checksum: header.readUInt32LE(8) };
}

function frameFollows(file: number, from: number, size: number): boolean {
  for (let at = from; at < size; at += SCAN_BYTES) {
    const piece = read(file, at, Math.min(SCAN_BYTES + HEADER_BYTES, size - at));
    for (let found = piece.indexOf(MARK); found !== -1; found = piece.indexOf(MARK, found + 1)) {
      if (bodyLength(piece.subarray(found, found + HEADER_BYTES)) !== null) return true;
    }
  }
  return false;
}

function read(file: number, at: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const count = readSync(file, bytes, done, length - done, at + done);
    if (count === 0) break;
    done += count;
  }
  return bytes.subarray(0, done);
}
