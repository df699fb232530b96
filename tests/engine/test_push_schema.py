# ruff: noqa: E501 - programs in tables stay on one line
"""What a push refuses in a schema: the smallest program, the code and the message."""

import pytest

from .support.core import Core
from .support.project import Bundler
from .support.pushes import SCHEMA, TABLE, Files, Refusals, check_refusal, raw_schema, schema


def record(**values: object) -> dict[str, object]:
    """A table with a record, as the library would not write it."""
    kind = {"type": "record", "keys": {"type": "string"}, "values": {"fieldType": {"type": "number"}, **values}}
    return {"type": "object", "value": {"r": {"fieldType": kind, "optional": False}}}


NO_SCHEMA = SCHEMA + "Default export from schema file isn't a Convex schema."
MISLEADING = {"toString": "t", "valueOf": 1}
MANY = str([f"f{n}" for n in range(17)])

REFUSED: Refusals = {
    "no schema": ({"schema.ts": "export const x = 1;"}, "MissingSchemaExportError", SCHEMA + "Schema file missing default export."),
    "something else as schema": ({"schema.ts": "export default {};"}, "InvalidSchemaExport", SCHEMA + "Default export from schema file isn't a Convex schema."),
    "schema that throws": ({"schema.ts": 'throw new Error("no"); export default 1;'}, "Error", SCHEMA + "Uncaught Error: no"),
    "environment in the schema": ({"schema.ts": "console.log(process.env.X); export default 1;"}, "Error", "Environment variables unsupported when evaluating schema"),
    "table name": (schema('"a-b": defineTable({})'), "InvalidTableName", 'Invalid table name: "a-b".'),
    "reserved table name": (schema("_t: defineTable({})"), "TableNameReserved", "_t is a reserved table name."),
    "document that is no object": (schema("t: defineTable(v.string() as any)"), "InvalidTopLevelTypeInSchemaError", "The document validator in a schema must be an object, a union of objects, or `v.any()`."),
    "index name": (schema(TABLE + '.index("a-b", ["a"])'), "InvalidIndexName", 'In table "t": Invalid index name: "a-b".'),
    "reserved index name": (schema(TABLE + '.index("by_id", ["a"])'), "IndexNameReserved", 'In table "t" cannot name an index "by_id" because the name is reserved.'),
    "two indexes of one name": (schema(TABLE + '.index("i", ["a"]).index("i", ["l"])'), "IndexNamesNotUnique", 'Table "t" has two or more definitions of index "i".'),
    "index without fields": (schema(TABLE + '.index("i", [] as any)'), "EmptyIndex", 'In table "t" index "i" must have at least one field.'),
    "field twice": (schema(TABLE + '.index("i", ["a", "a"])'), "FieldsNotUniqueWithinIndex", 'Duplicate field "a". Index fields must be unique within an index.'),
    "id in an index": (schema(TABLE + '.index("i", ["_id"] as any)'), "IndexFieldsContainId", "`_id` is not a valid index field."),
    "creation time in an index": (schema(TABLE + '.index("i", ["_creationTime"] as any)'), "IndexFieldsContainCreationTime", "`_creationTime` is automatically added to the end of each index."),
    "reserved field in an index": (schema(TABLE + '.index("i", ["_x"] as any)'), "IndexFieldNameReserved", "Reserved fields (starting with `_`) are not allowed in indexes."),
    "same fields twice": (schema(TABLE + '.index("i", ["a"]).index("j", ["a"])'), "IndexNotUnique", 'In table "t" index "i" and index "j" have the same fields.'),
    "sixteen fields": (schema("t: defineTable(v.any()).index('i', " + str([f"f{n}" for n in range(16)]) + " as any)"), "IndexTooManyFields", 'In table "t": In index "i": Indexes may have up to 16 fields.'),
    "unknown field": (schema(TABLE + '.index("i", ["nope"] as any)'), "SchemaDefinitionError", 'In table "t" the index "i" is invalid because it references the field "nope" that does not exist.'),
    "field inside an array": (schema(TABLE + '.index("i", ["l.x"] as any)'), "SchemaDefinitionError", 'In table "t" the index "i" is invalid because it references the field "l.x" that does not exist.'),
    "too many indexes": (schema("t: defineTable(v.any())" + "".join(f'.index("i{n}", ["f{n}"] as any)' for n in range(65))), "TooManyIndexes", 'Table "t" cannot have more than 64 indexes.'),
    "search field unknown": (schema(TABLE + '.searchIndex("s", { searchField: "nope" as any })'), "SchemaDefinitionError", 'In table "t" the index "s" is invalid because it references the field "nope" that does not exist.'),
    "search indexes alike": (schema(TABLE + '.searchIndex("s", { searchField: "a" }).searchIndex("z", { searchField: "a" })'), "SearchIndexFieldNotUnique", 'In table "t" search index "s" and search index "z" have the same `searchField`.'),
    "vector dimensions": (schema(TABLE + '.vectorIndex("v", { vectorField: "l", dimensions: 1 })'), "InvalidVectorDimensionError", 'In table "t": In index "v": Dimensions 1 must be between 2 and 4096.'),
    "vector of text": (schema(TABLE + '.vectorIndex("v", { vectorField: "a" as any, dimensions: 2 })'), "SchemaDefinitionError", 'references the field "a" that is neither an array of float64 or optional array of float64.'),
    "schema that is null": ({"schema.ts": "export default null;"}, "MissingSchemaExportError", "Schema file missing default export."),
    "schema whose export throws": ({"schema.ts": 'export default { export() { throw new Error("inner"); } };'}, "InvalidSchemaExport", "Default export from schema file isn't a Convex schema."),
    "filter field unknown": (schema(TABLE + '.searchIndex("s", { searchField: "a", filterFields: ["nope"] as any })'), "SchemaDefinitionError", 'In table "t" the index "s" is invalid because it references the field "nope" that does not exist.'),
    "vector field unknown": (schema(TABLE + '.vectorIndex("v", { vectorField: "nope" as any, dimensions: 2 })'), "SchemaDefinitionError", 'In table "t" the index "v" is invalid because it references the field "nope" that does not exist.'),
    "vector dimensions too many": (schema(TABLE + '.vectorIndex("v", { vectorField: "l", dimensions: 4097 })'), "InvalidVectorDimensionError", 'In table "t": In index "v": Dimensions 4097 must be between 2 and 4096.'),
    "vector indexes alike": (schema(TABLE + '.vectorIndex("v", { vectorField: "l", dimensions: 2 }).vectorIndex("w", { vectorField: "l", dimensions: 2 })'), "VectorIndexFieldNotUnique", 'In table "t" vector index "v" and vector index "w" have the same `vectorField`.'),
    "one name for an index and a search index": (schema(TABLE + '.index("i", ["l"]).searchIndex("i", { searchField: "a" })'), "IndexNamesNotUnique", 'Table "t" has two or more definitions of index "i".'),
    "seventeen filter fields": (schema('t: defineTable(v.any()).searchIndex("s", { searchField: "a", filterFields: ' + str([f"f{n}" for n in range(17)]) + " as any })"), "IndexTooManyFilterFields", 'In table "t": In index "s": Search indexes may have up to 16 filter fields.'),
    "reserved part of an index field": (schema(TABLE + '.index("i", ["o._x"] as any)'), "IndexFieldNameReserved", 'In table "t": In index "i": Reserved fields (starting with `_`) are not allowed in indexes.'),
    "optional record values in a table": (schema("t: defineTable({ r: v.record(v.string(), v.optional(v.number()) as any) })"), "Error", "Uncaught Error: Record validator cannot have optional values"),
    "literal record keys in a table": (schema('t: defineTable({ r: v.record(v.literal("a") as any, v.number()) })'), "InvalidRecordType", "Invalid validator for key `r`: Records cannot have string literal keys"),
    "optional record values without the library": (raw_schema(documentType=record(optional=True)), "InvalidRecordType", SCHEMA + "Invalid validator for key `r`: Records cannot have optional values"),
    "record keys that are no strings in a table": (schema("t: defineTable({ r: v.record(v.number() as any, v.number()) })"), "InvalidRecordType", "Invalid validator for key `r`: Records can only have string keys"),
    "object field that is no identifier in a table": (schema('t: defineTable({ o: v.object({ "a-b": v.number() }) })'), "InvalidObjectField", 'Invalid validator for key `o`: Invalid object field name "a-b"'),
    "union with something else than objects": (schema("t: defineTable(v.union(v.object({}), v.null()) as any)"), "InvalidTopLevelTypeInSchemaError", "The document validator in a schema must be an object, a union of objects, or `v.any()`."),
    "table name that is too long": (schema("t" * 65 + ": defineTable({})"), "InvalidTableName", f'Invalid table name: "{"t" * 65}". Identifiers must be 64 characters or less'),
    "table name of underscores": (schema("__: defineTable({})"), "InvalidTableName", 'Invalid table name: "__". Identifiers cannot have only underscores.'),
    "index name that is too long": (schema(TABLE + f'.index("{"i" * 65}", ["a"])'), "InvalidIndexName", f'In table "t": Invalid index name: "{"i" * 65}". Identifiers must be 64 characters or less'),
    "the other reserved index name": (schema(TABLE + '.index("by_creation_time", ["a"])'), "IndexNameReserved", 'In table "t" cannot name an index "by_creation_time" because the name is reserved.'),
    "index name with an underscore": (schema(TABLE + '.index("_i", ["a"])'), "IndexNameReserved", 'In table "t" cannot name an index "_i" because the name is reserved.'),
    "reserved name of a search index": (schema(TABLE + '.searchIndex("by_id", { searchField: "a" })'), "IndexNameReserved", 'In table "t" cannot name an index "by_id" because the name is reserved.'),
    "index field that is no path": (schema(TABLE + '.index("i", ["a-b"] as any)'), "InvalidIndexField", SCHEMA + 'In table "t": In index "i": Invalid index field: "a-b"'),
    "index field with an empty part": (schema(TABLE + '.index("i", ["o..x"] as any)'), "InvalidIndexField", 'In table "t": In index "i": Invalid index field: "o..x"'),
    "search field that is no path": (schema(TABLE + '.searchIndex("s", { searchField: "a-b" as any })'), "InvalidIndexField", 'In table "t": In index "s": Invalid index field: "a-b"'),
    "filter field that is no path": (schema(TABLE + '.searchIndex("s", { searchField: "a", filterFields: ["a-b"] as any })'), "InvalidIndexField", 'In table "t": In index "s": Invalid index field: "a-b"'),
    "field inside a record": (schema(TABLE + '.index("i", ["r.x"] as any)'), "SchemaDefinitionError", 'references the field "r.x" that does not exist.'),
    "staged index without fields": (schema(TABLE + '.index("i", { fields: [] as any, staged: true })'), "EmptyIndex", 'In table "t" staged index "i" must have at least one field.'),
    "staged index with the fields of another": (schema(TABLE + '.index("i", ["a"]).index("j", { fields: ["a"], staged: true })'), "IndexNotUnique", 'In table "t" index "i" and index "j" have the same fields.'),
    "staged index with the name of another": (schema(TABLE + '.index("i", ["a"]).index("i", { fields: ["l"], staged: true })'), "IndexNamesNotUnique", 'Table "t" has two or more definitions of index "i".'),
    "too many indexes of all kinds": (schema("t: defineTable(v.any())" + "".join(f'.index("i{n}", ["f{n}"] as any)' for n in range(62)) + '.index("s", { fields: ["s"] as any, staged: true }).searchIndex("x", { searchField: "x" as any }).vectorIndex("v", { vectorField: "v" as any, dimensions: 2 })'), "TooManyIndexes", 'Table "t" cannot have more than 64 indexes.'),
    "seventeen filter fields of a vector index": (schema('t: defineTable(v.any()).vectorIndex("v", { vectorField: "a" as any, dimensions: 2, filterFields: ' + MANY + " as any })"), "IndexTooManyFilterFields", 'In table "t": In index "v": Search indexes may have up to 16 filter fields.'),
    "search indexes alike but for the order": (schema('t: defineTable(v.any()).searchIndex("s", { searchField: "a" as any, filterFields: ["b", "c"] as any }).searchIndex("z", { searchField: "a" as any, filterFields: ["c", "b"] as any })'), "SearchIndexFieldNotUnique", 'In table "t" search index "s" and search index "z" have the same `searchField`.'),
    "half a dimension": (schema('t: defineTable(v.any()).vectorIndex("v", { vectorField: "a" as any, dimensions: 2.5 })'), "InvalidVectorDimensionError", "Dimensions 2.5 must be between 2 and 4096."),
    "the first of two mistakes": (schema(TABLE + '.index("i", ["_creationTime"] as any).index("j", [] as any)'), "EmptyIndex", 'In table "t" index "j" must have at least one field.'),
    "a literal that is no number": (raw_schema(documentType={"type": "object", "value": {"x": {"fieldType": {"type": "literal", "value": {"$float": "AAAAAAAA+H8="}}, "optional": False}}}), "InvalidValidator", SCHEMA + "Invalid validator for key `x`: "),
    "a key of several literals": (schema('t: defineTable({ r: v.record(v.union(v.literal("a"), v.literal("b")) as any, v.number()) })'), "InvalidRecordType", "Invalid validator for key `r`: Records cannot have string literal keys"),
    "endless loop in the schema": ({"schema.ts": "for (;;); export default 1;"}, "Error", SCHEMA + "Function execution timed out (maximum duration: 1s)"),
    "schema that exports something else": ({"schema.ts": "export default { export: () => 5 };"}, "InvalidSchemaExport", NO_SCHEMA),
    "schema that exports no JSON": ({"schema.ts": "export default { export: () => 'nonsense' };"}, "InvalidSchemaExport", NO_SCHEMA),
    "schema without tables": ({"schema.ts": "export default { export: () => '{}' };"}, "InvalidSchemaExport", NO_SCHEMA),
    "schema that exports null": ({"schema.ts": "export default { export: () => 'null' };"}, "InvalidSchemaExport", NO_SCHEMA),
    "table that is null": ({"schema.ts": """export default { export: () => '{"tables":[null]}' };"""}, "InvalidSchemaExport", NO_SCHEMA),
    "table name with a toString": (raw_schema(tableName=MISLEADING), "InvalidSchemaExport", NO_SCHEMA),
    "table name that is a list": (raw_schema(tableName=["t"]), "InvalidSchemaExport", NO_SCHEMA),
    "index that is null": (raw_schema(indexes=[None]), "InvalidSchemaExport", NO_SCHEMA),
    "index name with a toString": (raw_schema(indexes=[{"indexDescriptor": MISLEADING, "fields": ["a"]}]), "InvalidSchemaExport", NO_SCHEMA),
    "index field with a toString": (raw_schema(indexes=[{"indexDescriptor": "i", "fields": [MISLEADING]}]), "InvalidSchemaExport", NO_SCHEMA),
    "dimensions in a list": (raw_schema(vectorIndexes=[{"indexDescriptor": "v", "vectorField": "a", "dimensions": [2], "filterFields": []}]), "InvalidSchemaExport", NO_SCHEMA),
}  # fmt: skip


@pytest.mark.parametrize(("files", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_push_is_refused(core: Core, bundler: Bundler, files: Files, code: str, text: str) -> None:
    check_refusal(core, bundler, files, code, text)


ACCEPTED = {
    "fifteen fields": schema("t: defineTable(v.any()).index('i', " + str([f"f{n}" for n in range(15)]) + " as any)"),
    "sixteen filter fields": schema("t: defineTable(v.any()).searchIndex('s', { searchField: 'a' as any, filterFields: " + str([f"f{n}" for n in range(16)]) + " as any })"),
    "sixty-four indexes": schema("t: defineTable(v.any())" + "".join(f'.index("i{n}", ["f{n}"] as any)' for n in range(64))),
    "field of an optional object": schema(TABLE + '.index("i", ["o.x"] as any)'),
    "field of one member of a union": schema('t: defineTable(v.union(v.object({ a: v.string() }), v.object({ b: v.string() }))).index("i", ["b"] as any)'),
    "prefix of another index": schema(TABLE + '.index("i", ["a"]).index("j", ["a", "l"])'),
    "unknown field without validation": schema(TABLE + '.index("i", ["nope"] as any)', ", { schemaValidation: false }"),
    "search indexes that filter differently": schema(TABLE + '.searchIndex("s", { searchField: "a" }).searchIndex("z", { searchField: "a", filterFields: ["l"] })'),
    "vector indexes of other dimensions": schema(TABLE + '.vectorIndex("v", { vectorField: "l", dimensions: 2 }).vectorIndex("w", { vectorField: "l", dimensions: 3 })'),
    "vector filter field that does not exist": schema(TABLE + '.vectorIndex("v", { vectorField: "l", dimensions: 2, filterFields: ["nope"] as any })'),
    "vector in an optional field of a union": schema('t: defineTable({ e: v.optional(v.union(v.null(), v.array(v.number()))) }).vectorIndex("v", { vectorField: "e", dimensions: 4096 } as any)'),
    "id of a missing table": schema('t: defineTable({ a: v.id("missing") })'),
    "schema without the library": raw_schema(indexes=[{"indexDescriptor": "i", "fields": ["a"]}]),
    "record without the library": raw_schema(documentType=record(optional=False)),
    "clock and console": {"schema.ts": schema("t: defineTable({})")["schema.ts"] + "console.log(Date.now());"},
}  # fmt: skip


@pytest.mark.parametrize("files", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_push_is_accepted(core: Core, bundler: Bundler, files: Files) -> None:
    bundler.push(core, files)


def test_the_stored_schema_is_sorted_and_complete(core: Core, bundler: Bundler) -> None:
    tables = 'b: defineTable({ z: v.number(), a: v.string() }).index("two", ["z"]).index("one", ["a"]), a: defineTable(v.union(v.object({ x: v.null() })))'
    bundler.push(core, schema(tables))
    stored = core.control("schema")
    assert [table["tableName"] for table in stored["tables"]] == ["a", "b"]
    assert stored["tables"][1]["indexes"] == [
        {"indexDescriptor": "one", "fields": ["a", "_creationTime"]},
        {"indexDescriptor": "two", "fields": ["z", "_creationTime"]},
    ]
    assert list(stored["tables"][1]["documentType"]["value"]) == ["a", "z"]
    assert stored["tables"][0]["documentType"]["type"] == "object"


def test_system_fields_of_a_validator_are_dropped(core: Core, bundler: Bundler) -> None:
    bundler.push(core, schema('t: defineTable({ _id: v.id("t"), _creationTime: v.number(), a: v.string() } as any)'))
    assert list(core.control("schema")["tables"][0]["documentType"]["value"]) == ["a"]


def test_tables_with_indexes_of_any_kind_get_the_first_numbers(core: Core, bundler: Bundler) -> None:
    tables = 'a: defineTable({}), b: defineTable({ s: v.string() }).searchIndex("i", { searchField: "s" }), c: defineTable({ n: v.number() }).index("i", ["n"]), d: defineTable({})'
    core.control("wipe")
    bundler.push(core, schema(tables))
    rows = {"b": {"s": ""}, "c": {"n": 1}, "a": {}, "d": {}}
    ids = [core.control("insert", table=table, documents=[row])["ids"][0][:3] for table, row in rows.items()]
    assert ids == ["j57", "j97", "jd7", "jh7"]
