/**
 * Document ids: LEB128 table number, 16 bytes of internal id, Fletcher-16 checksum, in Crockford base32.
 */

import { UserError } from "../errors.js";
import { takeRandom } from "./random.js";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS = new Map([...ALPHABET].map((char, index) => [char, index]));
const DAY_MS = 86_400_000;

export interface DecodedId {
  table: number;
  internal: Buffer;
}

function fletcher16(bytes: Uint8Array): number {
  let low = 0;
  let high = 0;
  for (const byte of bytes) {
    low = (low + byte) & 0xff;
    high = (high + low) & 0xff;
  }
  return (high << 8) | low;
}

function base32(bytes: Uint8Array): string {
  let out = "";
  let bits = 0;
  let pending = 0;
  for (const byte of bytes) {
    pending = (pending << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += ALPHABET[(pending >> bits) & 31];
    }
    pending &= (1 << bits) - 1;
  }
  if (bits > 0) out += ALPHABET[(pending << (5 - bits)) & 31];
  return out;
}

function unbase32(text: string): Buffer | null {
  const bytes: number[] = [];
  let bits = 0;
  let pending = 0;
  for (const char of text) {
    const digit = DIGITS.get(char);
    if (digit === undefined) return null;
    pending = ((pending << 5) | digit) & 0xffff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((pending >> bits) & 0xff);
    }
  }
  return Buffer.from(bytes);
}

export function encodeId(table: number, internal: Uint8Array): string {
  const head: number[] = [];
  let rest = table;
  while (rest >= 0x80) {
    head.push((rest & 0x7f) | 0x80);
    rest = Math.floor(rest / 128);
  }
  head.push(rest);
  const body = Buffer.concat([Buffer.from(head), internal]);
  const checksum = fletcher16(body);
  return base32(Buffer.concat([body, Buffer.from([checksum & 0xff, checksum >> 8])]));
}

const RANDOM_BYTES = 14;

export function newInternalId(nowMs: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.set(takeRandom(RANDOM_BYTES));
  bytes.writeUInt16BE(Math.floor(nowMs / DAY_MS) & 0xffff, 14);
  return bytes;
}

export function newId(table: number, nowMs: number): string {
  return encodeId(table, newInternalId(nowMs));
}

function undecodable(reason: string): never {
  throw new UserError("InvalidId", `Unable to decode ID: ${reason}`);
}

/** Decodes the canonical text of an id or throws the platform's "Unable to decode ID". */
export function decodeId(text: string): DecodedId {
  if (text.length < 31 || text.length > 37) undecodable(`Invalid ID length ${text.length}`);
  const bytes = unbase32(text);
  if (bytes === null) undecodable("ID wasn't valid base32");
  let table = 0;
  let used = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[used];
    if (byte === undefined || used >= 5) undecodable("Invalid table number");
    used += 1;
    table += (byte & 0x7f) * scale;
    if (byte < 0x80) break;
  }
  if (table === 0 || table > 0xffffffff) undecodable("Invalid table number");
  if (bytes.length !== used + 18) undecodable(`Invalid ID length ${text.length}`);
  const expected = fletcher16(bytes.subarray(0, used + 16));
  const found = bytes.readUInt16LE(used + 16);
  if (expected !== found) undecodable(`Invalid ID version ${found ^ expected} (expected 0)`);
  const internal = bytes.subarray(used, used + 16);
  if (encodeId(table, internal) !== text) undecodable("ID wasn't valid base32");
  return { table, internal };
}

export function tryDecodeId(text: string): DecodedId | null {
  try {
    return decodeId(text);
  } catch {
    return null;
  }
}

/** Legacy ids: 16 bytes as base64url in 22 characters. */
export function decodeLegacyId(text: string): Buffer | null {
  if (!/^[A-Za-z0-9_-]{22}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64url");
  return bytes.length === 16 && bytes.toString("base64url") === text ? bytes : null;
}
