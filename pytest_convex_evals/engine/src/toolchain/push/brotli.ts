/** The format of brotli without its work. */

const PIECE = 2 ** 16;

/** Bytes in the format of brotli, in pieces that are not compressed (RFC 7932, 9.2). */
export function unpacked(bytes: Buffer): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += PIECE) {
    const piece = bytes.subarray(at, at + PIECE);
    // Bits from the lowest: the window (before the first piece only), not the last piece, sixteen bits of length follow, not compressed.
    const head = ((piece.length - 1) * 8 + 2 ** 19) * (at === 0 ? 2 : 1);
    parts.push(Buffer.from([head & 255, (head >> 8) & 255, (head >> 16) & 255]), piece);
  }
  parts.push(Buffer.from([bytes.length === 0 ? 6 : 3]));
  return Buffer.concat(parts);
}
