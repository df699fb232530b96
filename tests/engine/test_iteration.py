# ruff: noqa: E501 - programs in tables stay on one line
"""Loops that write to what they read. Rows are fetched a hundred at a time: writes show in later fetches only."""

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ rows: defineTable(v.any()).index("by_score", ["score"]) });',
}

PUT = 'const put = async (count) => { for (let n = 0; n < count; n++) await ctx.db.insert("rows", { n, score: n }); }; const seen = [];'
ALL = '(await ctx.db.query("rows").collect())'

LOOPS = {
    "each row is copied once": (f'await put(5); for await (const row of ctx.db.query("rows")) {{ seen.push(row.n); await ctx.db.insert("rows", {{ n: 9 }}); }} return [seen, {ALL}.length]', [[0, 1, 2, 3, 4], 10]),
    "a row that moves ahead of the loop is met once": (f'await put(5); for await (const row of ctx.db.query("rows").withIndex("by_score", (q) => q.gte("score", 0))) {{ seen.push(row.n); await ctx.db.patch(row._id, {{ score: row.score + 10 }}); }} return [seen, {ALL}.map((r) => r.score)]', [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]]),
    "a row that moves ahead of a descending loop is met once": (f'await put(3); for await (const row of ctx.db.query("rows").withIndex("by_score").order("desc")) {{ seen.push(row.n); await ctx.db.patch(row._id, {{ score: row.score - 10 }}); }} return [seen, {ALL}.map((r) => r.score)]', [[2, 1, 0], [-10, -9, -8]]),
    "every row is deleted": (f'await put(250); for await (const row of ctx.db.query("rows")) {{ seen.push(row.n); await ctx.db.delete(row._id); }} return [seen.length, {ALL}.length]', [250, 0]),
    "fetched rows are as they were": ('await put(3); for await (const row of ctx.db.query("rows")) { seen.push([row.n, (await ctx.db.get(row._id))?.n ?? null]); if (row.n === 0) for (const other of await ctx.db.query("rows").collect()) await (other.n === 1 ? ctx.db.patch(other._id, { n: 8 }) : other.n === 2 ? ctx.db.delete(other._id) : null); } return seen', [[0, 0], [1, 8], [2, None]]),
    "later fetches see what was written": ('await put(150); for await (const row of ctx.db.query("rows")) { seen.push(row.n); if (row.n < 2) await ctx.db.insert("rows", { n: -1 }); } return [seen.length, seen.slice(-2)]', [152, [-1, -1]]),
    "a limit is fetched at once": ('await put(2); const rows = ctx.db.query("rows").limit(3); for await (const row of rows) { seen.push(row.n); await ctx.db.insert("rows", { n: 7 }); } return seen', [0, 1]),
    "a filter looks at what was fetched": ('await put(4); for await (const row of ctx.db.query("rows").filter((q) => q.lt(q.field("score"), 2))) { seen.push(row.n); for (const other of await ctx.db.query("rows").collect()) await ctx.db.patch(other._id, { score: 9 }); } return seen', [0, 1]),
    "what is read in one go before the writes": ('await put(120); for (const row of await ctx.db.query("rows").collect()) await ctx.db.insert("rows", { n: row.n }); return ' + ALL + ".length", 240),
}  # fmt: skip


@pytest.mark.parametrize(("code", "value"), LOOPS.values(), ids=LOOPS.keys())
def test_loops_end_and_meet_each_row_once(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:m", {"code": PUT + code}) == value


def test_a_loop_that_is_left_depends_on_what_it_consumed(fresh: Core) -> None:
    fresh.run("p:m", {"code": PUT + "await put(50)"})
    code = 'for await (const row of ctx.db.query("rows")) if (row.n === 2) break;'
    usage = fresh.call("p:q", {"code": code})["usage"]
    size = fresh.call("p:q", {"code": 'await ctx.db.query("rows").take(3)'})["usage"]
    assert (usage["documentsRead"], usage["databaseQueries"]) == (3, 1)
    assert usage["bytesRead"] == size["bytesRead"]


RAW = 'const ask = (query) => JSON.parse(Convex.syscall("1.0/queryStream", JSON.stringify({ query, version: "1.48.0" }))).queryId; const next = (text) => Convex.asyncSyscall("1.0/queryStreamNext", text).then((row) => JSON.parse(row)); const all = { source: { type: "FullTableScan", tableName: "rows", order: "asc" }, operators: [] };'


def test_first_rows_that_come_with_their_stream_are_those_that_are_asked_for(fresh: Core) -> None:
    fresh.run("p:m", {"code": PUT + "await put(3)"})
    code = f'{RAW} const id = ask(all); const rows = []; for (const text of [`{{ "queryId": ${{id}} }}`, `{{"queryId":${{id}},"more":1}}`, `{{"queryId":${{id}}}}`]) rows.push((await next(text)).value.n); rows.push((await next(`{{"queryId":${{id}}}}`)).done); return rows'
    assert fresh.run("p:q", {"code": code}) == [0, 1, 2, True]
    two = f"{RAW} const [one, other] = [ask(all), ask({{ ...all, operators: [{{ limit: 2 }}] }})]; const read = async (id) => (await next(JSON.stringify({{ queryId: id }}))).value?.n ?? null; return [await read(other), await read(one), await read(other), await read(one), await read(other)]"
    assert fresh.run("p:q", {"code": two}) == [0, 0, 1, 1, None]


def test_a_first_row_that_cannot_be_read_fails_where_it_is_asked_for(fresh: Core) -> None:
    code = (
        PUT + 'const text = "x".repeat(900_000); for (let n = 0; n < 9; n++) await ctx.db.insert("rows", { n, text });'
    )
    fresh.run("p:m", {"code": code})
    fresh.run("p:m", {"code": code})
    read = 'const rows = () => ctx.db.query("rows").first(); let many = 0; try { for (;;) { await rows(); many += 1; } } catch (error) { return [many > 10, String(error).includes("Too many bytes read")]; }'
    assert fresh.run("p:q", {"code": read}) == [True, True]


def test_operations_keep_their_order_when_a_first_row_comes_early(fresh: Core) -> None:
    fresh.run("p:m", {"code": PUT + "await put(2)"})
    code = 'const first = () => ctx.db.query("rows").withIndex("by_score").first(); const row = await first(); const [a, , b] = await Promise.all([first(), ctx.db.patch(row._id, { score: 5 }), first()]); return [a.n, b.n, (await first()).n]'
    assert fresh.run("p:m", {"code": code}) == [0, 1, 1]
