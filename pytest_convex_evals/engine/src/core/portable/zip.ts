/** ZIP archives in memory: what an export writes, and what people and the platform make. No encryption, no ZIP64. */

import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";

import { UserError } from "../errors.js";

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const END_LENGTH = 22;
const MAX_COMMENT = 65_535;
const UTF8_NAMES = 0x0800;
const STORED = 0;
const DEFLATED = 8;
/** 1 January 1980, the first day that the format knows. */
const DATE = 0x21;
/** All entries together, unpacked. */
const MAX_UNPACKED = 1024 * 1024 * 1024;

export interface ZipEntry {
  readonly name: string;
  readonly bytes: Buffer;
}

export function writeZip(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, bytes } of entries) {
    const label = Buffer.from(name);
    const packed = deflateRawSync(bytes);
    const facts = Buffer.alloc(26);
    facts.writeUInt16LE(20, 0);
    facts.writeUInt16LE(UTF8_NAMES, 2);
    facts.writeUInt16LE(DEFLATED, 4);
    facts.writeUInt16LE(DATE, 8);
    facts.writeUInt32LE(crc32(bytes), 10);
    facts.writeUInt32LE(packed.length, 14);
    facts.writeUInt32LE(bytes.length, 18);
    facts.writeUInt16LE(label.length, 22);
    const local = [word(LOCAL), facts, label, packed];
    parts.push(...local);
    const central = Buffer.alloc(14);
    central.writeUInt32LE(offset, 10);
    directory.push(word(CENTRAL), Buffer.from([20, 0]), facts, central, label);
    offset += local.reduce((sum, part) => sum + part.length, 0);
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(END_LENGTH);
  end.writeUInt32LE(END, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listing, end]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** The files of an archive, folders left out. Throws a UserError when the bytes are no whole archive. */
export function readZip(archive: Buffer): ZipEntry[] {
  try {
    return [...entriesOf(archive)];
  } catch (error) {
    // Offsets outside the archive, or data that does not unpack.
    if (error instanceof UserError) throw error;
    throw broken((error as Error).message);
  }
}

function broken(reason: string): UserError {
  return new UserError("InvalidZip", `Not a valid ZIP file: ${reason}`);
}

function* entriesOf(archive: Buffer): Generator<ZipEntry> {
  const end = endOfDirectory(archive);
  let at = archive.readUInt32LE(end + 16);
  let room = MAX_UNPACKED;
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    if (archive.readUInt32LE(at) !== CENTRAL) throw broken("its directory is damaged");
    const size = archive.readUInt32LE(at + 24);
    const labelLength = archive.readUInt16LE(at + 28);
    const name = archive.toString("utf8", at + 46, at + 46 + labelLength);
    room -= size;
    if (room < 0) throw broken("it is too large when unpacked");
    if (!name.endsWith("/")) yield { name, bytes: unpack(archive, at, name, size) };
    at += 46 + labelLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
}

function endOfDirectory(archive: Buffer): number {
  for (let at = archive.length - END_LENGTH; at >= Math.max(0, archive.length - END_LENGTH - MAX_COMMENT); at--) {
    if (archive.readUInt32LE(at) === END) return at;
  }
  throw broken("it has no directory");
}

function unpack(archive: Buffer, central: number, name: string, size: number): Buffer {
  const method = archive.readUInt16LE(central + 10);
  const checksum = archive.readUInt32LE(central + 16);
  const packedSize = archive.readUInt32LE(central + 20);
  const local = archive.readUInt32LE(central + 42);
  if (archive.readUInt32LE(local) !== LOCAL) throw broken(`${name} is damaged`);
  const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
  const packed = archive.subarray(start, start + packedSize);
  if (method !== STORED && method !== DEFLATED) throw broken(`${name} is packed in an unknown way`);
  const bytes = method === STORED ? packed : inflateRawSync(packed, { maxOutputLength: Math.max(1, size) });
  if (bytes.length !== size || crc32(bytes) !== checksum) throw broken(`${name} is damaged`);
  return bytes;
}
