/** A parsed schema: its tables, indexes and document validators, its stored JSON form, and the checks made when it is pushed. */

import { UserError } from "../errors.js";
import { identifierProblem, fieldPathOf } from "../values/names.js";
import { listOf, objectOf, parseJson, textOf, type JsonObject } from "../values/json.js";
import type { Json } from "../values/value.js";
import { canBeVector, canContainField, parseValidator, validatorJson, type Validator } from "../validators/validator.js";

export interface DatabaseIndex {
  name: string;
  /** With `_creationTime` appended. */
  fields: string[];
  staged: boolean;
}
export interface SearchIndex {
  name: string;
  searchField: string;
  filterFields: string[];
  staged: boolean;
}
export interface VectorIndex {
  name: string;
  vectorField: string;
  dimensions: number;
  filterFields: string[];
  staged: boolean;
}
export interface SchemaTable {
  name: string;
  indexes: DatabaseIndex[];
  searchIndexes: SearchIndex[];
  vectorIndexes: VectorIndex[];
  documentType: Validator | null;
}
export interface Schema {
  tables: Map<string, SchemaTable>;
  schemaValidation: boolean;
}

const MAX_INDEXES = 64;
const MAX_FIELDS = 16;
const MAX_FILTER_FIELDS = 16;

function fail(code: string, message: string): never {
  throw new UserError(code, message);
}

function noSchema(): never {
  return fail("InvalidSchemaExport", "Default export from schema file isn't a Convex schema.");
}

/** Parses the text that `schema.export()` returns and makes every check of a push. */
export function parseSchema(text: string): Schema {
  const raw = objectOf(parseJson(text, noSchema), noSchema);
  if (!Array.isArray(raw["tables"])) noSchema();
  const parsed = listOf(raw["tables"], noSchema).map((table) => parseTable(objectOf(table, noSchema)));
  parsed.sort((a, b) => (a.name < b.name ? -1 : 1));
  const schema: Schema = { tables: new Map(parsed.map((table) => [table.name, table])), schemaValidation: raw["schemaValidation"] !== false };
  for (const table of parsed) checkTable(table);
  if (schema.schemaValidation) for (const table of parsed) checkFields(table);
  return schema;
}

function parseTable(raw: JsonObject): SchemaTable {
  const name = textOf(raw["tableName"], noSchema);
  const documentType = parseDocumentType(raw["documentType"]);
  const problem = identifierProblem(name);
  if (problem !== null) fail("InvalidTableName", `Invalid table name: "${name}". ${problem}`);
  if (name.startsWith("_")) fail("TableNameReserved", `${name} is a reserved table name.`);
  const lists = ["indexes", "stagedDbIndexes", "searchIndexes", "stagedSearchIndexes", "vectorIndexes", "stagedVectorIndexes"];
  const list = (key: string): JsonObject[] => listOf(raw[key], noSchema).map((index) => objectOf(index, noSchema));
  if (lists.reduce((sum, key) => sum + list(key).length, 0) > MAX_INDEXES) {
    fail("TooManyIndexes", `Table "${name}" cannot have more than ${MAX_INDEXES} indexes.`);
  }
  const database = [
    ...list("indexes").map((index) => parseDatabaseIndex(name, index, false)),
    ...list("stagedDbIndexes").map((index) => parseDatabaseIndex(name, index, true)),
  ];
  uniqueBy(database, (index) => index.fields.join("\n"), (a, b) =>
    fail("IndexNotUnique", `In table "${name}" index "${a.name}" and index "${b.name}" have the same fields.`),
  );
  const search = [
    ...list("searchIndexes").map((index) => parseSearchIndex(name, index, false)),
    ...list("stagedSearchIndexes").map((index) => parseSearchIndex(name, index, true)),
  ];
  uniqueBy(search, (index) => `${index.searchField}\n${index.filterFields.join("\n")}`, (a, b) =>
    fail("SearchIndexFieldNotUnique", `In table "${name}" search index "${a.name}" and search index "${b.name}" have the same \`searchField\`.`),
  );
  const vector = [
    ...list("vectorIndexes").map((index) => parseVectorIndex(name, index, false)),
    ...list("stagedVectorIndexes").map((index) => parseVectorIndex(name, index, true)),
  ];
  uniqueBy(vector, (index) => `${index.vectorField}\n${index.dimensions}`, (a, b) =>
    fail("VectorIndexFieldNotUnique", `In table "${name}" vector index "${a.name}" and vector index "${b.name}" have the same \`vectorField\`.`),
  );
  const byName = <T extends { name: string }>(items: T[]): T[] => items.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { name, indexes: byName(database), searchIndexes: byName(search), vectorIndexes: byName(vector), documentType };
}

function parseDocumentType(json: unknown): Validator | null {
  if (json === null || json === undefined) return null;
  const top = (): never =>
    fail(
      "InvalidTopLevelTypeInSchemaError",
      "The document validator in a schema must be an object, a union of objects, or `v.any()`. See https://docs.convex.dev/database/schemas.",
    );
  const withoutSystemFields = (validator: Validator): Validator => {
    if (validator.type !== "object") return top();
    return { type: "object", fields: new Map([...validator.fields].filter(([field]) => !field.startsWith("_"))) };
  };
  const validator = parseValidator(json);
  if (validator.type === "any") return validator;
  if (validator.type !== "union") return withoutSystemFields(validator);
  const members = flatten(validator).map(withoutSystemFields);
  return members.length === 1 ? (members[0] as Validator) : { type: "union", members };
}

function flatten(validator: Validator): Validator[] {
  return validator.type === "union" ? validator.members.flatMap(flatten) : [validator];
}

function indexName(table: string, raw: JsonObject): string {
  const name = textOf(raw["indexDescriptor"], noSchema);
  if (identifierProblem(name) !== null) {
    fail(
      "InvalidIndexName",
      `In table "${table}": Invalid index name: "${name}". Identifiers must be 64 characters or less, start with a letter, and can only contain letters, digits, and underscores.`,
    );
  }
  return name;
}

function checkPath(table: string, index: string, json: unknown): string {
  const field = textOf(json, noSchema);
  const path = fieldPathOf(field);
  return path === null ? fail("InvalidIndexField", `In table "${table}": In index "${index}": Invalid index field: "${field}"`) : path.join(".");
}

function parseDatabaseIndex(table: string, raw: JsonObject, staged: boolean): DatabaseIndex {
  const name = indexName(table, raw);
  const fields = listOf(raw["fields"], noSchema).map((field) => checkPath(table, name, field));
  const inIndex = `In table "${table}": In index "${name}": `;
  if (fields.length + 1 > MAX_FIELDS) fail("IndexTooManyFields", `${inIndex}Indexes may have up to ${MAX_FIELDS} fields.`);
  if (fields.includes("_id")) {
    fail("IndexFieldsContainId", `${inIndex}\`_id\` is not a valid index field. To load documents by ID, use \`db.get(id)\`.`);
  }
  const twice = fields.find((field, at) => fields.indexOf(field) !== at);
  if (twice !== undefined) {
    fail("FieldsNotUniqueWithinIndex", `${inIndex}Duplicate field "${twice}". Index fields must be unique within an index.`);
  }
  if (fields.length === 0) {
    fail("EmptyIndex", `In table "${table}" ${staged ? "staged index" : "index"} "${name}" must have at least one field.`);
  }
  return { name, fields: [...fields, "_creationTime"], staged };
}

function filterFields(table: string, name: string, raw: JsonObject): string[] {
  const fields = listOf(raw["filterFields"], noSchema).map((field) => checkPath(table, name, field));
  if (fields.length > MAX_FILTER_FIELDS) {
    fail("IndexTooManyFilterFields", `In table "${table}": In index "${name}": Search indexes may have up to ${MAX_FILTER_FIELDS} filter fields.`);
  }
  return [...new Set(fields)].sort();
}

function parseSearchIndex(table: string, raw: JsonObject, staged: boolean): SearchIndex {
  const name = indexName(table, raw);
  return { name, searchField: checkPath(table, name, raw["searchField"]), filterFields: filterFields(table, name, raw), staged };
}

function parseVectorIndex(table: string, raw: JsonObject, staged: boolean): VectorIndex {
  const name = indexName(table, raw);
  const vectorField = checkPath(table, name, raw["vectorField"]);
  const filters = filterFields(table, name, raw);
  const dimensions = typeof raw["dimensions"] === "number" ? raw["dimensions"] : noSchema();
  if (!Number.isInteger(dimensions) || dimensions < 2 || dimensions > 4096) {
    fail("InvalidVectorDimensionError", `In table "${table}": In index "${name}": Dimensions ${dimensions} must be between 2 and 4096.`);
  }
  return { name, vectorField, dimensions, filterFields: filters, staged };
}

function uniqueBy<T>(items: readonly T[], key: (item: T) => string, clash: (a: T, b: T) => never): void {
  const seen = new Map<string, T>();
  for (const item of items) {
    const other = seen.get(key(item));
    if (other !== undefined) clash(other, item);
    seen.set(key(item), item);
  }
}

function allIndexes(table: SchemaTable): { name: string }[] {
  return [...table.indexes, ...table.searchIndexes, ...table.vectorIndexes];
}

function checkTable(table: SchemaTable): void {
  const seen = new Set<string>();
  for (const { name } of allIndexes(table)) {
    if (name.startsWith("_") || name === "by_id" || name === "by_creation_time") {
      fail("IndexNameReserved", `In table "${table.name}" cannot name an index "${name}" because the name is reserved.`);
    }
    if (seen.has(name)) fail("IndexNamesNotUnique", `Table "${table.name}" has two or more definitions of index "${name}".`);
    seen.add(name);
  }
  for (const index of table.indexes) {
    const inIndex = `In table "${table.name}": In index "${index.name}": `;
    for (const field of index.fields.slice(0, -1)) {
      if (field === "_creationTime") {
        fail("IndexFieldsContainCreationTime", `${inIndex}\`_creationTime\` is automatically added to the end of each index.`);
      }
      if (field.split(".").some((part) => part.startsWith("_"))) {
        fail("IndexFieldNameReserved", `${inIndex}Reserved fields (starting with \`_\`) are not allowed in indexes.`);
      }
    }
  }
}

function checkFields(table: SchemaTable): void {
  const type = table.documentType;
  if (type === null) return;
  const mustContain = (index: string, field: string): void => {
    if (field === "_creationTime" || canContainField(type, field.split("."))) return;
    fail(
      "SchemaDefinitionError",
      `In table "${table.name}" the index "${index}" is invalid because it references the field "${field}" that does not exist.`,
    );
  };
  for (const index of table.indexes) for (const field of index.fields) mustContain(index.name, field);
  for (const index of table.searchIndexes) {
    mustContain(index.name, index.searchField);
    for (const field of index.filterFields) mustContain(index.name, field);
  }
  for (const index of table.vectorIndexes) {
    mustContain(index.name, index.vectorField);
    if (!canBeVector(type, index.vectorField.split("."))) {
      fail(
        "SchemaDefinitionError",
        `In table "${table.name}" the vector index "${index.name}" is invalid because it references the field "${index.vectorField}" that is neither an array of float64 or optional array of float64.`,
      );
    }
  }
}

/** The stored form, as `getSchemas` and the push answer show it. */
export function schemaJson(schema: Schema): Json {
  const database = (index: DatabaseIndex): Json => ({ indexDescriptor: index.name, fields: index.fields });
  const search = (index: SearchIndex): Json => ({
    indexDescriptor: index.name,
    searchField: index.searchField,
    filterFields: index.filterFields,
  });
  const vector = (index: VectorIndex): Json => ({
    indexDescriptor: index.name,
    vectorField: index.vectorField,
    dimension: null,
    dimensions: index.dimensions,
    filterFields: index.filterFields,
  });
  return {
    tables: [...schema.tables.values()].map((table) => ({
      tableName: table.name,
      indexes: table.indexes.filter((index) => !index.staged).map(database),
      stagedDbIndexes: table.indexes.filter((index) => index.staged).map(database),
      searchIndexes: table.searchIndexes.filter((index) => !index.staged).map(search),
      stagedSearchIndexes: table.searchIndexes.filter((index) => index.staged).map(search),
      vectorIndexes: table.vectorIndexes.filter((index) => !index.staged).map(vector),
      stagedVectorIndexes: table.vectorIndexes.filter((index) => index.staged).map(vector),
      documentType: table.documentType === null ? null : validatorJson(table.documentType),
    })),
    schemaValidation: schema.schemaValidation,
  };
}
