/**
 * Documents as lines of plain JSON, and notes of what plain JSON cannot say.
 *
 * A note is "infer" (JSON says it all), "int64", "bytes", `{"$float": base64}`, `{"$array": [notes]}` or an object with the
 * notes of the fields that need one.
 */

import { UserError } from "../errors.js";
import { exportJson, isObject, makeObject, parseValue, type Json, type Value } from "../values/value.js";

export type Note = Json;
const INFER = "infer";

/** What is needed to read `exportJson(value)` back, or null when nothing is. */
export function noteOf(value: Value): Note | null {
  const note = describe(value);
  return note === INFER ? null : note;
}

function describe(value: Value): Note {
  if (typeof value === "bigint") return "int64";
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? INFER : floatNote(value);
  if (value instanceof Uint8Array) return "bytes";
  if (Array.isArray(value)) {
    const notes = value.map(describe);
    return notes.every((note) => note === INFER) ? INFER : { $array: notes };
  }
  if (!isObject(value)) return INFER;
  const notes = Object.entries(value)
    .map(([name, field]): [string, Note] => [name, describe(field)])
    .filter(([, note]) => note !== INFER);
  return notes.length === 0 ? INFER : Object.fromEntries(notes);
}

function floatNote(value: number): Note {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return { $float: bytes.toString("base64") };
}

/** The value of a line of plain JSON. */
export function valueOf(json: unknown, note: Note | undefined): Value {
  if (note === undefined || note === INFER) return parseValue(json);
  if (note === "int64" && typeof json === "string" && /^-?\d+$/.test(json)) return BigInt.asIntN(64, BigInt(json));
  if (note === "bytes" && typeof json === "string") return new Uint8Array(Buffer.from(json, "base64"));
  if (typeof note === "object" && note !== null && !Array.isArray(note)) {
    if ("$float" in note) return parseValue(note);
    const { $array: items } = note;
    if (Array.isArray(items) && Array.isArray(json) && items.length === json.length) return json.map((item, at) => valueOf(item, items[at]));
    if (items === undefined && typeof json === "object" && json !== null && !Array.isArray(json)) {
      return makeObject(Object.entries(json).map(([name, field]) => [name, valueOf(field, Object.hasOwn(note, name) ? note[name] : undefined)]));
    }
  }
  throw new UserError("InvalidImport", `The value ${JSON.stringify(json).slice(0, 100)} does not fit its type ${JSON.stringify(note).slice(0, 100)}`);
}

export function line(value: Value): string {
  return `${JSON.stringify(exportJson(value))}\n`;
}
