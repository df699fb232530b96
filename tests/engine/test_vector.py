# ruff: noqa: E501 - programs in tables stay on one line
"""Vector search: scores and their order, what is indexed, filters, limits, mistakes."""

import math
from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ rows: defineTable(v.any())
            .vectorIndex("near", { vectorField: "o.vec", dimensions: 3, filterFields: ["a", "b"] })
            .vectorIndex("later", { vectorField: "w", dimensions: 2, staged: true }) });
    """,
}
NEAR = 'const near = async (vector, options = {}) => (await ctx.vectorSearch("rows", "near", { vector, ...options }));'


def put(app: Core, *vectors: Any) -> list[str]:
    rows = [{"n": n, "o": {"vec": vector}} for n, vector in enumerate(vectors)]
    return app.control("insert", table="rows", documents=rows)["ids"]


def test_scores_are_cosines_in_single_precision_best_first(fresh: Core) -> None:
    ids = put(fresh, [1, 0, 0], [0, 2, 0], [3, 4, 0], [-5, 0, 0], [0, 0, 0])
    found = fresh.run("p:a", {"code": f"{NEAR} return await near([2, 0, 0])"})
    assert [set(row) for row in found] == [{"_id", "_score"}] * 5
    scores = {row["_id"]: row["_score"] for row in found}
    assert [round(scores[key], 6) for key in ids] == [1, 0, 0.6, -1, 0]
    assert [row["_id"] for row in found][:2] == [ids[0], ids[2]]
    assert found[-1]["_id"] == ids[3]
    assert scores[ids[2]] != 0.6, "0.6 has no exact single"
    assert math.isclose(scores[ids[2]], 0.6, abs_tol=1e-6)


def test_equal_scores_come_in_a_fixed_order(fresh: Core) -> None:
    ids = put(fresh, *([1, 1, 1] for _ in range(6)))
    found = [row["_id"] for row in fresh.run("p:a", {"code": f"{NEAR} return await near([1, 1, 1])"})]
    assert found == sorted(ids, reverse=True)


def test_only_arrays_of_the_right_length_of_numbers_are_indexed(fresh: Core) -> None:
    put(fresh, [1, 0], [1, 0, 0, 0], ["1", "0", "0"], "vector", None)
    fresh.run(
        "p:m",
        {"code": 'await ctx.db.insert("rows", { o: { vec: [1n, 0n, 0n] } }); await ctx.db.insert("rows", { o: 1 })'},
    )
    assert fresh.run("p:a", {"code": f"{NEAR} return await near([1, 0, 0])"}) == []


def test_changes_and_deletions_show_in_the_same_action(fresh: Core) -> None:
    one, two = put(fresh, [1, 0, 0], [0, 1, 0])
    code = """const ids = async () => (await near([1, 0, 0])).filter((r) => r._score > 0.5).map((r) => r._id);
        const change = (code, args) => ctx.runMutation(t.internal.p.innerM, { code, args });
        const seen = [await ids()];
        await change("await ctx.db.delete(args)", args[0]); seen.push(await ids());
        await change("await ctx.db.patch(args, { o: { vec: [1, 0, 0] } })", args[1]); seen.push(await ids());
        await change("await ctx.db.patch(args, { o: { vec: [0, 0, 1] } }); throw new Error()", args[1]).catch(() => 0); seen.push(await ids());
        return seen"""
    assert fresh.run("p:a", {"code": NEAR + code, "args": [one, two]}) == [[one], [], [two], [two]]


def test_ten_unless_more_are_asked_for(fresh: Core) -> None:
    put(fresh, *([n, 1, 0] for n in range(300)))
    code = f"{NEAR} return (await near([1, 0, 0], args)).length"
    for options, length in [({}, 10), ({"limit": 256}, 256), ({"limit": 0}, 0), ({"limit": 1}, 1)]:
        assert fresh.run("p:a", {"code": code, "args": options}) == length


def test_a_table_that_is_not_there_has_nothing_near(fresh: Core) -> None:
    assert fresh.run("p:a", {"code": 'return await ctx.vectorSearch("none", "near", { vector: [1] })'}) == []


MISTAKES = {
    "a limit above 256": ("near([1, 0, 0], { limit: 257 })", "Vector queries can fetch at most 256 results, requested 257."),
    "a negative limit": ("near([1, 0, 0], { limit: -1 })", "Your request couldn't be completed. Try again later."),
    "half a limit": ("near([1, 0, 0], { limit: 1.5 })", "Your request couldn't be completed. Try again later."),
    "a vector that is no number": ("near([1, NaN, 0])", "Your request couldn't be completed. Try again later."),
    "too few dimensions": ("near([1, 0])", "Expected a vector with dimensions 3, received 2."),
    "a filter on another field, before the dimensions": ('near([1], { filter: (q) => q.eq("c", 1) })', 'Vector query against rows.near contains a filter on "c"'),
    "the limit, before the filter": ('near([1], { limit: 300, filter: (q) => q.eq("c", 1) })', "Vector queries can fetch at most 256 results"),
    "65 conditions": ('near([1, 0, 0], { filter: (q) => q.or(...Array.from({ length: 65 }, (_, i) => q.eq("a", i))) })', "Vector query against rows.near has too many conditions. Max: 64 Actual: 65"),
    "a filter that is no filter": ('Convex.asyncSyscall("1.0/actions/vectorSearch", JSON.stringify({ query: { indexName: "rows.near", limit: 1, vector: [1, 0, 0], expressions: { $and: [] } } }))', "Filters should be a combination of `q.eq` and `q.or`."),
    "a staged index": ('ctx.vectorSearch("rows", "later", { vector: [1, 0] })', "Index rows.later is currently staged and not available to query until it is enabled."),
    "an index of another kind": ('ctx.vectorSearch("rows", "by_creation_time", { vector: [1, 0] })', "Index rows.by_creation_time not found."),
}  # fmt: skip


@pytest.mark.parametrize(("call", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(fresh: Core, call: str, text: str) -> None:
    assert text in fresh.fails("p:a", {"code": f"{NEAR} return await {call}"}).message


def test_the_same_condition_counts_once(fresh: Core) -> None:
    put(fresh, [1, 0, 0])
    same = 'near([1, 0, 0], { filter: (q) => q.or(...Array.from({ length: 100 }, () => q.eq("a", undefined))) })'
    assert len(fresh.run("p:a", {"code": f"{NEAR} return await {same}"})) == 1


def test_vectors_are_found_after_an_index_was_added(core: Core, bundler: Bundler) -> None:
    core.control("wipe")
    bundler.push(core, {"p.ts": PROGRAMS})
    put(core, [1, 0, 0])
    assert "Index rows.near not found." in core.fails("p:a", {"code": f"{NEAR} return await near([1, 0, 0])"}).message
    bundler.push(core, FILES)
    assert len(core.run("p:a", {"code": f"{NEAR} return await near([1, 0, 0])"})) == 1
