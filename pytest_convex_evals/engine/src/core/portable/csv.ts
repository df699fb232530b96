/** Comma separated values with a header row; quotes, quoted newlines and both line ends. */

import { UserError } from "../errors.js";

const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** Objects by the names of the header. A field that reads as a number is one, everything else is text. */
export function parseCsv(text: string): Record<string, number | string>[] {
  const [header, ...rows] = rowsOf(text);
  if (header === undefined || header.every((name) => name === "")) throw new UserError("InvalidImport", "The CSV file has no header row");
  const repeated = header.find((name, at) => header.indexOf(name) !== at);
  if (repeated !== undefined) throw new UserError("InvalidImport", `The CSV header names "${repeated}" twice`);
  return rows.map((row, at) => {
    if (row.length !== header.length) {
      throw new UserError("InvalidImport", `CSV row ${at + 1} has ${row.length} fields, but the header has ${header.length}`);
    }
    return Object.fromEntries(header.map((name, column) => [name, fieldValue(row[column] as string)]));
  });
}

function fieldValue(text: string): number | string {
  return NUMBER.test(text) ? Number(text) : text;
}

function rowsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  // A quoted field, or a bare one; then a comma, a line end, or the end of the text.
  const field = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  while (field.lastIndex < text.length) {
    const match = field.exec(text);
    if (match === null) throw new UserError("InvalidImport", `CSV row ${rows.length} has a quote out of place`);
    row.push(match[1]?.replaceAll('""', '"') ?? (match[2] as string));
    if (match[3] === ",") continue;
    rows.push(row);
    row = [];
  }
  if (row.length > 0) rows.push([...row, ""]);
  return rows.filter((found) => found.length > 1 || found[0] !== "");
}
