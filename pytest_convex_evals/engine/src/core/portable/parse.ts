/** Uploaded files of `convex import`: documents of one table, or an archive of tables, components and stored files. */

import { UserError } from "../errors.js";
import { tryDecodeId } from "../values/ids.js";
import { identifierProblem } from "../values/names.js";
import { isObject, makeObject, type Value, type ValueObject } from "../values/value.js";
import { parseCsv } from "./csv.js";
import { valueOf, type Note } from "./documents.js";
import { readZip, type ZipEntry } from "./zip.js";

export interface ImportedDocument {
  readonly id: string | null;
  readonly creationTime: number | null;
  readonly fields: ValueObject;
}

export interface ImportedTable {
  /** Path of the component. */
  readonly namespace: string;
  readonly name: string;
  /** The number that its ids carry, or that the archive says; null when the table may have any. */
  readonly number: number | null;
  readonly documents: readonly ImportedDocument[];
}

export interface ImportedFile {
  readonly namespace: string;
  readonly id: string;
  readonly creationTime: number | null;
  readonly uuid: string | null;
  readonly contentType: string | null;
  readonly bytes: Buffer;
}

export interface ImportedData {
  readonly tables: readonly ImportedTable[];
  readonly files: readonly ImportedFile[];
  /** Components whose files the archive lists. */
  readonly storages: ReadonlySet<string>;
}

const MAX_JSON_ARRAY = 8 * 1024 * 1024;
const STORAGE = "_storage";
const TABLES = "_tables";

export function parseImport(bytes: Buffer, format: string, namespace: string, table: string | null): ImportedData {
  if (format === "zip") return parseArchive(bytes, namespace);
  if (table === null) throw invalid("A table name is needed for this format");
  return { tables: [makeTable(namespace, table, rowsOf(bytes, format), null)], files: [], storages: new Set() };
}

function invalid(message: string): UserError {
  return new UserError("InvalidImport", message);
}

function rowsOf(bytes: Buffer, format: string): Value[] {
  const text = utf8(bytes, "The file");
  switch (format) {
    case "csv":
      return parseCsv(text).map((row, at) => named(`CSV row ${at + 1}`, () => valueOf(row, undefined)));
    case "jsonLines":
    case "jsonl":
      return jsonLines(text, "The file").map(({ json, where }) => named(where, () => valueOf(json, undefined)));
    case "jsonArray":
      return jsonArray(text).map((json, at) => named(`Element ${at} of the array`, () => valueOf(json, undefined)));
    default:
      throw invalid(`Unknown format ${format}: use csv, jsonLines, jsonArray or zip`);
  }
}

function utf8(bytes: Buffer, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalid(`${what} is not UTF-8 text`);
  }
}

function jsonArray(text: string): unknown[] {
  if (text.length > MAX_JSON_ARRAY) throw invalid("JSON arrays are limited to 8 MiB: use JSONLines for more");
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw invalid(`The file is not valid JSON: ${(error as Error).message}`);
  }
  if (!Array.isArray(parsed)) throw invalid("The file is not a JSON array of objects");
  return parsed;
}

function jsonLines(text: string, file: string): { json: unknown; where: string }[] {
  const found: { json: unknown; where: string }[] = [];
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const where = `Line ${at + 1} of ${file === "The file" ? "the file" : file}`;
    try {
      found.push({ json: JSON.parse(line) as unknown, where });
    } catch (error) {
      throw invalid(`${where} is not valid JSON: ${(error as Error).message}`);
    }
  }
  return found;
}

/** Names the place in errors about a value. */
function named<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof UserError) throw invalid(`${where}: ${error.message}`);
    throw error;
  }
}

function makeTable(namespace: string, name: string, rows: readonly Value[], listed: number | null): ImportedTable {
  const problem = name.startsWith("_") ? "Names that start with an underscore belong to the system." : identifierProblem(name);
  if (problem !== null) throw invalid(`Invalid table name "${name}". ${problem}`);
  const documents = rows.map((row) => documentOf(name, row));
  let number = listed;
  for (const { id } of documents) {
    const decoded = id === null ? null : (tryDecodeId(id)?.table ?? null);
    if (decoded === null) continue;
    if (number !== null && decoded !== number) throw invalid(`The ids of table "${name}" belong to different tables, such as ${id as string}`);
    number = decoded;
  }
  return { namespace, name, number, documents };
}

function documentOf(table: string, row: Value): ImportedDocument {
  if (!isObject(row)) throw invalid(`Table "${table}": ${JSON.stringify(row)} is not an object`);
  const { _id: id, _creationTime: time } = row;
  if (id !== undefined && (typeof id !== "string" || tryDecodeId(id) === null)) throw invalid(`Table "${table}": ${JSON.stringify(id)} is not a valid _id`);
  if (time !== undefined && (typeof time !== "number" || !(time > 0) || !Number.isFinite(time))) {
    throw invalid(`Table "${table}": ${String(time)} is not a valid _creationTime`);
  }
  return { id: id ?? null, creationTime: time ?? null, fields: makeObject(Object.entries(row).filter(([name]) => name !== "_id" && name !== "_creationTime")) };
}

/** One folder of an archive: a table of a component, or its stored files. */
interface Folder {
  readonly namespace: string;
  readonly name: string;
  readonly files: Map<string, ZipEntry>;
}

function parseArchive(bytes: Buffer, root: string): ImportedData {
  const folders = foldersOf(readZip(bytes), root);
  const numbers = new Map<string, number>();
  for (const folder of folders.filter(({ name }) => name === TABLES)) {
    for (const row of documentsIn(folder)) if (isObject(row) && typeof row["name"] === "string") numbers.set(`${folder.namespace}|${row["name"]}`, Number(row["id"]));
  }
  const tables = folders
    .filter(({ name, files }) => !name.startsWith("_") && files.has("documents.jsonl"))
    .map((folder) => makeTable(folder.namespace, folder.name, documentsIn(folder), numbers.get(`${folder.namespace}|${folder.name}`) ?? null));
  const storages = folders.filter(({ name }) => name === STORAGE);
  if (tables.length === 0 && storages.length === 0) throw invalid("The ZIP file has no tables: each needs a folder with a documents.jsonl");
  return { tables, files: storages.flatMap(storedFiles), storages: new Set(storages.map(({ namespace }) => namespace)) };
}

/** `_components/a/_components/b/table/file`: the component a/b, a table of it, a file of that. */
function foldersOf(entries: readonly ZipEntry[], root: string): Folder[] {
  const folders = new Map<string, Folder>();
  for (const entry of entries) {
    const match = /^((?:_components\/[^/]+\/)*)([^/]+)\/([^/]+)$/.exec(entry.name);
    if (match === null) continue;
    const inner = [...(match[1] as string).matchAll(/_components\/([^/]+)\//g)].map(([, name]) => name as string);
    const namespace = [...(root === "" ? [] : [root]), ...inner].join("/");
    const key = `${namespace}|${match[2] as string}`;
    const folder = folders.get(key) ?? { namespace, name: match[2] as string, files: new Map<string, ZipEntry>() };
    folder.files.set(match[3] as string, entry);
    folders.set(key, folder);
  }
  return [...folders.values()];
}

function documentsIn(folder: Folder): Value[] {
  const listed = folder.files.get("documents.jsonl");
  if (listed === undefined) return [];
  const notes = notesIn(folder);
  return jsonLines(utf8(listed.bytes, listed.name), listed.name).map(({ json, where }) => {
    const id = typeof json === "object" && json !== null ? (json as { _id?: unknown })._id : undefined;
    return named(where, () => valueOf(json, typeof id === "string" ? notes.get(id) : undefined));
  });
}

/** The first line describes the table as a whole; the others are `{"<id>": note}`. */
function notesIn(folder: Folder): Map<string, Note> {
  const schema = folder.files.get("generated_schema.jsonl");
  const notes = new Map<string, Note>();
  if (schema === undefined) return notes;
  for (const { json } of jsonLines(utf8(schema.bytes, schema.name), schema.name).slice(1)) {
    if (typeof json === "object" && json !== null) for (const [id, note] of Object.entries(json)) notes.set(id, note as Note);
  }
  return notes;
}

function storedFiles(folder: Folder): ImportedFile[] {
  const rows = new Map<string, ValueObject>();
  for (const row of documentsIn(folder)) if (isObject(row) && typeof row["_id"] === "string") rows.set(row["_id"], row);
  const files = [...folder.files].filter(([name]) => !name.endsWith(".jsonl"));
  const found = files.map(([name, { bytes }]): ImportedFile => {
    const id = name.split(".")[0] as string;
    if (tryDecodeId(id) === null) throw invalid(`_storage/${name}: the name of a stored file must begin with its _id`);
    const row = rows.get(id) ?? makeObject([]);
    const { _creationTime: time, internalId: uuid, contentType: type, size } = row;
    if (typeof size === "number" && size !== bytes.length) throw invalid(`_storage/${name}: the file has ${bytes.length} bytes, but documents.jsonl says ${size}`);
    return {
      namespace: folder.namespace,
      id,
      creationTime: typeof time === "number" ? time : null,
      uuid: typeof uuid === "string" ? uuid : null,
      contentType: typeof type === "string" ? type : null,
      bytes,
    };
  });
  const missing = [...rows.keys()].find((id) => !found.some((file) => file.id === id));
  if (missing !== undefined) throw invalid(`_storage: the file of ${missing} is missing`);
  return found;
}
