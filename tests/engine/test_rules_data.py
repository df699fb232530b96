# ruff: noqa: E501 - programs in tables stay on one line
"""Rules about values, validators, queries, limits and writes that a program meets when it is a little wrong."""

import json

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "v.ts": """
        import { query } from "./_generated/server";
        import { v } from "convex/values";
        const takes = (x) => query({ args: { x }, handler: async () => null });
        export const literal = takes(v.literal(1)), big = takes(v.literal(1n)), word = takes(v.literal("a")), none = takes(v.union()), one = takes(v.union(v.string()));
        export const keys = takes(v.record(v.id("rows"), v.number())), inner = takes(v.array(v.object({ price: v.number() }))), file = takes(v.id("_storage")), row = takes(v.id("rows"));
        export const whole = takes(v.int64()), optional = takes(v.optional(v.null())), many = takes(v.union(v.literal("a"), v.literal("b")));
        export const exact = query({ args: {}, returns: v.object({ page: v.array(v.any()), isDone: v.boolean(), continueCursor: v.string() }), handler: (ctx) => ctx.db.query("rows").paginate({ numItems: 1, cursor: null }) });
    """,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          rows: defineTable(v.any()).index("by_a_b", ["a", "b"]).index("by_deep", ["o.x"])
            .searchIndex("text", { searchField: "s", filterFields: ["a", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"] })
            .vectorIndex("near", { vectorField: "vec", dimensions: 2, filterFields: ["a", "b"] }),
        });
    """,
}

ARGUMENTS = {
    "number literal": ("literal", 2, "`2.0` does not match literal validator `v.literal(1.0)`.Path: .x"),
    "bigint literal": ("big", 1, "`1.0` does not match literal validator `v.literal(<bigint>)`.Path: .x"),
    "string literal": ("word", None, '`null` does not match literal validator `v.literal("a")`.Path: .x'),
    "union of nothing": ("none", 1, "Value does not match validator.\nPath: .x\nValue: 1.0\nValidator: v.union()"),
    "union of one": ("one", 1, "Value does not match validator.\nPath: .x\nValue: 1.0\nValidator: v.string()"),
    "union of several": ("many", "c", 'Value: "c"\nValidator: v.union(v.literal("a"), v.literal("b"))'),
    "record key": (
        "keys",
        {"k": 1},
        'Value does not match validator.\nPath: .x.keys()\nValue: "k"\nValidator: v.id("rows")',
    ),
    "innermost object": (
        "inner",
        [{"price": 1}, {"cost": 2}],
        "is missing the required field `price`. Consider wrapping the field validator in `v.optional(...)` if this is expected.\nPath: .x[1]\nObject: {cost: 2.0}\nValidator: v.object({price: v.float64()})",
    ),
    "no coercion": ("whole", 1, "Value: 1.0\nValidator: v.int64()"),
    "null is not missing": ("optional", 0, "Value: 0.0\nValidator: v.null()"),
    "extra argument": ("optional", "EXTRA", "Object contains extra field `y` that is not in the validator."),
}


@pytest.mark.parametrize(("name", "value", "text"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_are_refused_in_the_platforms_words(fresh: Core, name: str, value: object, text: str) -> None:
    args = {"y": 1} if value == "EXTRA" else {"x": value}
    error = fresh.fails(f"v:{name}", args)
    assert error.detail.startswith("ArgumentValidationError: ")
    assert error.detail.endswith("\n")
    assert text in error.detail


SHAPES = {
    "two": ([{}, {}], "ArgumentValidationError: Expected to receive a single object as the function's argument. Instead received 2 arguments: [{}, {}]\n"),
    "none": ([], "ArgumentValidationError: Expected to receive a single object as the function's argument. Instead received 0 arguments: []\n"),
    "no object": ([5], "ArgumentValidationError: Expected to receive an object as the function's argument."),
    "an ordinary number in disguise": ([{"x": {"$float": "AAAAAAAA8D8="}}], "Invalid arguments for v.js:literal: "),
    "an integer of two bytes": ([{"x": {"$integer": "AAA="}}], "Invalid arguments for v.js:literal: "),
    "a reserved name": ([{"x": {"$y": 1}}], "Invalid arguments for v.js:literal: Field name $y starts with '$', which is reserved."),
    "nested too deep": ([{"x": json.loads("[" * 64 + "]" * 64)}], "Invalid arguments for v.js:literal: Value is too nested (nested 65 levels deep > maximum nesting 64)"),
}  # fmt: skip


@pytest.mark.parametrize(("args", "text"), SHAPES.values(), ids=SHAPES.keys())
def test_arguments_of_the_wrong_shape(fresh: Core, args: object, text: str) -> None:
    answer = fresh.post("/api/query", {"path": "v:literal", "args": args, "format": "convex_encoded_json"}).json()
    assert answer["errorMessage"].split("Server Error\n", 1)[1].startswith(text)


def test_a_long_message_is_cut(fresh: Core) -> None:
    error = fresh.fails("p:q", {"code": 'throw new Error("x".repeat(100_000))'})
    assert error.detail.split("\n", 1)[0] == ("Uncaught Error: " + "x" * 100_000)[: 64 * 1024]


def test_ids_in_arguments_belong_to_their_table(fresh: Core) -> None:
    row = fresh.run("p:m", {"code": 'return await ctx.db.insert("rows", {})'})
    job = fresh.run("p:m", {"code": "return await ctx.scheduler.runAfter(1e9, t.internal.p.innerM, { code: `` })"})
    fresh.run("v:row", {"x": row})
    fresh.run("p:m", {"code": "await ctx.db.delete(args)", "args": row})
    assert fresh.run("v:row", {"x": row}) is None
    assert f'Found ID "{row}" from table `rows`, which does not match' in fresh.fails("v:file", {"x": row}).message
    assert f'Found ID "{job}" from table `_scheduled_functions`' in fresh.fails("v:row", {"x": job}).message


def test_a_hand_written_page_validator_misses_the_page_status(fresh: Core) -> None:
    assert "ReturnsValidationError: Object contains extra field `pageStatus`" in fresh.fails("v:exact").message


ERRORS = {
    "undefined in an array": (
        'ctx.db.insert("rows", { a: [undefined] })',
        "undefined is not a valid Convex value (present at path .a[0]",
    ),
    "a date": ('ctx.db.insert("rows", { a: new Date() })', "is not a supported Convex type (present at path .a"),
    "a map": ('ctx.db.insert("rows", { a: new Map() })', "is not a supported Convex type"),
    "a bigint of 65 bits": ('ctx.db.insert("rows", { a: 2n ** 63n })', "does not fit into a 64-bit signed integer."),
    "a lone surrogate": ('ctx.db.insert("rows", { a: "\\ud800" })', "Uncaught Error: Received invalid json: "),
    "a field name of other letters": ('ctx.db.insert("rows", { "é": 1 })', "é"),
    "a list": ('ctx.db.insert("rows", [])', "Invalid argument `value` for `db.insert`: Value must be an Object"),
    "the id of another row in a replacement": (
        'ctx.db.replace(await ctx.db.insert("rows", {}), { _id: await ctx.db.insert("rows", {}) })',
        "doesn't match '_id' field",
    ),
    "another creation time in a patch": (
        'ctx.db.patch(await ctx.db.insert("rows", {}), { _creationTime: 5 })',
        "doesn't match '_creationTime' field in {",
    ),
    "get without id": ("ctx.db.get(undefined)", "Must provide arg 1 `id` to `get`"),
    "get of a number": ("ctx.db.get(5)", "Invalid argument `id` for `db.get`, expected string but got 'number': 5"),
    "patch in a table that is not here": (
        "ctx.db.patch(await ctx.runMutation(t.internal.p.innerM, { code: `throw new t.ConvexError(await ctx.db.insert('ghosts', {}))` }).catch((e) => e.data), {})",
        "not found",
    ),
    "patch of a file": (
        "ctx.db.patch(await ctx.scheduler.runAfter(1e9, t.internal.p.innerM, { code: `` }), {})",
        "System tables can only be accessed with db.system.",
    ),
    "write with the name of another table": (
        'ctx.db.delete("other", await ctx.db.insert("rows", {}))',
        'Invalid argument `id` for `db.delete`: expected to be an Id<"other">, got Id<"rows"> instead.',
    ),
    "two lower bounds": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.gt("a", 1).gt("a", 2)).collect()',
        'Already defined lower bound in index range. Can\'t add "a" > 2.0.',
    ),
    "equality and inequality on one field": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("a", 1).lt("a", 2)).collect()',
        'Already defined equality bound in index range. Can\'t add "a" < 2.0.',
    ),
    "inequality before equality": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.gt("a", 1).eq("b", 2)).collect()',
        'didn\'t use the index fields in order.\nIndex fields: ["a", "b", "_creationTime"]\nQuery fields: ["b", "a"]\nFirst incorrect field: "b"',
    ),
    "an index of an unknown table": (
        'ctx.db.query("nothing").withIndex("by_x").collect()',
        "Index nothing.by_x not found.",
    ),
    "order twice": (
        'ctx.db.query("rows").order("asc").order("desc").collect()',
        "Queries may only specify order at most once",
    ),
    "order of a search": (
        'ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x")).order("desc").collect()',
        "Search queries must always be in relevance order.",
    ),
    "filter by position": (
        'ctx.db.query("rows").filter((q) => q.eq(q.field("list.0"), 1)).collect()',
        "Invalid argument `query` for `queryStream`: ",
    ),
    "filter by a field with a hyphen": (
        'ctx.db.query("rows").filter((q) => q.eq(q.field("a-b"), 1)).collect()',
        "Invalid argument `query` for `queryStream`: ",
    ),
    "not of a number": (
        'ctx.db.query("rows").filter((q) => q.not(q.field("a"))).collect()',
        "Cannot use value 1.0 (type Float64) as a Boolean",
    ),
    "or of a missing field": (
        'ctx.db.query("rows").filter((q) => q.or(false, q.field("none"))).collect()',
        "Cannot use value undefined (type undefined) as a Boolean",
    ),
    "overflow": (
        'ctx.db.query("rows").filter((q) => q.eq(q.add(2n ** 62n, 2n ** 62n), 1n)).collect()',
        "the result is out of range for Int64",
    ),
    "division by zero": (
        'ctx.db.query("rows").filter((q) => q.eq(q.div(1n, 0n), 1n)).collect()',
        "Cannot divide 1 by zero",
    ),
    "negation of text": (
        'ctx.db.query("rows").filter((q) => q.eq(q.neg("a"), 1)).collect()',
        'Cannot negate "a" (type String)',
    ),
    "a negative page": (
        'ctx.db.query("rows").paginate({ numItems: -1, cursor: null })',
        "`options.numItems` must be a positive number. Received `-1`.",
    ),
    "half a row": (
        'ctx.db.query("rows").paginate({ numItems: 1.5, cursor: null })',
        "Invalid arguments for `queryPage`: ",
    ),
    "no row budget": (
        'ctx.db.query("rows").paginate({ numItems: 1, cursor: null, maximumRowsRead: 0 })',
        "maximumRowsRead",
    ),
    "an empty vector": (
        'ctx.vectorSearch?.("rows", "near", { vector: [] }) ?? Convex.asyncSyscall("1.0/actions/vectorSearch", "{}")',
        "Unknown async operation 1.0/actions/vectorSearch",
    ),
    "nine search filters": (
        'ctx.db.query("rows").withSearchIndex("text", (q) => ["a", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"].reduce((b, f) => b.eq(f, 1), q.search("s", "x"))).collect()',
        "has too many filter conditions. Max: 8 Actual: 9",
    ),
    "a nested function that is not there": (
        "ctx.runQuery(t.internal.p.none, {})",
        "Could not find public function for 'p:none'.",
    ),
    "nested arguments that are no object": ("ctx.runQuery(t.internal.p.innerQ, 5)", "must be an object"),
    "a budget that is no integer": (
        "ctx.runQuery(t.internal.p.innerQ, { code: `` }, { transactionLimits: { documentsRead: 1.5 } })",
        "Invalid arguments for `runUdf`: ",
    ),
    "cancelling a row": ('ctx.scheduler.cancel(await ctx.db.insert("rows", {}))', "Invalid scheduled function ID."),
    "a table whose name is none": (
        'ctx.db.query("a-b").collect()',
        'Invalid argument `query` for `queryStream`: Invalid table name: "a-b".',
    ),
    "an id of zeros": ('ctx.db.get("0".repeat(32))', "Unable to decode ID: Invalid table number"),
    "an id with one letter changed": (
        'ctx.db.insert("rows", {}).then((id) => ctx.db.get(id.slice(0, 20) + (id[20] === "0" ? "1" : "0") + id.slice(21)))',
        "Unable to decode ID: Invalid ID version ",
    ),
    "an id in capitals": (
        'ctx.db.insert("rows", {}).then((id) => ctx.db.get(id.toUpperCase()))',
        "Unable to decode ID: ID wasn't valid base32",
    ),
    "two forbidden names at once": (
        'ctx.db.insert("rows", { _x: 1, _y: 2 })',
        "Field '_x' starts with an underscore, which is only allowed for system fields like '_id'\n Field '_y' starts",
    ),
    "an index after a gap before the creation time": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("a", 1).gt("_creationTime", 5)).collect()',
        'Query fields: ["a", "_creationTime"]\nFirst incorrect field: "_creationTime"',
    ),
    "one row in three": (
        'ctx.db.insert("rows", {}).then(() => ctx.db.query("rows").unique())',
        "unique() query returned more than one result from table rows:\n [",
    ),
    "a cursor that is empty": (
        'ctx.db.query("rows").paginate({ numItems: 1, cursor: "" })',
        "Failed to parse cursor",
    ),
    "a garbled cursor before a wrong index": (
        'ctx.db.query("rows").withIndex("nope").paginate({ numItems: 1, cursor: "zzz" })',
        "Failed to parse cursor",
    ),
    "a system table by name": (
        'ctx.db.system.query("rows").collect()',
        "User tables can only be accessed from db.query().",
    ),
    "an index of a system table": (
        'ctx.db.system.query("_scheduled_functions").withIndex("by_name").collect()',
        "Index _scheduled_functions.by_name not found.",
    ),
    "a job in a file that is not there": (
        "ctx.scheduler.runAfter(0, t.internal.none.f, {})",
        "Attempted to schedule function at nonexistent path: none.js",
    ),
    "advice about too many documents": (
        'ctx.runQuery(t.internal.p.innerQ, { code: `await ctx.db.query("rows").collect()` }, { transactionLimits: { documentsRead: 0 } })',
        "Too many documents read in a single function execution (limit: 0). Consider using smaller limits in your queries, paginating your queries,",
    ),
    "advice about too many bytes": (
        'ctx.runQuery(t.internal.p.innerQ, { code: `await ctx.db.query("rows").collect()` }, { transactionLimits: { bytesRead: 5 } })',
        "Too many bytes read in a single function execution (limit: 5 bytes). Consider using smaller limits",
    ),
    "advice about too many ranges": (
        'ctx.runQuery(t.internal.p.innerQ, { code: `await ctx.db.query("rows").collect()` }, { transactionLimits: { databaseQueries: 0 } })',
        "Too many reads in a single function execution (limit: 0). Consider using smaller limits",
    ),
    "a limit of writes for a callee": (
        'ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert("rows", {}); await ctx.db.insert("rows", {})` }, { transactionLimits: { documentsWritten: 1 } })',
        "Too many writes in a single function execution (limit: 1)",
    ),
    "a limit of jobs for a callee": (
        "ctx.runMutation(t.internal.p.innerM, { code: `await ctx.scheduler.runAfter(0, t.internal.p.innerM, {})` }, { transactionLimits: { functionsScheduled: 0 } })",
        "Too many functions scheduled by this mutation (limit: 0)",
    ),
    "an unknown limit": (
        "ctx.runQuery(t.internal.p.innerQ, { code: `` }, { transactionLimits: { documents: 1 } })",
        "Invalid arguments for `runUdf`: ",
    ),
    "a delay that is no number": ('ctx.scheduler.runAfter("5", t.internal.p.innerM, {})', "`delayMs` must be a number"),
    "a delay without end": (
        "ctx.scheduler.runAfter(Infinity, t.internal.p.innerM, {})",
        "`delayMs` must be a finite number",
    ),
}


@pytest.mark.parametrize(("code", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_mistakes_in_a_mutation(fresh: Core, code: str, text: str) -> None:
    fresh.control("insert", table="rows", documents=[{"a": 1}])
    assert text in fresh.fails("p:m", {"code": f"await {code}"}).message


VALUES = {
    "a result above 32 MiB": (
        "q",
        'return "x".repeat(33 * 1024 * 1024)',
        "Function p.js:q return value invalid: Value is too large (33 MiB > maximum size 32 MiB)",
    ),
    "metrics in an action": (
        "a",
        'return await Convex.asyncSyscall("1.0/getTransactionMetrics", "{}")',
        "getTransactionMetrics() can only be called from a query or mutation.",
    ),
    "an operation that nobody awaits and that fails": (
        "m",
        'ctx.db.patch("bad", {}); return 1',
        "Uncaught Error: Invalid argument `id` for `db.patch`: Unable to decode ID: Invalid ID length 3",
    ),
    "a lone surrogate in a result": (
        "q",
        'return "\\ud800"',
        "Function p.js:q failed. Could not parse return value as json: ",
    ),
    "too many rows in a result": (
        "q",
        "return Array(8193).fill(0)",
        "Function p.js:q return value invalid: Array length is too long (8193 > maximum length 8192)",
    ),
    "a query as a result": (
        "q",
        'return ctx.db.query("rows")',
        "Return value is a Query. Results must be retrieved with",
    ),
    "a large result": (
        "q",
        'return "x".repeat(17 * 1024 * 1024)',
        "Function p.js:q return value is too large (actual: 17 MiB, limit: 16 MiB)",
    ),
    "a stale snapshot in a query": (
        "q",
        "return await ctx.runQuery(t.internal.p.innerQ, { code: `` }, { useStaleSnapshot: true })",
        "`useStaleSnapshot` is only supported in mutations",
    ),
    "a vector without numbers": (
        "a",
        'return await ctx.vectorSearch("rows", "near", { vector: [] })',
        "`vector` must be a non-empty Array in vectorSearch",
    ),
    "a vector filter that is not declared": (
        "a",
        'return await ctx.vectorSearch("rows", "near", { vector: [1, 0], filter: (q) => q.eq("c", 1) })',
        "Vector query against rows.near contains a filter on",
    ),
    "an unknown vector index": (
        "a",
        'return await ctx.vectorSearch("rows", "far", { vector: [1, 0] })',
        "Index rows.far not found.",
    ),
    "many vector conditions": (
        "a",
        'return await ctx.vectorSearch("rows", "near", { vector: [1, 0], filter: (q) => q.or(...Array.from({ length: 65 }, (_, i) => q.eq("a", i))) })',
        "has too many conditions. Max: 64 Actual: 65",
    ),
}


@pytest.mark.parametrize(("kind", "code", "text"), VALUES.values(), ids=VALUES.keys())
def test_mistakes_in_results_and_actions(fresh: Core, kind: str, code: str, text: str) -> None:
    assert text in fresh.fails(f"p:{kind}", {"code": code}).message


ROWS = 'const put = async (...rows) => { for (const row of rows) await ctx.db.insert("rows", row); }; const all = (q) => ctx.db.query("rows").withIndex("by_a_b", q).collect().then((rows) => rows.map((r) => r.n));'
FOUND = 'const find = async (text, more = (q) => q) => (await ctx.db.query("rows").withSearchIndex("text", (q) => more(q.search("s", text))).collect()).map((r) => r.n);'
USED = "const used = async () => Object.fromEntries(Object.entries(await ctx.meta.getTransactionMetrics()).map(([k, v]) => [k, v.used]));"
RESULTS = {
    "greater than undefined finds what has the field": ('await put({ n: 1 }, { n: 2, a: null }, { n: 3, a: "x" }); return [await all((q) => q.gt("a", undefined)), await all((q) => q.eq("a", undefined))]', [[2, 3], [1]]),
    "a parent that is no object is a missing field": ('await put({ n: 1, o: 5 }, { n: 2, o: { x: 1 } }, { n: 3 }); return (await ctx.db.query("rows").withIndex("by_deep", (q) => q.eq("o.x", undefined)).collect()).map((r) => r.n)', [1, 3]),
    "zero and minus zero differ, NaN equals itself": ("await put({ n: 1, a: 0 }, { n: 2, a: -0 }, { n: 3, a: NaN }); return [await all((q) => q.eq('a', 0)), await all((q) => q.eq('a', NaN))]", [[1], [3]]),
    "ties come newest first when descending": ('await put({ n: 1, a: 1 }, { n: 2, a: 1 }); return (await ctx.db.query("rows").withIndex("by_a_b").order("desc").collect()).map((r) => r.n)', [2, 1]),
    "a range over the creation time": ('await put({ n: 1 }, { n: 2 }); const [x] = await ctx.db.query("rows").collect(); return (await ctx.db.query("rows").withIndex("by_creation_time", (q) => q.gt("_creationTime", x._creationTime)).collect()).map((r) => r.n)', [2]),
    "equality by id": ('await put({ n: 1 }, { n: 2 }); const [, y] = await ctx.db.query("rows").collect(); return (await ctx.db.query("rows").withIndex("by_id", (q) => q.eq("_id", y._id)).unique()).n', 2),
    "and, or: empty and short": ('await put({ n: 1 }); const n = async (f) => (await ctx.db.query("rows").filter(f).collect()).length; return [await n((q) => q.and()), await n((q) => q.or()), await n((q) => q.or(true, q.field("n"))), await n((q) => q.and(false, q.field("n")))]', [1, 0, 1, 0]),
    "whole division and remainder": ('await put({ n: 1 }); const n = async (f) => (await ctx.db.query("rows").filter(f).collect()).length; return [await n((q) => q.eq(q.div(-7n, 2n), -3n)), await n((q) => q.eq(q.mod(-7n, 2n), -1n)), await n((q) => q.eq(q.div(1, 0), Infinity))]', [1, 1, 1]),
    "names that only records have": ('const id = await ctx.db.insert("rows", { o: { "a-b": 1, "": 2, "0": 3 } }); return (await ctx.db.get(id)).o', {"": 2, "0": 3, "a-b": 1}),
    "patches keep null, drop undefined, ignore removed system fields": ('const id = await ctx.db.insert("rows", { a: 1, b: 1, c: 1 }); await ctx.db.patch(id, { a: null, b: undefined, _id: undefined, _creationTime: undefined }); await ctx.db.patch(id, {}); const { _id, _creationTime, ...rest } = await ctx.db.get(id); return [_id === id, rest]', [True, {"a": None, "c": 1}]),
    "an id of a table that is not here": (
        "return await ctx.db.get(await ctx.runMutation(t.internal.p.innerM, { code: `throw new t.ConvexError(await ctx.db.insert('ghosts', {}))` }).catch((e) => e.data))",
        None,
    ),
    "unknown system tables look empty": ('return [await ctx.db.system.query("_modules").collect(), await ctx.db.system.query("_modules").withIndex("by_id").collect().catch((e) => e.message)]', [[], "Index _modules.by_id not found."]),
    "a row budget that is just enough is no split": ('await put({ n: 1 }, { n: 2 }); const p = await ctx.db.query("rows").paginate({ numItems: 5, cursor: null, maximumRowsRead: 2 }); return [p.page.length, p.isDone, p.pageStatus]', [2, True, "SplitRecommended"]),
    "a byte budget is passed by one row at most": ('await put({ s: "x".repeat(100) }, { s: "y".repeat(100) }, { s: "z" }); const p = await ctx.db.query("rows").paginate({ numItems: 5, cursor: null, maximumBytesRead: 200 }); return [p.page.length, p.isDone, p.pageStatus]', [2, False, "SplitRequired"]),
    "each nested function may paginate": ('const page = `return (await ctx.db.query("rows").paginate({ numItems: 1, cursor: null })).isDone`; await ctx.db.query("rows").paginate({ numItems: 1, cursor: null }); return [await ctx.runQuery(t.internal.p.innerQ, { code: page }), await ctx.runQuery(t.internal.p.innerQ, { code: page })]', [True, True]),
    "a page of an unknown table": ('const p = await ctx.db.query("nothing").paginate({ numItems: 1, cursor: null }); return [p.page, p.isDone, p.splitCursor, p.pageStatus]', [[], True, None, None]),
    "the split cursor halves the page": ('await put({ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }); const p = await ctx.db.query("rows").paginate({ numItems: 4, cursor: null }); return await ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.db.query("rows").paginate({ numItems: 9, cursor: args })).page.map((r) => r.n)`, args: p.splitCursor })', [3]),
    "counts of reads": ('await put({ n: 1 }, { n: 2 }); const [x] = await ctx.db.query("rows").collect(); await ctx.db.get(x._id); await ctx.db.get(x._id); await ctx.db.query("rows").collect(); const u = await used(); return [u.documentsRead, u.databaseQueries, u.documentsWritten]', [6, 2, 2]),
    "first reads one": ('await put({ n: 1 }, { n: 2 }); await ctx.db.query("rows").first(); return (await used()).documentsRead', 1),
    "writes to one row count each": ('const id = await ctx.db.insert("rows", {}); await ctx.db.patch(id, { a: 1 }); await ctx.db.replace(id, { a: 2 }); await ctx.db.delete(id); const u = await used(); return [u.documentsWritten, u.documentsRead]', [4, 3]),
    "scheduling of a rolled back call counts": ('try { await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.scheduler.runAfter(1e9, t.internal.p.innerM, {}); throw new Error()` }) } catch {} return (await used()).functionsScheduled', 1),
    "a budget is on top of what is used and gone afterwards": ('await put({ n: 1 }, { n: 2 }); await ctx.db.query("rows").collect(); const read = `return (await ctx.db.query("rows").collect()).length`; const n = await ctx.runQuery(t.internal.p.innerQ, { code: read }, { transactionLimits: { documentsRead: 2 } }); return [n, (await ctx.db.query("rows").collect()).length]', [2, 2]),
    "an inner budget only tightens": ('await put({ n: 1 }, { n: 2 }); const read = `return (await ctx.db.query("rows").collect()).length`; return await ctx.runQuery(t.internal.p.innerQ, { code: `return await ctx.runQuery(t.internal.p.innerQ, { code: args }, { transactionLimits: { documentsRead: 100 } })`, args: read }, { transactionLimits: { documentsRead: 1 } }).catch((e) => e.message.includes("(limit: 1)"))', True),
    "a page whose end is given has no budget": ('await put({ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }); const page = (o) => ctx.runQuery(t.internal.p.innerQ, { code: `const p = await ctx.db.query("rows").paginate(args); return [p.page.length, p.isDone, p.pageStatus, p.continueCursor]`, args: { cursor: null, ...o } }); const [,,, end] = await page({ numItems: 4 }); return (await page({ numItems: 1, endCursor: end, maximumRowsRead: 1, maximumBytesRead: 1 })).slice(0, 3)', [4, False, None]),
    "a page ends where the budget of the transaction ends": ('await put({ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }); return await ctx.runQuery(t.internal.p.innerQ, { code: `const p = await ctx.db.query("rows").paginate({ numItems: 9, cursor: null }); return [p.page.map((r) => r.n), p.isDone, p.pageStatus, await ctx.db.query("rows").first().catch((e) => e.message.slice(0, 23))]` }, { transactionLimits: { documentsRead: 3 } })', [[1, 2, 3], False, "SplitRequired", "Too many documents read"]),
    "many bytes recommend a split": ('for (let i = 0; i < 13; i++) await put({ s: "x".repeat(1000000) }); const page = (numItems) => ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.db.query("rows").paginate({ numItems: args, cursor: null })).pageStatus`, args: numItems }); return [await page(1), await page(13)]', [None, "SplitRecommended"]),
    "old ids are turned into ids of the table": ('const id = ctx.db.normalizeId("rows", "AAAAAAAAAAAAAAAAAAAAAA"); return [id.length, ctx.db.normalizeId("rows", id) === id, await ctx.db.get(id), ctx.db.normalizeId("rows", "AAAAAAAAAAAAAAAAAAAAA"), ctx.db.normalizeId("none", "AAAAAAAAAAAAAAAAAAAAAA")]', [32, True, None, None, None]),
    "all fields of an index and those behind them": ('await put({ n: 1, a: 1, b: 2 }, { n: 2, a: 1, b: 2 }); const [, y] = await ctx.db.query("rows").collect(); return [await all((q) => q.eq("a", 1).eq("b", 2).gte("_creationTime", y._creationTime)), await all((q) => q.eq("a", 1).eq("b", 2).eq("_creationTime", y._creationTime).eq("_id", y._id))]', [[2], [2]]),
    "dots around a path are no part of it": ('await put({ n: 1, o: { x: 5 } }); return (await ctx.db.query("rows").filter((q) => q.eq(q.field(".o.x."), 5)).collect()).length', 1),
    "a document of exactly one MiB": ('const s = (n) => ({ s: "x".repeat(1048576 - 38 - 23 - 2 - 2 - 2 + n) }); await ctx.db.insert("rows", s(0)); return [(await used()).bytesWritten, await ctx.db.insert("rows", s(1)).catch((e) => e.message)]', [1048576, "Value is too large (1 MiB > maximum size 1 MiB)"]),
    "jobs of a rolled back call are gone": ('await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.scheduler.runAfter(1e9, t.internal.p.innerM, {}); throw new Error()` }).catch(() => 0); return (await ctx.db.system.query("_scheduled_functions").collect()).length', 0),
    "times of what was not inserted are not given again": ('const times = []; const put1 = async () => times.push((await ctx.db.get(await ctx.db.insert("rows", {})))._creationTime); await put1(); await ctx.db.insert("rows", { _x: 1 }).catch(() => 0); await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert("rows", {}); throw new Error()` }).catch(() => 0); await put1(); const step = 2 ** -12; return (times[1] - times[0]) / step', 3),
    "a count reads nothing, sees own writes and keeps those of a rolled back call": ('const n = () => ctx.db.query("rows").count(); await put({ n: 1 }, { n: 2 }); const seen = [await n()]; await ctx.db.delete((await ctx.db.query("rows").first())._id); seen.push(await n()); await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert("rows", {}); throw new Error()` }).catch(() => 0); seen.push(await n()); const u = await used(); return [seen, u.documentsRead, u.databaseQueries, await ctx.db.query("none").count()]', [[2, 1, 2], 2, 2, 0]),
    "an own write in all its later reads": ('const id = await ctx.db.insert("rows", { n: 1, a: 1, b: 1 }); await ctx.db.patch(id, { a: 2 }); return [await all((q) => q.eq("a", 1)), await all((q) => q.eq("a", 2)), (await ctx.db.get(id)).a]', [[], [1], 2]),
    "a table is there after its rows": ('const id = await ctx.db.insert("other", {}); await ctx.db.delete(id); return [await ctx.db.get(id), ctx.db.normalizeId("other", id) === id, await ctx.db.query("other").withIndex("by_id").collect(), (await ctx.db.insert("other", {})) === id]', [None, True, [], False]),
    "search: ties are newest first": ('await put({ n: 1, s: "x" }, { n: 2, s: "x" }); return await find("x")', [2, 1]),
    "search: a missing filter field": ('await put({ n: 1, s: "x" }, { n: 2, s: "x", a: 1 }); return [await find("x", (q) => q.eq("a", undefined)), await find("x", (q) => q.eq("a", 1)), await find("x", (q) => q.eq("a", 1n))]', [[1], [2], []]),
    "search: the same filter twice finds nothing": ('await put({ n: 1, s: "x", a: 1 }); return await find("x", (q) => q.eq("a", 1).eq("a", 1))', []),
    "search: words of 32 bytes and more": ('await put({ n: 1, s: "a".repeat(32) }, { n: 2, s: "b".repeat(31) }); return [await find("a".repeat(32)), await find("b".repeat(31)), await find("aaa")]', [[], [2], []]),
    "search: letters of every script, case, no stems": ('await put({ n: 1, s: "Straße ÉTÉ" }, { n: 2, s: "日本語" }, { n: 3, s: "runs" }); return [await find("été"), await find("ete"), await find("日本"), await find("語"), await find("running")]', [[1], [], [2], [], []]),
    "search: sixteen words": ('await put({ n: 1, s: "last" }, { n: 2, s: "w15" }); const words = Array.from({ length: 16 }, (_, i) => "w" + i); return [await find([...words, "last"].join(" ")), await find("--- !!!")]', [[2], []]),
    "search sees own writes": ('const id = await ctx.db.insert("rows", { n: 1, s: "x" }); await ctx.db.patch(id, { s: "y" }); return [await find("x"), await find("y")]', [[], [1]]),
}  # fmt: skip


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_details_that_hold(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:m", {"code": ROWS + FOUND + USED + code}) == value


def test_a_search_may_not_read_all_of_1024_matches(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"s": "x"} for _ in range(1024)])
    search = 'ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x"))'
    assert fresh.run("p:q", {"code": f"return (await {search}.take(1024)).length"}) == 1024
    error = fresh.fails("p:q", {"code": f"return (await {search}.collect()).length"})
    assert "Search query scanned too many documents (fetched 1024)." in error.message
    page = (
        f"const p = await {search}.paginate({{ numItems: args, cursor: null }}); return [p.page.length, p.pageStatus]"
    )
    assert fresh.run("p:q", {"code": page, "args": 768}) == [768, None]
    assert fresh.run("p:q", {"code": page, "args": 769}) == [769, "SplitRecommended"]


def test_a_limit_that_was_caught_stays_reached(fresh: Core) -> None:
    code = 'const s = "x".repeat(1000000); let n = 0; try { for (;;) { await ctx.db.insert("rows", { s }); n++; } } catch {} return [n, await ctx.db.insert("rows", {}).catch((e) => e.message.slice(0, 22))]'
    assert fresh.run("p:m", {"code": code}) == [16, "Too many bytes written"]


def test_a_stale_read_keeps_the_limits_of_its_caller(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{}, {}])
    stale = "return await ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.db.query('rows').collect()).length` }, { useStaleSnapshot: true })"
    code = f"return await ctx.runMutation(t.internal.p.innerM, {{ code: {stale!r} }}, {{ transactionLimits: {{ documentsRead: args }} }})"
    assert fresh.run("p:m", {"code": code, "args": 2}) == 2
    assert "(limit: 1)" in fresh.fails("p:m", {"code": code, "args": 1}).message


def test_reading_too_many_bytes(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"s": "x" * 1_000_000} for _ in range(17)])
    error = fresh.fails("p:q", {"code": 'let n = 0; for await (const r of ctx.db.query("rows")) n++; return n'})
    assert "Too many bytes read in a single function execution (limit: 16777216 bytes)." in error.message


def test_a_call_near_a_limit_is_warned(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{} for _ in range(25_601)])
    lines = fresh.call("p:q", {"code": 'let n = 0; for await (const r of ctx.db.query("rows")) n++;'})["logLines"]
    assert lines == ["[WARN] Many documents read in a single function execution (actual: 25601, limit: 32000)."]


def test_vector_filters_are_alternatives(fresh: Core) -> None:
    rows = [{"n": 1, "a": 1}, {"n": 2, "a": 2, "b": 1}, {"n": 3}, {"n": 4, "a": 1, "vec": [1]}]
    fresh.control("insert", table="rows", documents=[{"vec": [1, 0], **row} for row in rows])
    code = 'const ids = await ctx.vectorSearch("rows", "near", { vector: [1, 0], ...(%s) }); const rows = await ctx.runQuery(t.internal.p.innerQ, { code: `return await ctx.db.query("rows").collect()` }); return rows.filter((r) => ids.some((i) => i._id === r._id)).map((r) => r.n)'
    for options, found in [
        ('{ filter: (q) => q.eq("a", 1) }', [1]),
        ('{ filter: (q) => q.or(q.eq("a", 1), q.eq("b", 1)) }', [1, 2]),
        ('{ filter: (q) => q.eq("a", undefined) }', [3]),
        ("{ filter: (q) => q.or() }", [1, 2, 3]),
        ("{ limit: 0 }", []),
    ]:
        assert fresh.run("p:a", {"code": code % options}) == found, options
