# ruff: noqa: E501 - programs in tables stay on one line
"""Limits beside those of a transaction: tables, sizes, variables, operators, endless loops of system calls."""

import pytest

from .support.core import ControlError, Core
from .support.programs import PROGRAMS
from .support.project import Bundler
from .support.pushes import PUSH, refusal

FILES = {"p.ts": PROGRAMS}
MIB = 1024 * 1024

REFUSED = {
    "a field name of 1025 characters": ("p:m", 'await ctx.db.insert("t", { o: { ["f".repeat(1025)]: 1 } })', "exceeds maximum field name length 1024"),
    "arguments of a nested call": ("p:m", 'await ctx.runQuery(t.internal.p.innerQ, { code: "", args: "x".repeat(17 * 1024 * 1024) })', "Arguments for p.js:innerQ are too large (actual: 17 MiB, limit: 16 MiB)"),
    "a result of a nested call": ("p:m", "await ctx.runQuery(t.internal.p.innerQ, { code: `return 'x'.repeat(17 * 1024 * 1024)` })", "Function p.js:innerQ return value is too large (actual: 17 MiB, limit: 16 MiB)"),
    "arguments of scheduled functions": ("p:m", 'for (let i = 0; i < 5; i++) await ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: "", args: "x".repeat(4 * 1024 * 1024) })', "Too large total size of the arguments of scheduled functions from this mutation (limit: 16777216 bytes)"),
    "operators of a query": ("p:q", 'let q = ctx.db.query("t"); for (let i = 0; i < 257; i++) q = q.filter((f) => true); await q.collect()', "Can't construct query with more than 256 operators"),
    "operators of a query without the library": ("p:q", 'Convex.syscall("1.0/queryStream", JSON.stringify({ query: { source: { type: "FullTableScan", tableName: "t", order: "asc" }, operators: Array(257).fill({ limit: 1 }) }, version: "1.48.0" }))', "Can't construct query with more than 256 operators"),
    "random bytes at a time": ("p:q", "crypto.getRandomValues(new Uint8Array(65537))", "exceeds the number of bytes of entropy available"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_too_much_is_refused(fresh: Core, path: str, code: str, text: str) -> None:
    assert text in fresh.fails(path, {"code": code}).message


def test_arguments_are_limited_before_the_function_runs(fresh: Core) -> None:
    error = fresh.fails("p:q", {"code": "return 1", "args": "x" * (17 * MIB)})
    assert error.detail.startswith("Arguments for p.js:q are too large (actual: 17 MiB, limit: 16 MiB)")


ENDLESS = {
    "reads of nothing": ('const id = await ctx.db.insert("t", {}); await ctx.db.delete(id); for (;;) await ctx.db.get(id)', "Your request timed out performing too many system operations."),
    "calls of the library": ("for (;;) ctx.db.normalizeId('t', 'x')", "Function execution timed out (maximum duration: 1s)"),
    "patches that change nothing": ('const id = await ctx.db.insert("t", {}); for (;;) await ctx.db.patch(id, {})', "Too many documents read in a single function execution (limit: 32000)."),
}  # fmt: skip


@pytest.mark.parametrize(("code", "text"), ENDLESS.values(), ids=ENDLESS.keys())
def test_an_endless_loop_of_system_calls_ends(fresh: Core, code: str, text: str) -> None:
    assert text in fresh.fails("p:m", {"code": code}).message
    assert fresh.run("p:q", {"code": "return 1"}) == 1


VARIABLES = {
    "name": ({"a-b": "x"}, "EnvironmentVariableNameInvalid", 'Environment variable name "a-b" is invalid'),
    "name that begins with a digit": ({"1a": "x"}, "EnvironmentVariableNameInvalid", '"1a" is invalid'),
    "long name": ({"a" * 257: "x"}, "EnvironmentVariableNameTooLong", "longer than 256 characters"),
    "long value": ({"A": "x" * 8193}, "EnvironmentVariableValueTooLong", "The value of A is larger than 8192 bytes"),
    "built-in name": ({"CONVEX_SITE_URL": "x"}, "EnvVarNameForbidden", '"CONVEX_SITE_URL" is built-in'),
    "too many": ({f"A{n}": "" for n in range(513)}, "EnvVarLimitMet", "At most 512 environment variables can be set"),
    "too large together": ({f"A{n}": "x" * 8000 for n in range(66)}, "EnvVarLimitMet", "larger than 524288 bytes in total"),
}  # fmt: skip


@pytest.mark.parametrize(("variables", "code", "text"), VARIABLES.values(), ids=VARIABLES.keys())
def test_variables_are_limited_and_set_together(fresh: Core, variables: dict[str, str], code: str, text: str) -> None:
    with pytest.raises(ControlError) as refused:
        fresh.control("env.set", variables={"FINE": "1", **variables})
    assert refused.value.code == code
    assert text in refused.value.message
    assert fresh.control("env.list") == {}


def test_an_app_has_ten_thousand_tables(bundler: Bundler) -> None:
    def tables(count: int) -> dict[str, str]:
        text = f'import {{ defineSchema, defineTable }} from "convex/server"; export default defineSchema(Object.fromEntries(Array.from({{ length: {count} }}, (_, i) => [`t${{i}}`, defineTable({{}})])));'
        return {"p.ts": PROGRAMS, "schema.ts": text}

    core = Core()
    try:
        refused = refusal(core, bundler, tables(10_001))
        assert (refused.status, refused.code) == (400, "TooManyTables")
        assert refused.message == PUSH + "Number of tables cannot exceed 10000."
        bundler.push(core, tables(9_999))
        insert = "return typeof await ctx.db.insert(args, {})"
        assert core.run("p:m", {"code": insert, "args": "one_more"}) == "string"
        error = core.fails("p:m", {"code": insert, "args": "too_many"})
        assert "Number of tables cannot exceed 10000." in error.message
        assert core.run("p:m", {"code": insert, "args": "one_more"}) == "string"
        refused = refusal(core, bundler, tables(10_000))
        assert refused.code == "TooManyTables"
    finally:
        core.close()
