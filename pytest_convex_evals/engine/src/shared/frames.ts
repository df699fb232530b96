/**
 * Framing of the pipe between core and runner.
 *
 * A frame is `u32 total length`, `u32 header length`, a JSON header and a raw UTF-8 payload. Headers are small and
 * structured; payloads carry system-call arguments, results and sources without being escaped into the header.
 */

export interface Frame {
  header: Record<string, unknown> & { t: string };
  payload: string;
}

/** Largest frame either side accepts; larger ones end the connection. */
export const MAX_FRAME_BYTES = 256 * 1024 * 1024;

export function encodeFrame(header: Record<string, unknown>, payload: string): Buffer {
  const head = JSON.stringify(header);
  const headLength = Buffer.byteLength(head);
  const payloadLength = Buffer.byteLength(payload);
  const frame = Buffer.allocUnsafe(8 + headLength + payloadLength);
  frame.writeUInt32LE(4 + headLength + payloadLength, 0);
  frame.writeUInt32LE(headLength, 4);
  frame.write(head, 8, "utf8");
  frame.write(payload, 8 + headLength, "utf8");
  return frame;
}

/** Parses the bytes after the total length. Throws on anything that is not a frame. */
export function decodeFrameBody(body: Buffer): Frame {
  if (body.length < 4) throw new Error("frame too short");
  const headLength = body.readUInt32LE(0);
  if (headLength > body.length - 4) throw new Error("frame header longer than the frame");
  const header: unknown = JSON.parse(body.toString("utf8", 4, 4 + headLength));
  if (typeof header !== "object" || header === null || typeof (header as { t?: unknown }).t !== "string") {
    throw new Error("frame header without a type");
  }
  return { header: header as Frame["header"], payload: body.toString("utf8", 4 + headLength) };
}

/** Cuts a byte stream into frames. */
export class FrameReader {
  private chunks: Buffer[] = [];
  private buffered = 0;

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.buffered += chunk.length;
  }

  /** The next whole frame, or null when more bytes are needed. Throws when the stream is not made of frames. */
  next(): Frame | null {
    if (this.buffered < 4) return null;
    const first = this.front(4);
    const length = first.readUInt32LE(0);
    if (length > MAX_FRAME_BYTES) throw new Error(`frame of ${length} bytes`);
    if (this.buffered < 4 + length) return null;
    const whole = this.front(4 + length);
    const body = whole.subarray(4, 4 + length);
    const rest = whole.subarray(4 + length);
    this.chunks.shift();
    if (rest.length > 0) this.chunks.unshift(rest);
    this.buffered -= 4 + length;
    return decodeFrameBody(body);
  }

  /** Makes the first chunk hold at least `bytes` bytes and returns it. */
  private front(bytes: number): Buffer {
    const first = this.chunks[0];
    if (first !== undefined && first.length >= bytes) return first;
    const joined = Buffer.concat(this.chunks);
    this.chunks = [joined];
    return joined;
  }
}
