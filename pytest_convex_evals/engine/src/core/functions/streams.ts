/**
 * Bodies that an action reads piece by piece: the request of an HTTP action and the responses to its `fetch` calls.
 *
 * The runner asks for each piece (`host/read`), so nothing is held that was not asked for. Streams are numbered by the runner;
 * 0 is the incoming request. Whatever is open when the call ends is closed.
 */

import { UserError } from "../errors.js";

export const REQUEST_STREAM = 0;
const MAX_PIECE = 1024 * 1024;
const MAX_OPEN = 1000;

interface Stream {
  readonly controller: AbortController;
  reader: AsyncIterator<Uint8Array> | null;
  rest: Uint8Array | null;
}

export class CallStreams {
  private readonly open = new Map<number, Stream>();

  /** Reserves a number. The signal fires when the stream is closed. */
  reserve(id: unknown): AbortSignal {
    if (typeof id !== "number" || !Number.isSafeInteger(id) || this.open.has(id)) throw new UserError("BadStream", "Invalid stream number");
    if (this.open.size >= MAX_OPEN) throw new UserError("TooManyStreams", "Too many concurrent operations.");
    const stream: Stream = { controller: new AbortController(), reader: null, rest: null };
    this.open.set(id, stream);
    return stream.controller.signal;
  }

  /** Gives a reserved number its bytes; when it was closed meanwhile, they are let go. */
  attach(id: number, bytes: AsyncIterable<Uint8Array>): void {
    const stream = this.open.get(id);
    const reader = bytes[Symbol.asyncIterator]();
    if (stream === undefined) void reader.return?.().catch(() => undefined);
    else stream.reader = reader;
  }

  /** The next piece in base64, or null at the end. */
  async read(id: unknown): Promise<string | null> {
    const stream = this.open.get(Number(id));
    if (stream === undefined || stream.reader === null) throw new UserError("BadStream", "The stream is closed");
    if (stream.rest === null) {
      const { done, value } = await stream.reader.next();
      if (done === true) {
        this.open.delete(Number(id));
        return null;
      }
      stream.rest = value;
    }
    const piece = stream.rest.subarray(0, MAX_PIECE);
    stream.rest = piece.length === stream.rest.length ? null : stream.rest.subarray(MAX_PIECE);
    return Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString("base64");
  }

  close(id: unknown): void {
    const stream = this.open.get(Number(id));
    if (stream === undefined) return;
    this.open.delete(Number(id));
    stream.controller.abort();
    void stream.reader?.return?.().catch(() => undefined);
  }

  closeAll(): void {
    for (const id of [...this.open.keys()]) this.close(id);
  }
}
