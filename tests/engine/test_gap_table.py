# ruff: noqa: E501 - programs in tables stay on one line
"""Where the in-memory test double differs from the platform, the engine does as the platform: one test per difference."""

import re

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler, PushError

FILES = {
    "p.ts": PROGRAMS,
    "v.ts": """
        import { query, mutation } from "./_generated/server";
        import { v } from "convex/values";
        let calls = 0;
        export const count = query({ args: {}, handler: async () => ++calls });
        export const takes = query({ args: { scores: v.record(v.string(), v.number()) }, handler: async () => null });
        export const gives = query({ args: {}, returns: v.record(v.string(), v.number()), handler: async () => ({ a: "x" }) });
        export const needs = mutation({ args: { n: v.number() }, handler: async () => null });
    """,
    "n.ts": '"use node";\nimport { action } from "./_generated/server";\nimport { createHash } from "node:crypto";\nexport const hash = action({ args: {}, handler: async () => createHash("sha256").update("a").digest("hex").slice(0, 8) });',
    "crons.ts": 'import { cronJobs } from "convex/server"; import { api } from "./_generated/api"; const crons = cronJobs(); crons.interval("tick", { hours: 1 }, api.v.needs, { n: 1 }); export default crons;',
    "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ pathPrefix: "/a/", method: "GET", handler: httpAction(async (_, r) => new Response(new URL(r.url).pathname)) }); export default http;',
    "convex.config.ts": 'import { defineApp } from "convex/server"; import part from "./part/convex.config"; const app = defineApp(); app.use(part); export default app;',
    "part/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("part");',
    "part/lib.ts": 'import { query } from "./_generated/server"; export const page = query({ args: {}, handler: async (ctx) => await ctx.db.query("t").paginate({ numItems: 1, cursor: null }) }); export const garbled = query({ args: {}, handler: async (ctx) => await ctx.db.query("t").paginate({ numItems: 1, cursor: "zzz" }) });',
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          rows: defineTable({ s: v.string(), kind: v.optional(v.string()), scores: v.optional(v.record(v.string(), v.number())) })
            .searchIndex("text", { searchField: "s", filterFields: ["kind"] }),
          loose: defineTable(v.any()),
        });
    """,
}

FAILS = {
    "a page of nothing": (
        "p:q",
        'await ctx.db.query("rows").paginate({ numItems: 0, cursor: null })',
        "Must request at least 1 document while paginating",
    ),
    "a search index that is not declared": (
        "p:q",
        'await ctx.db.query("rows").withSearchIndex("nope", (q) => q.search("s", "x")).collect()',
        "Index rows.nope not found.",
    ),
    "a search filter that is not declared": (
        "p:q",
        'await ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x").eq("other", 1)).collect()',
        "that field isn't indexed for filtering in `filterFields`",
    ),
    "a record in a document": (
        "p:m",
        'await ctx.db.insert("rows", { s: "", scores: { a: "x" } })',
        'Value does not match validator.\nPath: .scores.values()\nValue: "x"\nValidator: v.float64()',
    ),
    "a document of two MiB": (
        "p:m",
        'await ctx.db.insert("loose", { s: "x".repeat(2 * 1024 * 1024) })',
        "Value is too large (2 MiB > maximum size 1 MiB)",
    ),
    "an array of ten thousand": (
        "p:m",
        'await ctx.db.insert("loose", { a: Array(10000).fill(1) })',
        "Array length is too long (10000 > maximum length 8192)",
    ),
    "too many fields": (
        "p:m",
        'await ctx.db.insert("loose", { o: Object.fromEntries(Array.from({ length: 1025 }, (_, i) => ["k" + i, 1])) })',
        "Object has too many fields (1025 > maximum number 1024)",
    ),
    "a field with an underscore": (
        "p:m",
        'await ctx.db.insert("loose", { _x: 1 })',
        "Field '_x' starts with an underscore",
    ),
    "a field with a dollar": ("p:m", 'await ctx.db.insert("loose", { o: { $x: 1 } })', "starts with a '$'"),
    "a deep document": (
        "p:m",
        'let v = 1; for (let i = 0; i < 16; i++) v = { v }; await ctx.db.insert("loose", { v })',
        "Document is too nested (nested 17 levels deep > maximum nesting 16)",
    ),
    "a deep value": (
        "p:q",
        "let v = 1; for (let i = 0; i < 65; i++) v = [v]; return v",
        "Function p.js:q return value invalid: Value is too nested (nested 65 levels deep > maximum nesting 64)",
    ),
    "scheduling what is not there": (
        "p:m",
        "await ctx.scheduler.runAfter(0, t.api.v.nope, {})",
        "Attempted to schedule function, but no exported function nope found in the file: v.js.",
    ),
    "an id that is none": ("p:q", 'await ctx.db.get("garbage")', "Unable to decode ID: Invalid ID length 7"),
    "an endless loop": ("p:q", "for (;;) {}", "Function execution timed out (maximum duration: 1s)"),
    "a page inside a component": (
        "p:q",
        "await ctx.runQuery(t.components.part.lib.page, {})",
        "paginate() is only supported in the app.",
    ),
    "a garbled cursor inside a component": (
        "p:q",
        "await ctx.runQuery(t.components.part.lib.garbled, {})",
        "Failed to parse cursor",
    ),
    "the words of an argument error": ("p:q", None, "ArgumentValidationError: Object is missing the required field"),
    "the words of a schema error": (
        "p:m",
        'await ctx.db.insert("rows", {})',
        'Failed to insert or update a document in table "rows" because it does not match the schema: Object is missing',
    ),
}


@pytest.mark.parametrize(("path", "code", "text"), FAILS.values(), ids=FAILS.keys())
def test_what_the_platform_refuses(fresh: Core, path: str, code: str | None, text: str) -> None:
    assert text in fresh.fails(path, {} if code is None else {"code": code}).message


HOLDS = {
    "a page that exactly ends is not the last": (
        "p:m",
        'for (const s of ["a", "b"]) await ctx.db.insert("rows", { s }); return (await ctx.db.query("rows").paginate({ numItems: 2, cursor: null })).isDone',
        False,
    ),
    "search: any term, prefix of the last only, by relevance": (
        "p:m",
        'for (const s of ["fast-food court", "food", "court foods", "foo fighters"]) await ctx.db.insert("rows", { s });'
        ' const search = async (text) => (await ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", text)).collect()).map((r) => r.s);'
        ' return [await search("food"), await search("foo court"), await search("cou fighters")]',
        [
            ["food", "court foods", "fast-food court"],
            ["foo fighters", "court foods", "fast-food court"],
            ["foo fighters"],
        ],
    ),
    "the clock stands still in a query": (
        "p:q",
        "const a = Date.now(); for (let i = 0, s = 0; i < 3e6; i++) s += i; return Date.now() - a",
        0,
    ),
    "identity is a system call": ("p:q", "return await Convex.asyncSyscall('1.0/getUserIdentity', '{}')", "null"),
    "system calls of actions take names": (
        "p:a",
        "return await Convex.asyncSyscall('1.0/actions/query', JSON.stringify({ name: 'v:count', args: {}, version: '1.48.0', requestId: '' }))",
        "1",
    ),
    "files in a mutation": (
        "p:m",
        'const id = await ctx.storage.store(new Blob(["abc"], { type: "text/plain" })); return [(await ctx.storage.getMetadata(id)).size, (await ctx.db.system.get(id)).contentType]',
        [3, "text/plain"],
    ),
    "ids of the platform's form": (
        "p:m",
        'const id = await ctx.db.insert("rows", { s: "" }); return /^[0-9a-hjkmnp-tv-z]{32}$/.test(id) && ctx.db.normalizeId("rows", id) === id',
        True,
    ),
}


@pytest.mark.parametrize(("path", "code", "value"), HOLDS.values(), ids=HOLDS.keys())
def test_what_the_platform_gives(fresh: Core, path: str, code: str, value: object) -> None:
    assert fresh.run(path, {"code": code}) == value


def test_records_in_arguments_and_results_are_checked(fresh: Core) -> None:
    assert "Path: .scores.values()" in fresh.fails("v:takes", {"scores": {"a": "x"}}).message
    assert fresh.fails("v:gives").detail.startswith(
        "ReturnsValidationError: Value does not match validator.\nPath: .values()"
    )


def test_the_arguments_of_a_job_are_checked_when_it_runs(fresh: Core) -> None:
    fresh.control("clock.start", time=1_700_000_000_000)
    fresh.run("p:m", {"code": 'await ctx.scheduler.runAfter(0, t.api.v.needs, { n: "x" })'})
    fresh.control("clock.advance", ms=1)
    assert fresh.control("scheduled")[0]["state"]["kind"] == "failed"


def test_module_state_does_not_survive(fresh: Core) -> None:
    assert [fresh.run("v:count") for _ in range(3)] == [1, 1, 1]


def test_uploaded_files_have_their_type_and_an_address(fresh: Core) -> None:
    upload = fresh.run("p:m", {"code": "return await ctx.storage.generateUploadUrl()"})
    identifier = request(upload, b"hello", {"Content-Type": "text/csv"}).json()["storageId"]
    row = fresh.run("p:q", {"code": "return await ctx.db.system.get(args)", "args": identifier})
    assert (row["contentType"], row["size"]) == ("text/csv", 5)
    url = fresh.run("p:q", {"code": "return await ctx.storage.getUrl(args)", "args": identifier})
    assert re.fullmatch(rf"{fresh.url}/api/storage/[0-9a-f-]{{36}}", url)
    assert request(url).body == b"hello"


def test_crons_routes_node_and_variables_exist(fresh: Core) -> None:
    fresh.control("clock.start", time=1_700_000_000_000)
    fresh.control("clock.advance", ms=2 * 3_600_000)
    assert len(fresh.control("cronRuns")) == 3
    assert request(f"{fresh.site}/a/b").text == "/a/b"
    assert request(f"{fresh.site}/c").text == "No matching routes found"
    assert fresh.run("n:hash") == "ca978112"
    fresh.control("env.set", variables={"COLOUR": "blue"})
    assert fresh.run("p:q", {"code": "return process.env.COLOUR"}) == "blue"


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ('.index("i", ["nope"] as any)', 'references the field "nope" that does not exist'),
        ('.index("i", ["a"]).index("i", ["b"])', 'has two or more definitions of index "i"'),
        ('.index("by_id", ["a"])', "because the name is reserved"),
        ('.index("i", ["a", "_creationTime"])', "`_creationTime` is automatically added"),
    ],
)
def test_indexes_are_checked_by_the_push(bundler: Bundler, core: Core, index: str, text: str) -> None:
    schema = f'import {{ defineSchema, defineTable }} from "convex/server"; import {{ v }} from "convex/values"; export default defineSchema({{ t: defineTable({{ a: v.string(), b: v.string() }}){index} }});'
    with pytest.raises(PushError, match=re.escape(text)):
        bundler.push(core, {"schema.ts": schema})
