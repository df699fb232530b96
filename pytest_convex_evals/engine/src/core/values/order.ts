/**
 * The platform's order of values: undefined < null < int64 < float64 < boolean < string < bytes < array < object.
 *
 * Two forms that agree: a comparison of values, and an encoding into strings of characters 0–255 whose code-unit order is the
 * order of the values, used as index keys. The encoding of a value is never a proper prefix of another one's, except that 0x00
 * inside strings is escaped as 0x00 0xFF, so that appending 0xFF to an encoded prefix gives its upper end.
 */

import { COMMIT_TS, isObject, sortedKeys, type MaybeValue, type Value } from "./value.js";

/** Greater than every key. */
export const KEY_END = "\uffff";

const scratch = Buffer.alloc(8);

export function encodeKey(value: MaybeValue): string {
  switch (typeof value) {
    case "undefined":
      return "\x01";
    case "bigint":
      scratch.writeBigInt64BE(value === COMMIT_TS ? COMMIT_TS - 1n : value);
      scratch[0] = (scratch[0] as number) ^ 0x80;
      return "\x03" + scratch.toString("latin1");
    case "number":
      scratch.writeDoubleBE(value);
      if ((scratch[0] as number) & 0x80) for (let i = 0; i < 8; i++) scratch[i] = ~(scratch[i] as number) & 0xff;
      else scratch[0] = (scratch[0] as number) | 0x80;
      return "\x04" + scratch.toString("latin1");
    case "boolean":
      return value ? "\x06" : "\x05";
    case "string":
      return "\x07" + terminated(utf8Latin1(value));
    default:
      break;
  }
  if (value === null) return "\x02";
  if (value instanceof Uint8Array) return "\x08" + terminated(Buffer.from(value).toString("latin1"));
  if (Array.isArray(value)) return "\x09" + value.map(encodeKey).join("") + "\x00";
  let out = "\x0a";
  for (const key of sortedKeys(value)) out += "\x0b" + terminated(key) + encodeKey(value[key]);
  return out + "\x00";
}

// eslint-disable-next-line no-control-regex
const PLAIN = /^[\x00-\x7f]*$/;

function utf8Latin1(text: string): string {
  return PLAIN.test(text) ? text : Buffer.from(text, "utf8").toString("latin1");
}

function terminated(bytes: string): string {
  return (bytes.includes("\x00") ? bytes.replaceAll("\x00", "\x00\xff") : bytes) + "\x00";
}

/** The end of the interval of keys that start with this prefix. */
export function prefixEnd(prefix: string): string {
  return prefix === "" ? KEY_END : prefix + "\xff";
}

/** The smallest key greater than this one. */
export function keyAfter(key: string): string {
  return key + "\x00";
}

function rank(value: MaybeValue): number {
  switch (typeof value) {
    case "undefined":
      return 0;
    case "bigint":
      return 2;
    case "number":
      return 3;
    case "boolean":
      return 4;
    case "string":
      return 5;
    default:
      if (value === null) return 1;
      return value instanceof Uint8Array ? 6 : Array.isArray(value) ? 7 : 8;
  }
}

export function compareValues(a: MaybeValue, b: MaybeValue): number {
  const ra = rank(a);
  const rb = rank(b);
  if (ra !== rb) return ra - rb;
  switch (ra) {
    case 2:
    case 4:
      return (a as bigint) < (b as bigint) ? -1 : (a as bigint) > (b as bigint) ? 1 : 0;
    case 3:
      return compareFloats(a as number, b as number);
    case 5:
      return compareStrings(a as string, b as string);
    case 6:
      return Buffer.compare(a as Uint8Array, b as Uint8Array);
    case 7:
      return compareArrays(a as Value[], b as Value[]);
    case 8:
      return isObject(a) && isObject(b) ? compareObjects(a, b) : 0;
    default:
      return 0;
  }
}

export function valuesEqual(a: MaybeValue, b: MaybeValue): boolean {
  return compareValues(a, b) === 0;
}

function compareFloats(a: number, b: number): number {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a === b && a !== 0) return 0;
  const ka = encodeKey(a);
  const kb = encodeKey(b);
  return ka < kb ? -1 : ka > kb ? 1 : 0;
}

/** Code point order, which is the order of the UTF-8 bytes. */
export function compareStrings(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const ca = a.charCodeAt(i);
    const cb = b.charCodeAt(i);
    if (ca !== cb) return utf8Weight(ca) - utf8Weight(cb);
  }
  return a.length - b.length;
}

function utf8Weight(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}

function compareArrays(a: Value[], b: Value[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = compareValues(a[i], b[i]);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function compareObjects(a: { [k: string]: Value }, b: { [k: string]: Value }): number {
  const ka = sortedKeys(a);
  const kb = sortedKeys(b);
  for (let i = 0; i < Math.min(ka.length, kb.length); i++) {
    const na = ka[i] as string;
    const nb = kb[i] as string;
    if (na !== nb) return na < nb ? -1 : 1;
    const order = compareValues(a[na], b[nb]);
    if (order !== 0) return order;
  }
  return ka.length - kb.length;
}
