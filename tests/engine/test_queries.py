# ruff: noqa: E501 - programs in tables stay on one line
"""Queries: index ranges, filters, order, pagination, search, system tables."""

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          rows: defineTable({ a: v.any(), b: v.optional(v.any()), s: v.optional(v.string()), vec: v.optional(v.array(v.number())) })
            .index("by_a", ["a"]).index("by_a_b", ["a", "b"]).index("staged", { fields: ["b"], staged: true })
            .searchIndex("text", { searchField: "s", filterFields: ["a"] })
            .vectorIndex("near", { vectorField: "vec", dimensions: 2, filterFields: ["a"] }),
        });
    """,
}

SEED = """
for (const a of [3, 1, 2, null, "x", 2n, true]) await ctx.db.insert("rows", { a });
await ctx.db.insert("rows", { a: 2, b: 1 }); await ctx.db.insert("rows", { a: 2, b: 2 });
"""
VALUES = "const show = (rows) => rows.map((r) => [typeof r.a === 'bigint' ? 'n' + r.a : r.a, r.b ?? null]);"

RESULTS = {
    "value order across types": (
        'return show(await ctx.db.query("rows").withIndex("by_a").collect()).map((r) => r[0])',
        [None, "n2", 1, 2, 2, 2, 3, True, "x"],
    ),
    "descending": (
        'return show(await ctx.db.query("rows").withIndex("by_a").order("desc").take(3)).map((r) => r[0])',
        ["x", True, 3],
    ),
    "equality": (
        'return show(await ctx.db.query("rows").withIndex("by_a", (q) => q.eq("a", 2)).collect())',
        [[2, None], [2, 1], [2, 2]],
    ),
    "ranges cross types": (
        'return show(await ctx.db.query("rows").withIndex("by_a", (q) => q.lt("a", 2)).collect()).map((r) => r[0])',
        [None, "n2", 1],
    ),
    "greater than": (
        'return show(await ctx.db.query("rows").withIndex("by_a", (q) => q.gt("a", 2)).collect()).map((r) => r[0])',
        [3, True, "x"],
    ),
    "both bounds": (
        'return show(await ctx.db.query("rows").withIndex("by_a", (q) => q.gte("a", 1).lte("a", 2)).collect()).map((r) => r[0])',
        [1, 2, 2, 2],
    ),
    "second field": (
        'return show(await ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("a", 2).gt("b", 1)).collect())',
        [[2, 2]],
    ),
    "equalities in any order": (
        'return show(await ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("b", 1).eq("a", 2)).collect())',
        [[2, 1]],
    ),
    "a missing field is undefined": (
        'return show(await ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("a", 2).eq("b", undefined)).collect())',
        [[2, None]],
    ),
    "contradictory bounds": (
        'return await ctx.db.query("rows").withIndex("by_a", (q) => q.gt("a", 5).lt("a", 1)).collect()',
        [],
    ),
    "filter": (
        'return show(await ctx.db.query("rows").filter((q) => q.and(q.eq(q.field("a"), 2), q.gt(q.field("b"), 1))).collect())',
        [[2, 2]],
    ),
    "filter with arithmetic": (
        'return show(await ctx.db.query("rows").filter((q) => q.eq(q.add(q.field("b"), 1), 3)).filter((q) => q.neq(q.field("b"), undefined)).collect().catch((e) => e.message.includes("Cannot add") ? [] : null) ?? [])',
        [],
    ),
    "take zero": ('return await ctx.db.query("rows").take(0)', []),
    "first": ('return show([await ctx.db.query("rows").first()])', [[3, None]]),
    "unique of none": ('return await ctx.db.query("rows").withIndex("by_a", (q) => q.eq("a", 99)).unique()', None),
    "unknown table": ('return await ctx.db.query("nothing").collect()', []),
    "iteration stops early": (
        'let n = 0; for await (const row of ctx.db.query("rows")) { n++; if (n === 2) break; } return n',
        2,
    ),
    "count": ('return await ctx.db.query("rows").count()', 9),
    "by_id": ('return (await ctx.db.query("rows").withIndex("by_id").collect()).length', 9),
    "strings by code point": (
        'for (const a of ["\\u{1F600}", "\\uFFFD", "z"]) await ctx.db.insert("rows", { a, b: 9 });'
        ' return (await ctx.db.query("rows").withIndex("by_a", (q) => q.gte("a", "y")).collect()).map((r) => r.a)',
        ["z", "\ufffd", "\U0001f600"],
    ),
}


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_query_results(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:m", {"code": SEED + VALUES + code}) == value


ERRORS = {
    "gap": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.eq("b", 1)).collect()',
        "Tried to query index rows.by_a_b but the query didn't use the index fields in order.\n"
        'Index fields: ["a", "b", "_creationTime"]\nQuery fields: ["b"]\nFirst incorrect field: "b"',
    ),
    "field not in index": (
        'ctx.db.query("rows").withIndex("by_a", (q) => q.eq("b", 1)).collect()',
        'The index range included a comparison with "b", but rows.by_a with fields ["a", "_creationTime"] doesn\'t index this field.',
    ),
    "two inequalities": (
        'ctx.db.query("rows").withIndex("by_a_b", (q) => q.gt("a", 1).lt("b", 1)).collect()',
        "Upper and lower bounds in `range` can only be applied to a single index field.",
    ),
    "equality twice": (
        'ctx.db.query("rows").withIndex("by_a", (q) => q.eq("a", 1).eq("a", 2)).collect()',
        'Already defined equality bound in index range. Can\'t add "a" == 2.0.',
    ),
    "unknown index": ('ctx.db.query("rows").withIndex("nope").collect()', "Index rows.nope not found."),
    "staged index": (
        'ctx.db.query("rows").withIndex("staged").collect()',
        "Index rows.staged is currently staged and not available to query until it is enabled.",
    ),
    "search index as database index": (
        'ctx.db.query("rows").withIndex("text").collect()',
        "Index rows.text is not a database index",
    ),
    "database index as search index": (
        'ctx.db.query("rows").withSearchIndex("by_a", (q) => q.search("a", "x")).collect()',
        "Index rows.by_a is not a search index",
    ),
    "filter that is no boolean": (
        'ctx.db.query("rows").filter((q) => q.field("a")).collect()',
        "Cannot use value 3.0 (type Float64) as a Boolean",
    ),
    "arithmetic on types": (
        'ctx.db.query("rows").filter((q) => q.eq(q.add(q.field("a"), 1n), 1n)).collect()',
        "Cannot add 3.0 (type Float64) and 1 (type Int64)",
    ),
    "unique of two": (
        'ctx.db.query("rows").withIndex("by_a", (q) => q.eq("a", 2)).unique()',
        "unique() query returned more than one result from table rows:\n [",
    ),
    "negative take": ('ctx.db.query("rows").take(-1)', "`n` to `take` must be a non-negative integer"),
    "system table by query": (
        'ctx.db.query("_storage").collect()',
        "System tables can only be accessed from db.system.query().",
    ),
    "page of nothing": (
        'ctx.db.query("rows").paginate({ numItems: 0, cursor: null })',
        "Must request at least 1 document while paginating",
    ),
    "page too large": (
        'ctx.db.query("rows").paginate({ numItems: 32001, cursor: null })',
        "Requested too many items: 32001",
    ),
    "garbled cursor": ('ctx.db.query("rows").paginate({ numItems: 1, cursor: "zzz" })', "Failed to parse cursor"),
    "two pages": (
        'ctx.db.query("rows").paginate({ numItems: 1, cursor: null }).then(() => ctx.db.query("rows").paginate({ numItems: 1, cursor: null }))',
        "This query or mutation function ran multiple paginated queries.",
    ),
    "search without search": (
        'ctx.db.query("rows").withSearchIndex("text", (q) => q.eq("a", 1)).collect()',
        "does not contain any search filters.",
    ),
    "search on another field": (
        'ctx.db.query("rows").withSearchIndex("text", (q) => q.search("a", "x")).collect()',
        'contains a search filter against "a", which doesn\'t match the indexed `searchField` "s".',
    ),
    "search filter that is not declared": (
        'ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x").eq("b", 1)).collect()',
        'contains an equality filter on "b" but that field isn\'t indexed for filtering in `filterFields`.',
    ),
}


@pytest.mark.parametrize(("code", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_query_errors(fresh: Core, code: str, text: str) -> None:
    fresh.run("p:m", {"code": SEED})
    assert text in fresh.fails("p:q", {"code": f"return await {code}"}).message


def pages(app: Core, size: int, **options: object) -> list[dict]:
    found = []
    cursor = None
    for _ in range(20):
        page = app.run(
            "p:q",
            {
                "code": 'return await ctx.db.query("rows").paginate(args)',
                "args": {"numItems": size, "cursor": cursor, **options},
            },
        )
        found.append(page)
        if page["isDone"]:
            return found
        cursor = page["continueCursor"]
    raise AssertionError("no end")


def test_a_page_that_ends_exactly_is_followed_by_an_empty_one(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"a": number} for number in range(6)])
    found = pages(fresh, 3)
    assert [[row["a"] for row in page["page"]] for page in found] == [[0, 1, 2], [3, 4, 5], []]
    assert [page["isDone"] for page in found] == [False, False, True]
    assert set(found[0]) == {"page", "isDone", "continueCursor", "splitCursor", "pageStatus"}
    assert found[0]["splitCursor"] is not None
    assert found[2]["splitCursor"] is None


def test_pages_take_up_where_the_cursor_was_after_inserts_and_deletes(fresh: Core) -> None:
    ids = fresh.control("insert", table="rows", documents=[{"a": number} for number in range(4)])["ids"]
    first = fresh.run("p:q", {"code": 'return await ctx.db.query("rows").paginate({ numItems: 2, cursor: null })'})
    fresh.run("p:m", {"code": "await ctx.db.delete(args)", "args": ids[1]})
    fresh.control("insert", table="rows", documents=[{"a": 9}])
    rest = fresh.run(
        "p:q",
        {
            "code": 'return await ctx.db.query("rows").paginate({ numItems: 9, cursor: args })',
            "args": first["continueCursor"],
        },
    )
    assert [row["a"] for row in rest["page"]] == [2, 3, 9]


def test_a_cursor_of_another_query_is_refused_with_data(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"a": number} for number in range(4)])
    cursor = pages(fresh, 2)[0]["continueCursor"]
    error = fresh.fails(
        "p:q",
        {
            "code": 'return await ctx.db.query("rows").order("desc").paginate({ numItems: 1, cursor: args })',
            "args": cursor,
        },
    )
    assert error.data == {"isConvexSystemError": True, "paginationError": "InvalidCursor"}
    assert "InvalidCursor: Tried to run a query starting from a cursor" in error.message


def test_a_row_budget_ends_the_page(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"a": number} for number in range(6)])
    page = fresh.run(
        "p:q",
        {
            "code": 'return await ctx.db.query("rows").filter((q) => q.gt(q.field("a"), 3)).paginate({ numItems: 5, cursor: null, maximumRowsRead: 3 })'
        },
    )
    assert (page["page"], page["isDone"], page["pageStatus"]) == ([], False, "SplitRequired")


def test_end_cursor_is_inclusive_and_overrides_the_size(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"a": number} for number in range(6)])
    end = pages(fresh, 4)[0]["continueCursor"]
    page = fresh.run(
        "p:q",
        {
            "code": 'return await ctx.db.query("rows").paginate({ numItems: 1, cursor: null, endCursor: args })',
            "args": end,
        },
    )
    assert [row["a"] for row in page["page"]] == [0, 1, 2, 3]
    assert (page["isDone"], page["continueCursor"]) == (False, end)


@pytest.mark.parametrize(
    ("builder", "found"),
    [
        ('q.search("s", "apple")', ["apple apple", "apple pie", "Apple"]),
        ('q.search("s", "app")', ["apple apple", "apple pie", "Apple", "application"]),
        ('q.search("s", "app pie")', ["apple pie"]),
        ('q.search("s", "pie nothing")', ["apple pie"]),
        ('q.search("s", "")', []),
        ('q.search("s", "apple").eq("a", 2)', ["apple pie"]),
    ],
)
def test_text_search_matches_any_term_and_the_last_as_prefix(fresh: Core, builder: str, found: list[str]) -> None:
    texts = ["Apple", "apple pie", "application", "apple apple", "banana"]
    fresh.control("insert", table="rows", documents=[{"a": number + 1, "s": text} for number, text in enumerate(texts)])
    rows = fresh.run(
        "p:q",
        {
            "code": f'return (await ctx.db.query("rows").withSearchIndex("text", (q) => {builder}).collect()).map((r) => r.s)'
        },
    )
    assert sorted(rows) == sorted(found)


def test_search_orders_by_relevance(fresh: Core) -> None:
    fresh.control(
        "insert", table="rows", documents=[{"a": 1, "s": text} for text in ["cat dog bird fish", "cat", "cat cat dog"]]
    )
    rows = fresh.run(
        "p:q",
        {
            "code": 'return (await ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "cat")).collect()).map((r) => r.s)'
        },
    )
    assert rows == ["cat", "cat cat dog", "cat dog bird fish"]


def test_vector_search_scores_by_cosine(fresh: Core) -> None:
    fresh.control(
        "insert",
        table="rows",
        documents=[{"a": number, "vec": vector} for number, vector in enumerate([[1, 0], [0, 1], [1, 1], [1, 0, 0]])],
    )
    code = 'return (await ctx.vectorSearch("rows", "near", args)).map((r) => Math.round(r._score * 100))'
    assert fresh.run("p:a", {"code": code, "args": {"vector": [1, 0]}}) == [100, 71, 0]
    wrong = fresh.fails("p:a", {"code": code, "args": {"vector": [1, 0, 0]}})
    assert "Expected a vector with dimensions 2, received 3." in wrong.message
    many = fresh.fails("p:a", {"code": code, "args": {"vector": [1, 0], "limit": 257}})
    assert "Vector queries can fetch at most 256 results, requested 257." in many.message


def test_an_indexed_read_costs_what_it_returns(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"a": number % 100} for number in range(1000)])
    usage = fresh.call(
        "p:q", {"code": 'return (await ctx.db.query("rows").withIndex("by_a", (q) => q.eq("a", 7)).collect()).length'}
    )["usage"]
    assert (usage["documentsRead"], usage["databaseQueries"]) == (10, 1)
    scan = fresh.call(
        "p:q", {"code": 'return (await ctx.db.query("rows").filter((q) => q.eq(q.field("a"), 7)).collect()).length'}
    )
    assert (scan["value"], scan["usage"]["documentsRead"]) == (10, 1000)
