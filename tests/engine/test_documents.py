# ruff: noqa: E501 - programs in tables stay on one line
"""Writes and reads of documents: rules, texts, order of checks."""

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          users: defineTable({ name: v.string(), age: v.optional(v.number()), team: v.optional(v.id("teams")) }),
          teams: defineTable({ title: v.string() }),
          loose: defineTable(v.any()),
          shapes: defineTable(v.union(
            v.object({ kind: v.literal("circle"), r: v.number() }),
            v.object({ kind: v.literal("square"), side: v.number() }),
          )),
        });
    """,
}

MISSING = "Object is missing the required field `{}`. Consider wrapping the field validator in `v.optional(...)` if this is expected."


def schema_error(table: str, rest: str) -> str:
    return f'Failed to insert or update a document in table "{table}" because it does not match the schema: {rest}'


REFUSED = {
    "wrong type": (
        'await ctx.db.insert("users", { name: 5 })',
        schema_error("users", "Value does not match validator.\nPath: .name\nValue: 5.0\nValidator: v.string()"),
    ),
    "missing field before extra field": (
        'await ctx.db.insert("users", { extra: 1 })',
        schema_error(
            "users",
            MISSING.format("name") + "\n\nObject: {extra: 1.0}\nValidator: v.object({age: v.optional(v.float64()), "
            'name: v.string(), team: v.optional(v.id("teams"))})',
        ),
    ),
    "extra field": (
        'await ctx.db.insert("teams", { title: "a", extra: null })',
        schema_error(
            "teams",
            "Object contains extra field `extra` that is not in the validator.\n\n"
            'Object: {extra: null, title: "a"}\nValidator: v.object({title: v.string()})',
        ),
    ),
    "id of another table": (
        'const id = await ctx.db.insert("users", { name: "a" }); args = id; await ctx.db.insert("users", { name: "b", team: id })',
        'from table `users`, which does not match the table name in validator `v.id("teams")`.Path: .team',
    ),
    "not an id": (
        'await ctx.db.insert("users", { name: "b", team: "nonsense" })',
        schema_error(
            "users", 'Value does not match validator.\nPath: .team\nValue: "nonsense"\nValidator: v.id("teams")'
        ),
    ),
    "no member of a union": (
        'await ctx.db.insert("shapes", { kind: "circle", side: 1n })',
        'Value does not match validator.\n\nValue: {kind: "circle", side: 1}\nValidator: v.union(v.object({kind: v.literal("circle"), r: v.float64()})',
    ),
    "own id": (
        'const id = await ctx.db.insert("loose", {}); await ctx.db.insert("loose", { _id: id })',
        "doesn't match '_id' field \"",
    ),
    "own creation time": (
        'await ctx.db.insert("loose", { _creationTime: 1 })',
        "doesn't match '_creationTime' field in {_creationTime: 1.0}",
    ),
    "underscore at the top": (
        'await ctx.db.insert("loose", { _x: 1 })',
        "isn't a valid document: Field '_x' starts with an underscore, which is only allowed for system fields like '_id'",
    ),
    "too nested": (
        'let v = 1; for (let i = 0; i < 16; i++) v = [v]; await ctx.db.insert("loose", { v })',
        "Document is too nested (nested 17 levels deep > maximum nesting 16)",
    ),
    "too large": (
        'await ctx.db.insert("loose", { s: "x".repeat(1100000) })',
        "Value is too large (1.05 MiB > maximum size 1 MiB)",
    ),
    "array too long": (
        'await ctx.db.insert("loose", { a: new Array(8193).fill(0) })',
        "Invalid argument `value` for `db.insert`: Array length is too long (8193 > maximum length 8192)",
    ),
    "too many fields": (
        'await ctx.db.insert("loose", Object.fromEntries(Array.from({ length: 1025 }, (_, i) => ["f" + i, i])))',
        "Object has too many fields (1025 > maximum number 1024)",
    ),
    "table name": (
        'await ctx.db.insert("a-b", {})',
        'Invalid argument `table` for `db.insert`: Invalid table name: "a-b".',
    ),
    "system table": ('await ctx.db.insert("_storage", {})', "System tables (prefixed with `_`) are read-only."),
    "patch of a missing document": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.delete(id); await ctx.db.patch(id, { title: "b" })',
        "Update on nonexistent document ID ",
    ),
    "replace of a missing document": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.delete(id); await ctx.db.replace(id, { title: "b" })',
        "Replace on nonexistent document ID ",
    ),
    "second delete": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.delete(id); await ctx.db.delete(id)',
        "Delete on nonexistent document ID ",
    ),
    "get of a garbled id": (
        'await ctx.db.get("garbage")',
        "Invalid argument `id` for `db.get`: Unable to decode ID: Invalid ID length 7",
    ),
    "patch of a garbled id": (
        'await ctx.db.patch("x", {})',
        "Invalid argument `id` for `db.patch`: Unable to decode ID: Invalid ID length 1",
    ),
    "explicit table differs": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.get("users", id)',
        'Invalid argument `id` for `db.get`: expected to be an Id<"users">, got Id<"teams"> instead.',
    ),
    "patch breaks the schema": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.patch(id, { title: undefined })',
        schema_error("teams", MISSING.format("title") + "\n\nObject: {}\nValidator: v.object({title: v.string()})"),
    ),
}


@pytest.mark.parametrize(("code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_writes_and_reads_say_why_and_change_nothing(fresh: Core, code: str, text: str) -> None:
    error = fresh.fails("p:m", {"code": code})
    assert text in error.message
    assert error.detail.startswith("Uncaught Error: ")
    assert all(fresh.control("list", table=table)["documents"] == [] for table in ("users", "teams", "loose", "shapes"))


ACCEPTED = {
    "patch merges and removes": (
        'const id = await ctx.db.insert("users", { name: "a", age: 1 }); await ctx.db.patch(id, { age: undefined, name: "b" });'
        " const { _id, _creationTime, ...rest } = await ctx.db.get(id); return rest;",
        {"name": "b"},
    ),
    "replace keeps system fields": (
        'const id = await ctx.db.insert("users", { name: "a", age: 1 }); const old = await ctx.db.get(id);'
        ' await ctx.db.replace(id, { name: "c" }); const now = await ctx.db.get(id);'
        " return [now._creationTime === old._creationTime, now._id === id, now.age === undefined, now.name]",
        [True, True, True, "c"],
    ),
    "get of a deleted document": (
        'const id = await ctx.db.insert("teams", { title: "a" }); await ctx.db.delete(id); return await ctx.db.get(id)',
        None,
    ),
    "tables that the schema does not know": (
        'await ctx.db.insert("other", { a: 1 }); return (await ctx.db.query("other").collect()).length',
        1,
    ),
    "fields come back sorted": (
        'const id = await ctx.db.insert("loose", { b: 1, a: 2, C: 3 }); return Object.keys(await ctx.db.get(id))',
        ["C", "_creationTime", "_id", "a", "b"],
    ),
    "undefined is dropped": (
        'const id = await ctx.db.insert("loose", { a: undefined, b: { c: undefined } }); const d = await ctx.db.get(id); return [Object.keys(d).length, d.b]',
        [3, {}],
    ),
    "nested underscore fields": (
        'const id = await ctx.db.insert("loose", { a: { _b: 1 } }); return (await ctx.db.get(id)).a._b',
        1,
    ),
    "special values survive": (
        'const id = await ctx.db.insert("loose", { i: 5n, n: NaN, z: -0, b: new Uint8Array([1, 2]).buffer });'
        " const d = await ctx.db.get(id); return [d.i === 5n, Number.isNaN(d.n), Object.is(d.z, -0), new Uint8Array(d.b).join()]",
        [True, True, True, "1,2"],
    ),
    "creation times grow inside a transaction": (
        'for (let i = 0; i < 50; i++) await ctx.db.insert("loose", { i }); const all = await ctx.db.query("loose").collect();'
        " return all.every((d, i) => d.i === i && (i === 0 || d._creationTime > all[i - 1]._creationTime))",
        True,
    ),
    "normalizeId": (
        'const id = await ctx.db.insert("teams", { title: "a" });'
        ' return [ctx.db.normalizeId("teams", id) === id, ctx.db.normalizeId("users", id), ctx.db.normalizeId("none", id), ctx.db.normalizeId("teams", "x")]',
        [True, None, None, None],
    ),
    "ids begin with the number of their table": (
        'return (await ctx.db.insert("loose", {})).slice(0, 2).startsWith("j")',
        True,
    ),
    "own writes are seen": (
        'await ctx.db.insert("teams", { title: "a" }); const before = (await ctx.db.query("teams").collect()).length;'
        ' await ctx.db.delete((await ctx.db.query("teams").first())._id); return [before, (await ctx.db.query("teams").collect()).length]',
        [1, 0],
    ),
}


@pytest.mark.parametrize(("code", "value"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_documents_behave(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:m", {"code": code}) == value


def test_creation_times_grow_between_transactions(fresh: Core) -> None:
    for number in range(5):
        fresh.run("p:m", {"code": f'await ctx.db.insert("loose", {{ i: {number} }})'})
    rows = fresh.control("list", table="loose")["documents"]
    assert [row["i"] for row in rows] == [0, 1, 2, 3, 4]
    assert len({row["_creationTime"] for row in rows}) == 5


def test_a_patch_that_changes_nothing_counts_nothing(fresh: Core) -> None:
    [identifier] = fresh.control("insert", table="teams", documents=[{"title": "a"}])["ids"]
    usage = fresh.call("p:m", {"code": 'await ctx.db.patch(args, { title: "a" })', "args": identifier})["usage"]
    assert (usage["documentsWritten"], usage["documentsRead"]) == (0, 1)
