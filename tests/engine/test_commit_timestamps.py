# ruff: noqa: E501 - programs in tables stay on one line
"""`db.vars.commitTs`: a value that is known once the mutation has committed."""

import base64
from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ log: defineTable({ n: v.number(), at: v.commitTs(), more: v.optional(v.any()) }).index("by_at", ["at"]), notes: defineTable(v.any()) });',
    "typed.ts": """
        import { v } from "convex/values";
        import { internalMutation, internalQuery, mutation } from "./_generated/server";
        export const echo = internalMutation({ args: { at: v.commitTs() }, returns: v.commitTs(), handler: async (ctx, { at }) => { await ctx.db.insert("log", { n: 9, at }); return at; } });
        export const first = internalQuery({ args: {}, returns: v.any(), handler: async (ctx) => (await ctx.db.query("log").first())?.at ?? null });
        export const wrong = mutation({ args: {}, returns: v.string(), handler: async (ctx) => ctx.db.vars.commitTs as any });
    """,
}


def number(value: dict[str, str]) -> int:
    return int.from_bytes(base64.b64decode(value["$integer"]), "little", signed=True)


def change(app: Core, code: str) -> Any:
    return app.run("p:m", {"code": code})


def stamps(app: Core) -> list[int]:
    return [number(row["at"]) for row in app.control("list", table="log")["documents"]]


INSERT = "const id = await ctx.db.insert('log', { n: 1, at: ctx.db.vars.commitTs });"


def test_rows_of_one_commit_share_a_stamp_and_commits_follow_each_other(fresh: Core) -> None:
    change(fresh, INSERT + INSERT.replace("const id =", ""))
    change(fresh, INSERT)
    first, second, third = stamps(fresh)
    assert first == second < third
    assert abs(first / 1e6 - fresh.control("clock.now")["now"]) < 600_000, "nanoseconds since the epoch"


def test_an_index_finds_what_was_committed_since(fresh: Core) -> None:
    change(fresh, INSERT)
    seen = stamps(fresh)[0]
    change(fresh, "await ctx.db.insert('log', { n: 2, at: ctx.db.vars.commitTs })")
    code = f"return (await ctx.db.query('log').withIndex('by_at', (q) => q.gt('at', {seen}n)).collect()).map((row) => row.n)"
    assert fresh.run("p:q", {"code": code}) == [2]


RESULTS = {
    "it is read back as the placeholder": (INSERT + "return (await ctx.db.get(id)).at === ctx.db.vars.commitTs", True),
    "it cannot be computed with": (
        INSERT
        + "const { at } = await ctx.db.get(id); try { return at + 1n } catch (error) { return error.message.slice(0, 36) }",
        "This commit timestamp is unresolved:",
    ),
    "it sorts after every number": (
        "await ctx.db.insert('log', { n: 5, at: 9223372036854775806n });"
        + INSERT
        + "return (await ctx.db.query('log').withIndex('by_at').collect()).map((row) => row.n)",
        [5, 1],
    ),
    "it bounds a range": (
        INSERT
        + "return (await ctx.db.query('log').withIndex('by_at', (q) => q.gte('at', ctx.db.vars.commitTs)).collect()).length",
        1,
    ),
    "a nested query sees it": (
        INSERT + "return await ctx.runQuery(t.internal.typed.first, {}) === ctx.db.vars.commitTs",
        True,
    ),
    "a nested mutation takes and returns it": (
        "return await ctx.runMutation(t.internal.typed.echo, { at: ctx.db.vars.commitTs }) === ctx.db.vars.commitTs",
        True,
    ),
}


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_before_the_commit(fresh: Core, code: str, value: object) -> None:
    assert change(fresh, code) == value


def test_it_is_filled_in_wherever_it_was_written(fresh: Core) -> None:
    change(
        fresh, "const at = ctx.db.vars.commitTs; await ctx.db.insert('notes', { list: [at, { deep: at }], plain: 1 })"
    )
    [note] = fresh.control("list", table="notes")["documents"]
    assert number(note["list"][0]) == number(note["list"][1]["deep"]) > 10**18
    change(fresh, f"await ctx.db.patch('{note['_id']}', {{ plain: ctx.db.vars.commitTs }})")
    [later] = fresh.control("list", table="notes")["documents"]
    assert number(later["plain"]) > number(later["list"][0]) == number(note["list"][0])


def test_a_mutation_returns_the_stamp_of_its_commit(fresh: Core) -> None:
    assert number(change(fresh, INSERT + "return ctx.db.vars.commitTs")) == stamps(fresh)[0]


REFUSED = {
    "a job": ("p:m", "await ctx.scheduler.runAfter(0, t.internal.typed.echo, { at: ctx.db.vars.commitTs })"),
    "a call of an action": (
        "p:a",
        "await Convex.asyncSyscall('1.0/actions/mutation', JSON.stringify({ name: 'typed:echo', args: { at: { $commitTs: null } } }))",
    ),
    "a call of a query": (
        "p:q",
        "await Convex.asyncSyscall('1.0/runUdf', JSON.stringify({ udfType: 'query', name: 'p:innerQ', args: { code: 'return 1', args: { $commitTs: null } } }))",
    ),
}


@pytest.mark.parametrize(("path", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_where_it_means_nothing(fresh: Core, path: str, code: str) -> None:
    assert "Field name $commitTs starts with '$'" in fresh.fails(path, {"code": code}).message


def test_clients_cannot_send_it_and_validators_hold(fresh: Core) -> None:
    args = {"code": "return 1", "args": {"$commitTs": None}}
    assert "Field name $commitTs starts with '$'" in fresh.fails("p:m", args).message
    assert "ReturnsValidationError" in fresh.fails("typed:wrong").message
    assert (
        "does not match the schema"
        in fresh.fails("p:m", {"code": "await ctx.db.insert('log', { n: 1, at: 5 })"}).message
    )


def test_conflicting_commits_still_get_stamps_in_order(fresh: Core) -> None:
    code = "const last = await ctx.db.query('log').withIndex('by_at').order('desc').first(); await ctx.db.insert('log', { n: (last?.n ?? 0) + 1, at: ctx.db.vars.commitTs })"
    waiting = [fresh.lines.begin(op="call", params={"path": "p:m", "args": {"code": code}}) for _ in range(6)]
    assert all("error" not in answer()["ok"] for answer in waiting)
    rows = sorted(fresh.control("list", table="log")["documents"], key=lambda row: number(row["at"]))
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5, 6]
