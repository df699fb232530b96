/** The form in which values and type names appear inside the platform's error messages. */

import { isObject, sortedKeys, type MaybeValue } from "./value.js";

export function displayValue(value: MaybeValue): string {
  switch (typeof value) {
    case "undefined":
      return "undefined";
    case "bigint":
      return value.toString();
    case "number":
      return displayFloat(value);
    case "boolean":
      return String(value);
    case "string":
      return rustString(value);
    default:
      break;
  }
  if (value === null) return "null";
  if (value instanceof Uint8Array) return `b"${Buffer.from(value).toString("base64")}"`;
  if (Array.isArray(value)) return `[${value.map(displayValue).join(", ")}]`;
  return `{${sortedKeys(value)
    .map((key) => `${key}: ${displayValue(value[key])}`)
    .join(", ")}}`;
}

/** Rust's debug form of a float: always a dot or an exponent. */
export function displayFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return value.toExponential().replace("e+", "e");
  }
  const text = size >= 1e21 ? BigInt(value).toString() : String(value);
  return text.includes(".") || text.includes("e") ? text : `${text}.0`;
}

function rustString(text: string): string {
  let out = '"';
  for (const char of text) {
    const code = char.codePointAt(0) as number;
    if (char === '"') out += '\\"';
    else if (char === "\\") out += "\\\\";
    else if (char === "\n") out += "\\n";
    else if (char === "\r") out += "\\r";
    else if (char === "\t") out += "\\t";
    else if (char === "\0") out += "\\0";
    else if (code < 0x20 || code === 0x7f) out += `\\u{${code.toString(16)}}`;
    else out += char;
  }
  return `${out}"`;
}

export function typeName(value: MaybeValue): string {
  switch (typeof value) {
    case "undefined":
      return "undefined";
    case "bigint":
      return "Int64";
    case "number":
      return "Float64";
    case "boolean":
      return "Boolean";
    case "string":
      return "String";
    default:
      if (value === null) return "Null";
      if (value instanceof Uint8Array) return "Bytes";
      return isObject(value) ? "Object" : "Array";
  }
}
