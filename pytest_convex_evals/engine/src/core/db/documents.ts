/** Document operations as user code means them: the platform's checks in the platform's order, then the write. */

import { UserError } from "../errors.js";
import { checkValue } from "../validators/check.js";
import { decodeId } from "../values/ids.js";
import { displayFloat, displayValue } from "../values/display.js";
import { valuesEqual } from "../values/order.js";
import { emptyObject, formatBytes, isObject, makeObject, valueNesting, type Value, type ValueObject } from "../values/value.js";
import { SYSTEM_TABLES } from "./database.js";
import { isSystemTable, type Doc, type Table } from "./tables.js";
import { docWith, type Transaction } from "./transaction.js";

const MAX_DOCUMENT_BYTES = 1024 * 1024;
const MAX_DOCUMENT_NESTING = 16;

/** `db.get` and `db.system.get`: the table an id belongs to, or null for ids of tables that are not here. */
export function tableOfId(tx: Transaction, namespace: string, id: string): string | null {
  const { table } = decodeId(id);
  for (const [name, number] of SYSTEM_TABLES) if (number === table) return name;
  return tx.tableByNumber(namespace, table)?.name ?? null;
}

function invalid(method: string, argument: string, cause: string): UserError {
  return new UserError("BadRequest", `Invalid argument \`${argument}\` for \`${method}\`: ${cause}`);
}

/** Runs a check of one argument and names it in the error. */
export function argument<T>(method: string, name: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof UserError) throw invalid(method, name, error.message);
    throw error;
  }
}

export function getDocument(tx: Transaction, namespace: string, id: string, table: string | undefined, isSystem: boolean): Doc | null {
  const method = isSystem ? "db.system.get" : "db.get";
  const name = argument(method, "id", () => tableOfId(tx, namespace, id));
  if (name === null) return null;
  checkExplicitTable(method, table, name);
  if (isSystem && !isSystemTable(name)) throw new UserError("SystemTableError", "User tables cannot be accessed with db.system.");
  if (!isSystem && isSystemTable(name)) throw new UserError("SystemTableError", "System tables can only be accessed with db.system.");
  return tx.get(namespace, name, id);
}

function checkExplicitTable(method: string, wanted: string | undefined, found: string): void {
  if (wanted !== undefined && wanted !== found) {
    throw invalid(method, "id", `expected to be an Id<"${wanted}">, got Id<"${found}"> instead.`);
  }
}

export function insertDocument(tx: Transaction, namespace: string, tableName: string, value: Value): string {
  const doc = checkedDocument(tx, namespace, tableName, value);
  tx.write(namespace, tableName, null, doc);
  return doc.id;
}

/** Many at once, with the checks of each in their order. */
export function insertDocuments(tx: Transaction, namespace: string, tableName: string, values: Iterable<Value>): string[] {
  const docs: Doc[] = [];
  for (const value of values) docs.push(checkedDocument(tx, namespace, tableName, value));
  if (docs.length > 0) tx.add(namespace, tableName, docs);
  return docs.map((doc) => doc.id);
}

function checkedDocument(tx: Transaction, namespace: string, tableName: string, value: Value): Doc {
  if (!isObject(value)) throw invalid("db.insert", "value", "Value must be an Object");
  if (isSystemTable(tableName)) throw new UserError("SystemTableError", "System tables (prefixed with `_`) are read-only.");
  const table = tx.ensureTable(namespace, tableName);
  const doc = tx.newDoc(table, value);
  checkSystemFields(doc, value);
  checkDocument(doc);
  enforceSchema(tx, table, doc);
  checkSize(doc);
  return doc;
}

type Change = { method: "db.patch" | "db.replace" | "db.delete"; verb: "Update" | "Replace" | "Delete" };
const PATCH: Change = { method: "db.patch", verb: "Update" };
const REPLACE: Change = { method: "db.replace", verb: "Replace" };
const DELETE: Change = { method: "db.delete", verb: "Delete" };

/** Finds the document that a write addresses. `parse` checks the other argument at its place in the order. */
function target<T>(tx: Transaction, namespace: string, id: string, explicit: string | undefined, change: Change, parse: () => T): { doc: Doc; table: Table; parsed: T } {
  const name = argument(change.method, "id", () => tableOfId(tx, namespace, id));
  if (name === null) throw invalid(change.method, "id", `Table for ID "${id}" not found`);
  checkExplicitTable(change.method, explicit, name);
  const parsed = parse();
  if (isSystemTable(name)) throw new UserError("SystemTableError", "System tables can only be accessed with db.system.");
  const doc = tx.get(namespace, name, id);
  if (doc === null) throw new UserError("NonexistentDocument", `${change.verb} on nonexistent document ID ${id}`);
  return { doc, table: tx.table(namespace, name) as Table, parsed };
}

/** A shallow merge; an undefined field is removed. */
export function patchDocument(
  tx: Transaction,
  namespace: string,
  id: string,
  explicit: string | undefined,
  parse: () => Map<string, Value | undefined>,
): void {
  const { doc, table, parsed } = target(tx, namespace, id, explicit, PATCH, parse);
  const fields = new Map<string, Value>(Object.entries(doc.value));
  for (const [name, value] of parsed) {
    if (value === undefined) fields.delete(name);
    else fields.set(name, value);
  }
  update(tx, namespace, table, doc, makeObject(fields));
}

export function replaceDocument(tx: Transaction, namespace: string, id: string, explicit: string | undefined, parse: () => Value): void {
  const { doc, table, parsed } = target(tx, namespace, id, explicit, REPLACE, () => {
    const value = parse();
    if (!isObject(value)) throw invalid("db.replace", "value", "Value must be an Object");
    return value;
  });
  update(tx, namespace, table, doc, parsed);
}

function update(tx: Transaction, namespace: string, table: Table, before: Doc, fields: ValueObject): void {
  const after = docWith(before.id, before.creationTime, fields, before.hidden);
  checkSystemFields(after, fields);
  checkDocument(after);
  if (valuesEqual(before.value, after.value)) return;
  enforceSchema(tx, table, after);
  checkSize(after);
  tx.write(namespace, table.name, before, after);
}

export function deleteDocument(tx: Transaction, namespace: string, id: string, explicit: string | undefined): void {
  const { doc, table } = target(tx, namespace, id, explicit, DELETE, () => null);
  tx.write(namespace, table.name, doc, null);
}

function checkSystemFields(doc: Doc, given: ValueObject): void {
  const id = given["_id"];
  if (id !== undefined && id !== doc.id) {
    throw new UserError("InvalidIdError", `Provided document ID "${doc.id}" doesn't match '_id' field ${displayValue(id)}`);
  }
  const time = given["_creationTime"];
  if (time !== undefined && time !== doc.creationTime) {
    throw new UserError(
      "InvalidCreationTimeError",
      `Provided creation time ${displayFloat(doc.creationTime)} doesn't match '_creationTime' field in ${displayValue(given)}`,
    );
  }
}

export function checkDocument(doc: Doc): void {
  const problems: string[] = [];
  for (const field of Object.keys(doc.value)) {
    if (field.startsWith("_") && field !== "_id" && field !== "_creationTime") {
      problems.push(`Field '${field}' starts with an underscore, which is only allowed for system fields like '_id'`);
    }
  }
  const nesting = valueNesting(doc.value);
  if (nesting > MAX_DOCUMENT_NESTING) {
    problems.push(`Document is too nested (nested ${nesting} levels deep > maximum nesting ${MAX_DOCUMENT_NESTING})`);
  }
  if (problems.length > 0) {
    throw new UserError("InvalidDocumentError", `Document(value: ${displayValue(doc.value)}) isn't a valid document: ${problems.join("\n ")}`);
  }
}

export function checkSize(doc: Doc): void {
  if (doc.size > MAX_DOCUMENT_BYTES) {
    throw new UserError("ValueTooLargeError", `Value is too large (${formatBytes(doc.size)} > maximum size ${formatBytes(MAX_DOCUMENT_BYTES)})`);
  }
}

export function withoutSystemFields(value: ValueObject): ValueObject {
  const rest = emptyObject();
  for (const name of Object.keys(value)) if (name !== "_id" && name !== "_creationTime") rest[name] = value[name] as Value;
  return rest;
}

export function enforceSchema(tx: Transaction, table: Table, doc: Doc): void {
  const schema = tx.db.schemas.get(table.namespace);
  const type = schema?.schemaValidation === true ? schema.tables.get(table.name)?.documentType : undefined;
  if (type === undefined || type === null) return;
  const problem = checkValue(type, withoutSystemFields(doc.value), tx.tableNames(table.namespace));
  if (problem !== null) {
    throw new UserError(
      "SchemaEnforcementError",
      `Failed to insert or update a document in table "${table.name}" because it does not match the schema: ${problem}`,
    );
  }
}
