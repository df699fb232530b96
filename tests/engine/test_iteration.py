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
