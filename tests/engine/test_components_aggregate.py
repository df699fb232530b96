# ruff: noqa: E501 - programs in tables stay on one line
"""@convex-dev/aggregate: trees of counts and sums, compared with a plain computation."""

import bisect
import random

import pytest

from .support.core import Core

PROJECT = "aggregate"
FILL = "for (const [key, id, sumValue] of [[1, 'a', 10], [3, 'b', 30], [3, 'c', 5], [7, 'd', 70]]) await t.direct.insert(ctx, { key, id, sumValue });"


READS = {
    "count": ("return await t.direct.count(ctx)", 4),
    "count within bounds": (
        "return await t.direct.count(ctx, { bounds: { lower: { key: 1, inclusive: false }, upper: { key: 7, inclusive: false } } })",
        2,
    ),
    "sum": ("return await t.direct.sum(ctx)", 115),
    "sum up to a key": ("return await t.direct.sum(ctx, { bounds: { upper: { key: 3, inclusive: true } } })", 45),
    "at": ("return (await t.direct.at(ctx, 1)).id", "b"),
    "at from the end": ("return (await t.direct.at(ctx, -1)).id", "d"),
    "index of a key": ("return await t.direct.indexOf(ctx, 3)", 1),
    "index from the end": ("return await t.direct.indexOf(ctx, 3, { order: 'desc' })", 1),
    "index of an id": ("return await t.direct.indexOf(ctx, 3, { id: 'c' })", 2),
    "min and max": ("return [(await t.direct.min(ctx)).id, (await t.direct.max(ctx)).id]", ["a", "d"]),
    "random is one of them": ("return ['a', 'b', 'c', 'd'].includes((await t.direct.random(ctx)).id)", True),
    "batches": (
        "return [await t.direct.countBatch(ctx, [{}, { bounds: { lower: { key: 3, inclusive: true } } }]), await t.direct.sumBatch(ctx, [{ bounds: { upper: { key: 1, inclusive: true } } }]), (await t.direct.atBatch(ctx, [{ offset: 0 }, { offset: 3 }])).map((i) => i.id)]",
        [[4, 3], [10], ["a", "d"]],
    ),
    "pages": (
        "const pages = []; let cursor; for (;;) { const got = await t.direct.paginate(ctx, { cursor, pageSize: 3 }); pages.push(got.page.map((i) => i.id)); cursor = got.cursor; if (got.isDone) return pages; }",
        [["a", "b", "c"], ["d"]],
    ),
    "an iterator backwards": (
        "const ids = []; for await (const item of t.direct.iter(ctx, { order: 'desc', pageSize: 2 })) ids.push(item.id); return ids",
        ["d", "c", "b", "a"],
    ),
}


@pytest.mark.parametrize(("code", "value"), READS.values(), ids=READS.keys())
def test_reads(fresh: Core, code: str, value: object) -> None:
    fresh.run("p:m", {"code": FILL})
    assert fresh.run("p:q", {"code": code}) == value


def test_what_is_missing_or_there_already_is_an_error(fresh: Core) -> None:
    fresh.run("p:m", {"code": FILL})
    missing = fresh.fails("p:m", {"code": "await t.direct.delete(ctx, { key: 2, id: 'a' })"})
    assert missing.data["code"] == "DELETE_MISSING_KEY"
    assert "already exists" in fresh.fails("p:m", {"code": "await t.direct.insert(ctx, { key: 1, id: 'a' })"}).message
    tolerant = "await t.direct.deleteIfExists(ctx, { key: 2, id: 'a' }); await t.direct.insertIfDoesNotExist(ctx, { key: 1, id: 'a' }); await t.direct.replaceOrInsert(ctx, { key: 9, id: 'e' }, { key: 8 })"
    fresh.run("p:m", {"code": tolerant})
    assert fresh.run("p:q", {"code": "return await t.direct.count(ctx)"}) == 5


def test_the_same_component_twice_has_two_trees(fresh: Core) -> None:
    fresh.run("p:m", {"code": FILL + "await t.byTitle.insert(ctx, { key: ['x', 1], id: 'a' })"})
    code = "return [await t.direct.count(ctx), await t.byTitle.count(ctx), await t.byTitle.count(ctx, { bounds: { prefix: ['x'] } })]"
    assert fresh.run("p:q", {"code": code}) == [4, 1, 1]


@pytest.mark.parametrize("width", [4, 16])
def test_random_writes_against_a_sorted_list(fresh: Core, width: int) -> None:
    chance = random.Random(width)
    fresh.run("p:m", {"code": f"await t.direct.clear(ctx, {{ maxNodeSize: {width}, rootLazy: false }})"})
    truth: list[tuple[int, str, int]] = []
    for batch in range(12):
        steps = []
        for number in range(12):
            if truth and chance.random() < 0.3:
                key, name, _ = truth.pop(chance.randrange(len(truth)))
                steps.append(f"await t.direct.delete(ctx, {{ key: {key}, id: '{name}' }});")
            elif truth and chance.random() < 0.3:
                key, name, _ = truth.pop(chance.randrange(len(truth)))
                new, total = chance.randrange(40), chance.randrange(100)
                bisect.insort(truth, (new, name, total))
                steps.append(
                    f"await t.direct.replace(ctx, {{ key: {key}, id: '{name}' }}, {{ key: {new}, sumValue: {total} }});"
                )
            else:
                item = (chance.randrange(40), f"i{batch:02}{number:02}", chance.randrange(100))
                bisect.insort(truth, item)
                steps.append(f"await t.direct.insert(ctx, {{ key: {item[0]}, id: '{item[1]}', sumValue: {item[2]} }});")
        fresh.run("p:m", {"code": "".join(steps)})
        low, high = sorted((chance.randrange(40), chance.randrange(40)))
        bounds = (
            f"{{ bounds: {{ lower: {{ key: {low}, inclusive: true }}, upper: {{ key: {high}, inclusive: false }} }} }}"
        )
        inside = [item for item in truth if low <= item[0] < high]
        code = f"const items = []; for await (const i of t.direct.iter(ctx, {{ pageSize: 20 }})) items.push([i.key, i.id, i.sumValue]); return [items, await t.direct.count(ctx, {bounds}), await t.direct.sum(ctx, {bounds}), await t.direct.indexOf(ctx, {low})]"
        items, count, total, rank = fresh.run("p:q", {"code": code})
        assert [tuple(item) for item in items] == truth
        assert (count, total) == (len(inside), sum(item[2] for item in inside))
        assert rank == sum(item[0] < low for item in truth)


def rows(*changes: tuple[str, str, str, int]) -> list[dict]:
    return [dict(zip(("op", "game", "name", "score"), change, strict=True)) for change in changes]


def test_triggers_keep_a_table_and_its_aggregate_in_step(fresh: Core) -> None:
    changes = rows(
        ("set", "go", "ann", 5), ("set", "go", "bob", 9), ("set", "chess", "ann", 2), ("set", "go", "ann", 12)
    )
    fresh.run("project:write", {"changes": changes})
    code = "return [await t.perGame.count(ctx, { namespace: 'go' }), await t.perGame.sum(ctx, { namespace: 'go' }), -(await t.perGame.at(ctx, 0, { namespace: 'go' })).key, await t.perGame.count(ctx, { namespace: 'chess' })]"
    assert fresh.run("p:q", {"code": code}) == [2, 21, 12, 1]
    namespaces = "const found = []; for await (const name of t.perGame.iterNamespaces(ctx)) found.push(name); return found.sort()"
    assert fresh.run("p:q", {"code": namespaces}) == ["chess", "go"]
    fresh.run("project:write", {"changes": rows(("delete", "go", "bob", 0))})
    assert fresh.run("p:q", {"code": code})[:2] == [1, 12]
    rank = "const doc = (await ctx.db.query('scores').collect()).find((d) => d.game === 'go'); return await t.perGame.indexOfDoc(ctx, doc)"
    assert fresh.run("p:q", {"code": rank}) == 0


def test_a_failed_mutation_leaves_the_aggregate_as_it_was(fresh: Core) -> None:
    fresh.run("project:write", {"changes": rows(("set", "go", "ann", 5))})
    fresh.fails("project:write", {"changes": rows(("set", "go", "bob", 9)), "fail": True})
    assert fresh.run("p:q", {"code": "return await t.perGame.count(ctx, { namespace: 'go' })"}) == 1


def test_queued_writes_are_applied_in_their_order(fresh: Core) -> None:
    fresh.control("clock.start", time=1_800_000_000_000)
    for number in range(3):
        fresh.run(
            "p:m",
            {
                "code": f"await t.direct.insert(ctx, {{ key: {number}, id: 'x{number}', sumValue: 1 }}, {{ async: true }})"
            },
        )
    batch = "await t.direct.enqueueBatch(ctx, [{ type: 'delete', key: 0, id: 'x0' }, { type: 'replace', currentItem: { key: 1, id: 'x1' }, newItem: { key: 10, sumValue: 5 } }, { type: 'insert', key: 4, id: 'y', sumValue: 2 }])"
    fresh.run("p:m", {"code": batch})
    fresh.control("clock.advance", ms=10_000)
    code = "const items = []; for await (const i of t.direct.iter(ctx)) items.push([i.key, i.id, i.sumValue]); return items"
    assert fresh.run("p:q", {"code": code}) == [[2, "x2", 1], [4, "y", 2], [10, "x1", 5]]


def test_a_tree_with_queued_writes_is_read_only_as_it_was(fresh: Core) -> None:
    queue = FILL + "await t.direct.insert(ctx, { key: 9, id: 'z' }, { async: true });"
    early = fresh.fails("p:m", {"code": queue + "return await t.direct.count(ctx)"})
    assert early.data["code"] == "PENDING_OPERATIONS"
    assert fresh.run("p:m", {"code": queue + "return await t.direct.count(ctx, { stale: true })"}) == 0


def test_actions_read_and_write_too(fresh: Core) -> None:
    code = "await t.direct.insert(ctx, { key: 1, id: 'a', sumValue: 4 }); await t.direct.clear(ctx); await t.direct.insert(ctx, { key: 2, id: 'b', sumValue: 6 }); return [await t.direct.count(ctx), await t.direct.sum(ctx)]"
    assert fresh.run("p:a", {"code": code}) == [1, 6]
