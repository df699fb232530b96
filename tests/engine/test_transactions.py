# ruff: noqa: E501 - programs in tables stay on one line
"""Transactions: nested calls, rollback, limits, conflicts under concurrency."""

import json
from pathlib import Path

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import run_node

FILES = {
    "p.ts": PROGRAMS,
    "others.ts": PROGRAMS,
    "bank.ts": """
        import { query, mutation, internalMutation } from "./_generated/server";
        import { v } from "convex/values";
        export const open = mutation({ args: { n: v.number() }, handler: async (ctx, { n }) => { for (let i = 0; i < n; i++) await ctx.db.insert("accounts", { i, balance: 100 }); } });
        const move = mutation({ args: { from: v.number(), to: v.number(), amount: v.number() }, handler: async (ctx, a) => {
          const rows = await ctx.db.query("accounts").collect();
          const from = rows.find((r) => r.i === a.from), to = rows.find((r) => r.i === a.to);
          await ctx.db.patch(from._id, { balance: from.balance - a.amount });
          await ctx.db.patch(to._id, { balance: (await ctx.db.get(to._id)).balance + a.amount });
        } });
        export { move as pay, move as send };
        export const strict = mutation({ args: { n: v.number() }, returns: v.string(), handler: async (ctx, { n }) => { await ctx.db.insert("t", { n }); return n; } });
        export const needs = internalMutation({ args: { n: v.number() }, handler: async () => null });
    """,
}

RESULTS = {
    "a failed nested mutation is undone and can be caught": (
        'await ctx.db.insert("t", { n: 0 });'
        ' try { await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert("t", { n: 1 }); throw new Error("inner")` }); } catch (e) { await ctx.db.insert("t", { n: 2 }); }'
        ' return (await ctx.db.query("t").collect()).map((r) => r.n)',
        [0, 2],
    ),
    "the caller gets the whole text of the callee": (
        'try { await ctx.runMutation(t.internal.p.innerM, { code: `throw new Error("boom")` }); } catch (e) { return [e.message.startsWith("Uncaught Error: boom\\n"), e instanceof Error] }',
        [True, True],
    ),
    "data of a ConvexError survives": (
        "try { await ctx.runQuery(t.internal.p.innerQ, { code: `throw new t.ConvexError({ a: 1n })` }); } catch (e) { return [e instanceof t.ConvexError, e.data.a === 1n] }",
        [True, True],
    ),
    "a nested call sees the writes of its caller": (
        'await ctx.db.insert("t", { n: 7 }); return await ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.db.query("t").first()).n` })',
        7,
    ),
    "a stale snapshot does not": (
        'await ctx.db.insert("t", { n: 7 }); return await ctx.runQuery(t.internal.p.innerQ, { code: `return await ctx.db.query("t").first()` }, { useStaleSnapshot: true })',
        None,
    ),
    "writes of a callee whose result is refused stay": (
        'try { await ctx.runMutation(t.api.bank.strict, { n: 1 }); } catch (e) { return [e.message.includes("ReturnsValidationError"), (await ctx.db.query("t").collect()).length] }',
        [True, 1],
    ),
    "argument errors of nested calls": (
        'try { await ctx.runMutation(t.internal.bank.needs, { n: "x" }); } catch (e) { return e.message.split("\\n")[0] }',
        "ArgumentValidationError: Value does not match validator.",
    ),
    "writes run in the order they were made": (
        'await Promise.all([1, 2, 3].map((n) => ctx.db.insert("t", { n }))); return (await ctx.db.query("t").collect()).map((r) => r.n)',
        [1, 2, 3],
    ),
    "a budget on a nested call": (
        'for (let n = 0; n < 5; n++) await ctx.db.insert("t", { n });'
        ' try { await ctx.runQuery(t.internal.p.innerQ, { code: `return await ctx.db.query("t").collect()` }, { transactionLimits: { documentsRead: 3 } }); } catch (e) { return e.message.includes("Too many documents read in a single function execution (limit: 3)") }',
        True,
    ),
    "metrics": (
        'await ctx.db.insert("t", { n: 1 }); await ctx.db.query("t").collect(); const m = await ctx.meta.getTransactionMetrics(); return [m.documentsWritten.used, m.documentsRead, m.databaseQueries.used]',
        [1, {"used": 1, "remaining": 31999}, 1],
    ),
    "reads of a rolled back call count, writes do not": (
        'await ctx.db.insert("t", { n: 1 }); try { await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.query("t").collect(); await ctx.db.insert("t", { n: 2 }); throw new Error()` }); } catch {}'
        " const m = await ctx.meta.getTransactionMetrics(); return [m.documentsRead.used, m.documentsWritten.used]",
        [1, 1],
    ),
}


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_nested_calls(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:m", {"code": code}) == value


def test_a_mutation_that_throws_or_returns_wrongly_writes_nothing(fresh: Core) -> None:
    fresh.fails("p:m", {"code": 'console.log("kept"); await ctx.db.insert("t", { n: 1 }); throw new Error("x")'})
    assert fresh.fails("bank:strict", {"n": 1}).detail.startswith(
        "ReturnsValidationError: Value does not match validator.\n\nValue: 1.0\nValidator: v.string()"
    )
    assert fresh.control("list", table="t")["documents"] == []
    assert fresh.control("logs")[0]["logLines"] == ["[LOG] 'kept'"]


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        (
            "p:q",
            "await Convex.asyncSyscall('1.0/runUdf', JSON.stringify({ udfType: 'mutation', name: 'p:innerM', args: {} }))",
            "Cannot call a Mutation function from a Query function",
        ),
        (
            "p:m",
            "await ctx.runQuery(t.internal.p.innerM, { code: '' })",
            "Trying to execute p.js:innerM as Query, but it is defined as Mutation.",
        ),
        (
            "p:m",
            "const deep = (n) => n === 0 ? `` : `await ctx.runQuery(t.internal.p.innerQ, { code: ${JSON.stringify(deep(n - 1))} })`; await ctx.runQuery(t.internal.p.innerQ, { code: deep(8) })",
            "Cross component call depth limit exceeded.",
        ),
    ],
)
def test_calls_that_are_not_allowed(fresh: Core, path: str, code: str, text: str) -> None:
    assert text in fresh.fails(path, {"code": code}).message


LIMITS = {
    "documents written": (
        'for (let i = 0; i < 16001; i++) await ctx.db.insert("t", {})',
        "Too many writes in a single function execution (limit: 16000)",
    ),
    "bytes written": (
        'for (let i = 0; i < 17; i++) await ctx.db.insert("t", { s: "x".repeat(1000000) })',
        "Too many bytes written in a single function execution (limit: 16 MiB)",
    ),
    "ranges": (
        'for (let i = 0; i < 4097; i++) await ctx.db.query("t").withIndex("by_creation_time", (q) => q.eq("_creationTime", i)).first()',
        "Too many reads in a single function execution (limit: 4096).",
    ),
    "scheduled": (
        "for (let i = 0; i < 1001; i++) await ctx.scheduler.runAfter(1e9, t.internal.p.innerM, { code: `` })",
        "Too many functions scheduled by this mutation (limit: 1000)",
    ),
}


@pytest.mark.parametrize(("code", "text"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_of_a_transaction(fresh: Core, code: str, text: str) -> None:
    fresh.control("insert", table="t", documents=[{}])
    assert text in fresh.fails("p:m", {"code": code}).message
    assert fresh.control("scheduled") == []


def test_reading_too_many_documents(fresh: Core) -> None:
    fresh.control("insert", table="t", documents=[{"n": number} for number in range(32001)])
    error = fresh.fails("p:q", {"code": 'return (await ctx.db.query("t").collect()).length'})
    assert "Too many documents read in a single function execution (limit: 32000)." in error.message


def test_transfers_under_concurrency_lose_and_double_nothing(fresh: Core, tmp_path: Path) -> None:
    script = """
        import { ConvexClient } from "convex/browser";
        import { anyApi as api } from "convex/server";
        const clients = Array.from({ length: 8 }, () => new ConvexClient(process.env.URL_));
        await clients[0].mutation(api.bank.open, { n: 6 });
        let seed = 7; const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
        let failed = 0;
        await Promise.all(clients.map(async (client) => {
          for (let k = 0; k < 15; k++) await client.mutation(k % 2 ? api.bank.pay : api.bank.send, { from: random(6), to: random(6), amount: 1 }).catch(() => failed++);
        }));
        console.log(JSON.stringify(failed));
        for (const client of clients) await client.close();
    """
    assert json.loads(run_node(script, tmp_path, URL_=fresh.url).splitlines()[-1]) == 0
    rows = fresh.control("list", table="accounts")["documents"]
    assert sum(row["balance"] for row in rows) == 600
    assert fresh.control("stats")["conflicts"] > 0


def test_everybody_who_counts_up_one_row_succeeds(fresh: Core) -> None:
    """Callers of two functions that come together conflict; then each has its turn."""
    fresh.control("insert", table="t", documents=[{"n": 0}])
    before = fresh.control("stats")["conflicts"]
    add = 'const row = await ctx.db.query("t").first(); await ctx.db.patch(row._id, { n: row.n + 1 }); return row.n'
    paths = ["p:m", "others:m"] * 30
    calls = [fresh.lines.begin(op="call", params={"path": path, "args": {"code": add}}) for path in paths]
    assert sorted(answer()["ok"]["value"] for answer in calls) == list(range(60))
    assert fresh.control("stats")["conflicts"] > before
