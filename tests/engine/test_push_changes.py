# ruff: noqa: E501 - programs stay on one line
"""A second push: stored data is validated, indexes change with their data, and a refused push changes nothing."""

from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler, PushError
from .support.pushes import component, refusal, schema

READ = 'return (await ctx.db.query("t").withIndex("by_n").collect()).map((r) => r.n)'
STAGED = "Index t.by_n is currently staged and not available to query until it is enabled."
MISSING = "Index t.by_n not found."


@pytest.fixture
def empty(core: Core) -> Core:
    core.control("wipe")
    return core


def push(core: Core, bundler: Bundler, indexes: str = "", fields: str = "n: v.number()") -> dict[str, Any]:
    """Pushes a table t with these indexes; what the server says about the indexes of the app."""
    started = bundler.push(core, {"p.ts": PROGRAMS, **schema(f"t: defineTable({{ {fields} }}){indexes}")})
    diff = started["schemaChange"]["indexDiffs"][""]
    return {kind: [index["name"] for index in found] for kind, found in diff.items() if found}


def fill(core: Core, *numbers: int) -> None:
    core.control("insert", table="t", documents=[{"n": n} for n in numbers])


def test_a_refused_push_leaves_the_old_deployment(empty: Core, bundler: Bundler) -> None:
    push(empty, bundler)
    fill(empty, 1)
    before = empty.control("schema")
    with pytest.raises(PushError):
        bundler.push(empty, {"p.ts": PROGRAMS, "m.ts": 'export const x = 1; throw new Error("bad");'})
    with pytest.raises(PushError):
        push(empty, bundler, '.index("by_n", ["n"])', "n: v.string()")
    assert empty.run("p:q", {"code": "return 1"}) == 1
    assert empty.control("schema") == before
    assert MISSING in empty.fails("p:q", {"code": READ}).message
    assert empty.run("p:m", {"code": 'return typeof await ctx.db.insert("t", { n: 4 })'}) == "string"


def test_indexes_of_a_second_push_are_built_and_dropped(empty: Core, bundler: Bundler) -> None:
    push(empty, bundler)
    fill(empty, 3, 1, 2)
    assert push(empty, bundler, '.index("by_n", ["n"])') == {"added_indexes": ["t.by_n"]}
    assert empty.run("p:q", {"code": READ}) == [1, 2, 3]
    assert push(empty, bundler, '.index("by_n", ["n"])') == {}
    assert push(empty, bundler) == {"removed_indexes": ["t.by_n"]}
    assert MISSING in empty.fails("p:q", {"code": READ}).message


def test_a_staged_index_is_enabled_and_removed_with_its_data(empty: Core, bundler: Bundler) -> None:
    staged = '.index("by_n", { fields: ["n"], staged: true })'
    push(empty, bundler)
    fill(empty, 3, 1)
    assert push(empty, bundler, staged) == {"added_indexes": ["t.by_n"]}
    stored = empty.control("schema")["tables"][0]
    assert (stored["indexes"], [index["indexDescriptor"] for index in stored["stagedDbIndexes"]]) == ([], ["by_n"])
    assert STAGED in empty.fails("p:q", {"code": READ}).message
    fill(empty, 2)
    assert push(empty, bundler, '.index("by_n", ["n"])') == {"enabled_indexes": ["t.by_n"]}
    assert empty.run("p:q", {"code": READ}) == [1, 2, 3]
    assert push(empty, bundler, staged) == {"disabled_indexes": ["t.by_n"]}
    assert STAGED in empty.fails("p:q", {"code": READ}).message
    fill(empty, 0)
    push(empty, bundler, '.index("by_n", ["n"])')
    assert empty.run("p:q", {"code": READ}) == [0, 1, 2, 3]
    assert push(empty, bundler) == {"removed_indexes": ["t.by_n"]}
    assert MISSING in empty.fails("p:q", {"code": READ}).message


def test_an_index_of_the_same_name_is_built_anew(empty: Core, bundler: Bundler) -> None:
    fields = "n: v.number(), m: v.number()"
    push(empty, bundler, '.index("by_n", ["n"])', fields)
    empty.control("insert", table="t", documents=[{"n": 1, "m": 9}, {"n": 2, "m": 8}])
    changed = push(empty, bundler, '.index("by_n", ["m"])', fields)
    assert changed == {"added_indexes": ["t.by_n"], "removed_indexes": ["t.by_n"]}
    assert empty.run("p:q", {"code": READ}) == [2, 1]


def test_stored_documents_must_match_a_narrower_schema(empty: Core, bundler: Bundler) -> None:
    push(empty, bundler, fields="n: v.any()")
    fill(empty, 1)
    refused = refusal(empty, bundler, {"p.ts": PROGRAMS, **schema("t: defineTable({ n: v.string() })")})
    assert (refused.status, refused.code) == (200, "failed")
    (identifier,) = [row["_id"] for row in empty.control("list", table="t")["documents"]]
    start = f'Document with ID "{identifier}" in table "t" does not match the schema: Value does not match validator.'
    assert refused.message.startswith(start)
    assert empty.control("pushes")["refusal"].startswith(start)
    push(empty, bundler, fields="n: v.union(v.string(), v.number())")
    unchecked = schema("t: defineTable({ n: v.string() })", ", { schemaValidation: false }")
    bundler.push(empty, {"p.ts": PROGRAMS, **unchecked})
    assert empty.run("p:m", {"code": 'return typeof await ctx.db.insert("t", { n: true })'}) == "string"


def test_documents_outlive_their_table_in_the_schema_and_the_schema(empty: Core, bundler: Bundler) -> None:
    push(empty, bundler, '.index("by_n", ["n"])')
    fill(empty, 1)
    bundler.push(empty, {"p.ts": PROGRAMS, **schema("other: defineTable({})")})
    rows = 'return (await ctx.db.query("t").collect()).map((r) => r.n)'
    assert empty.run("p:q", {"code": rows}) == [1]
    bundler.push(empty, {"p.ts": PROGRAMS})
    assert empty.control("schema") is None
    assert empty.run("p:m", {"code": 'await ctx.db.insert("t", { n: "anything" }); ' + rows}) == [1, "anything"]
    assert MISSING in empty.fails("p:q", {"code": READ}).message


def test_a_component_that_comes_back_finds_its_data(empty: Core, bundler: Bundler) -> None:
    lib = 'import { query, mutation } from "./_generated/server"; export const add = mutation({ args: {}, handler: async (ctx) => { await ctx.db.insert("t", {}); } }); export const count = query({ args: {}, handler: async (ctx) => (await ctx.db.query("t").collect()).length });'
    mounted = {"p.ts": PROGRAMS, **component("const app = defineApp(); app.use(c);", c__lib=lib)}
    bundler.push(empty, mounted)
    empty.run("p:m", {"code": "await ctx.runMutation(t.components.c.lib.add, {})"})
    bundler.push(empty, {"p.ts": PROGRAMS})
    assert [item["path"] for item in empty.control("components")] == [""]
    bundler.push(empty, mounted)
    assert empty.run("p:q", {"code": "return await ctx.runQuery(t.components.c.lib.count, {})"}) == 1
