/**
 * What one client is sent, in order and never without bound.
 *
 * At most two transitions wait to be written; later changes share the next one. Answers to requests cannot wait for each other, so a
 * client that lets too many bytes of them pile up is cut off.
 */

import type { WebSocket } from "ws";

const CHUNK_BYTES = 5_000_000;
const MAX_WAITING_TRANSITIONS = 2;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
const CONTINUATION = 0b1000_0000;

export class Outbox {
  lastSent = performance.now();
  private waitingTransitions = 0;
  private waitingBytes = 0;
  private wake: (() => void) | null = null;

  constructor(
    private readonly socket: WebSocket,
    private readonly sendsChunks: boolean,
    private readonly overflow: () => void,
  ) {}

  send(message: Record<string, unknown>): void {
    const text = JSON.stringify(message);
    this.write(text, () => (this.waitingBytes -= text.length));
    this.waitingBytes += text.length;
    if (this.waitingBytes > MAX_WAITING_BYTES) this.overflow();
  }

  sendTransition(message: Record<string, unknown>): void {
    this.waitingTransitions += 1;
    const written = (): void => {
      this.waitingTransitions -= 1;
      this.wake?.();
    };
    const text = JSON.stringify(message);
    const chunks = this.sendsChunks ? split(text) : [];
    if (chunks.length <= 1) {
      this.write(text, written);
      return;
    }
    const transitionId = String(Buffer.byteLength(text));
    chunks.forEach((chunk, partNumber) => {
      const part = { type: "TransitionChunk", chunk, partNumber, totalParts: chunks.length, transitionId };
      this.write(JSON.stringify(part), partNumber === chunks.length - 1 ? written : () => undefined);
    });
  }

  /** Resolves when another transition may be sent. */
  async ready(): Promise<void> {
    while (this.waitingTransitions >= MAX_WAITING_TRANSITIONS) await new Promise<void>((resolve) => (this.wake = resolve));
  }

  private write(text: string, written: () => void): void {
    this.lastSent = performance.now();
    this.socket.send(text, written);
  }
}

/** Pieces of bounded size in UTF-8, none of which ends inside a character. */
export function split(text: string, limit = CHUNK_BYTES): string[] {
  if (text.length * 3 <= limit) return [text];
  const bytes = Buffer.from(text);
  const pieces: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    let end = Math.min(at + limit, bytes.length);
    while (end < bytes.length && ((bytes[end] as number) & 0b1100_0000) === CONTINUATION) end -= 1;
    pieces.push(bytes.toString("utf8", at, end));
    at = end;
  }
  return pieces;
}

/** TransitionChunk is known to npm clients from 1.27.5 on. */
export function understandsChunks(version: string): boolean {
  const parts = version.split(".").map(Number);
  const [major = 0, minor = 0, patch = 0] = parts;
  return parts.length === 3 && (major > 1 || (major === 1 && (minor > 27 || (minor === 27 && patch >= 5))));
}
