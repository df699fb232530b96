# ruff: noqa: E501 - programs in tables stay on one line
"""Text search: the inverted index against a plain reading of the rules, limits, subscriptions, changes of the schema."""

import json
import math
import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node


def schema(*indexes: str) -> str:
    chain = "".join(indexes)
    return f"""
        import {{ defineSchema, defineTable }} from "convex/server";
        import {{ v }} from "convex/values";
        export default defineSchema({{ rows: defineTable(v.any()){chain} }});
    """


TEXT = '.searchIndex("text", { searchField: "s", filterFields: ["a", "b"] })'
FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": schema(
        TEXT, '.searchIndex("deep", { searchField: "o.s" })', '.searchIndex("same", { searchField: "s" })'
    ),
}
FIND = 'const find = async (text, more = (q) => q) => (await ctx.db.query("rows").withSearchIndex("text", (q) => more(q.search("s", text))).collect()).map((r) => r.n);'


def put(app: Core, *rows: dict[str, Any]) -> list[str]:
    return app.control("insert", table="rows", documents=list(rows))["ids"]


def find(app: Core, text: str, more: str = "(q) => q") -> list[Any]:
    return app.run("p:q", {"code": f"{FIND} return await find(args, {more})", "args": text})


# ── the rules, read plainly ──────────────────────────────────────────────────────────────────────────────────────────


def single(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]


def stored_length(tokens: int) -> int:
    steps = [*range(41), *range(42, 56, 2), *range(56, 88, 4), *range(88, 152, 8), *range(152, 280, 16)]
    return max(step for step in steps if step <= tokens)


def expected(rows: list[dict[str, Any]], query: str, **filters: Any) -> list[Any]:
    """Numbers of the rows found, best first. `rows` are oldest first, their words separated by blanks."""
    terms = query.split()
    texts = [row["s"].split() for row in rows]
    average = sum(map(len, texts)) / len(rows)
    holding = Counter(word for words in texts for word in set(words))
    kept = {word: 1.0 for word in holding if word in terms}
    kept |= {word: 0.5 for word in holding if word.startswith(terms[-1]) and word not in kept}
    order = sorted(kept, key=lambda word: (-kept[word], word))[: 64 - len(filters)]
    found = []
    for age, (row, words) in enumerate(zip(rows, texts, strict=True)):
        score = 0.0
        for word in order:
            if word not in words:
                continue
            tf, n = words.count(word), holding[word]
            idf = math.log(1 + (len(rows) - n + 0.5) / (n + 0.5))
            norm = 1.2 * (0.25 + 0.75 * stored_length(len(words)) / average)
            score = single(score + single(kept[word] * idf * (2.2 * tf / (tf + norm))))
        if score > 0 and all(row.get(name) == value for name, value in filters.items()):
            found.append((-score, -age, row["n"]))
    return [n for _, _, n in sorted(found)]


WORDS = ["a", "an", "ant", "ants", "bee", "been", "cat", "cats", "dog", "do", "d", "eel"]


def random_text(source: random.Random) -> str:
    return " ".join(source.choices(WORDS, k=source.choice([1, 2, 3, 8, 39, 41, 57, 100, 170])))


@pytest.mark.parametrize("seed", range(3))
def test_the_index_finds_what_a_plain_reading_of_all_rows_finds(fresh: Core, seed: int) -> None:
    """After random inserts, changes and deletions."""
    source = random.Random(seed)
    rows = [{"n": n, "s": random_text(source), "a": source.randrange(2)} for n in range(60)]
    ids = put(fresh, *rows)
    changes: list[list[Any]] = []
    for n in source.sample(range(60), 30):
        kind = source.choice(["text", "other", "delete"])
        if kind == "delete":
            changes.append([ids[n], None])
            rows[n] = {}
        else:
            patch = {"s": random_text(source)} if kind == "text" else {"a": source.randrange(2)}
            changes.append([ids[n], patch])
            rows[n] |= patch
    rows = [row for row in rows if row]
    change = f"""{FIND} for (const [id, patch] of args.changes) await (patch ? ctx.db.patch(id, patch) : ctx.db.delete(id));
        return await Promise.all(args.queries.map((text) => find(text)))"""
    queries = ["ant", "a", "cat do", "zebra", "d dog ca", "be", "eel eel e"]
    within = fresh.run("p:m", {"code": change, "args": {"changes": changes, "queries": queries}})
    assert within == [expected(rows, query) for query in queries]
    assert [find(fresh, query) for query in queries] == within
    for query in queries:
        assert find(fresh, query, '(q) => q.eq("a", 1)') == expected(rows, query, a=1), query


def test_searches_between_changes_find_what_is_there(fresh: Core) -> None:
    """Few changes and many, before and after the index has taken them in, in one transaction and by snapshots beside it."""
    source = random.Random(11)
    rows: dict[str, dict[str, Any]] = {}
    for step, count in enumerate([1, 3, 70, 5, 200, 1, 30]):
        added = [{"n": f"{step}.{at}", "s": random_text(source)} for at in range(count)]
        rows |= dict(zip(put(fresh, *added), added, strict=True))
        assert find(fresh, "ant be") == expected(list(rows.values()), "ant be"), step
        changes: list[list[Any]] = []
        for key in source.sample(sorted(rows), len(rows) // 3):
            text = source.choice([None, random_text(source)])
            changes.append([key, text])
        change = f"""{FIND} const seen = [];
            for (const [id, text] of args) {{ await (text === null ? ctx.db.delete(id) : ctx.db.patch(id, {{ s: text }})); if (seen.length < 3) seen.push(await find("ant be")); }}
            return seen"""
        before = list(rows.values())
        for at, (key, text) in enumerate(changes):
            rows = {name: row for name, row in rows.items() if name != key or text is not None}
            if text is not None:
                rows[key] = rows[key] | {"s": text}
            if at == min(2, len(changes) - 1):
                third = expected(list(rows.values()), "ant be") if rows else []
        if changes:
            assert fresh.fails(
                "p:m", {"code": f"{change.replace('return seen', 'throw new Error()')}", "args": changes}
            )
            assert find(fresh, "ant be") == expected(before, "ant be"), "a mutation that failed changed nothing"
            assert fresh.run("p:m", {"code": change, "args": changes})[-1] == third, step
        assert find(fresh, "ant be") == (expected(list(rows.values()), "ant be") if rows else []), step


def test_at_most_64_terms_are_searched_and_filters_count_among_them(fresh: Core) -> None:
    put(fresh, *({"n": n, "s": f"w{n:02}", "a": 1} for n in reversed(range(70))))
    assert sorted(find(fresh, "w")) == list(range(64))
    assert sorted(find(fresh, "w", '(q) => q.eq("a", 1)')) == list(range(63))
    assert sorted(find(fresh, "w69 w")) == [*range(63), 69]


FOUND = {
    "only the last word is a prefix": ([{"n": 1, "s": "apple pie"}, {"n": 2, "s": "tart"}], ["app tart", "tart app"], [[2], [2, 1]]),
    "exact before prefix": ([{"n": 1, "s": "foo"}, {"n": 2, "s": "food"}], ["foo", "food"], [[1, 2], [2]]),
    "words in any order score the same, newest first": ([{"n": 1, "s": "x y z"}, {"n": 2, "s": "z y x"}, {"n": 3, "s": "y z x"}], ["x y z"], [[3, 2, 1]]),
    "what separates words": ([{"n": 1, "s": "it's e-mail_x 3.14 a/b"}], ["s", "mail", "x", "14", "b", "its", "email"], [[1], [1], [1], [1], [1], [], []]),
    "capitals and digits of other scripts": ([{"n": 1, "s": "ΟΔΟΣ ЖУК ٣٤ Ⅷ"}], ["οδοσ", "жук", "٣٤", "ⅷ", "ΟΔΟΣ"], [[1]] * 5),
    "what is no letter": ([{"n": 1, "s": "🙂 ok 🙂"}], ["🙂", "ok"], [[], [1]]),
    "the length of a word is measured in bytes": ([{"n": 1, "s": "é" * 15}, {"n": 2, "s": "é" * 16}], ["é" * 15, "é" * 16, "é"], [[1], [], [1]]),
    "fields that hold no text": ([{"n": 1, "s": 5}, {"n": 2, "s": ["word"]}, {"n": 3}, {"n": 4, "s": "word"}], ["word", "5"], [[4], []]),
    "a word twice in the query counts once": ([{"n": 1, "s": "x y y"}, {"n": 2, "s": "x x y"}], ["y y x", "x x y"], [[2, 1], [2, 1]]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "queries", "found"), FOUND.values(), ids=FOUND.keys())
def test_words(fresh: Core, rows: list[dict[str, Any]], queries: list[str], found: list[list[int]]) -> None:
    put(fresh, *rows)
    assert [find(fresh, query) for query in queries] == found


def test_a_path_into_objects_and_two_indexes_on_one_field(fresh: Core) -> None:
    put(fresh, {"n": 1, "o": {"s": "deep"}, "s": "flat"}, {"n": 2, "o": "deep"})
    code = 'return (await ctx.db.query("rows").withSearchIndex(args[0], (q) => q.search(args[1], args[2])).collect()).map((r) => r.n)'
    assert fresh.run("p:q", {"code": code, "args": ["deep", "o.s", "deep"]}) == [1]
    assert fresh.run("p:q", {"code": code, "args": ["same", "s", "flat"]}) == [1]


def test_a_rolled_back_call_leaves_nothing_in_the_index(fresh: Core) -> None:
    [one] = put(fresh, {"n": 1, "s": "keep"})
    code = """await ctx.runMutation(t.internal.p.innerM, { args, code: `
        await ctx.db.insert("rows", { n: 2, s: "lost" }); await ctx.db.patch(args, { s: "lost" }); throw new Error()` }).catch(() => 0);
        return [await find("lost"), await find("keep")]"""
    assert fresh.run("p:m", {"code": FIND + code, "args": one}) == [[], [1]]


def test_a_search_that_was_begun_reads_rows_when_it_is_first_asked(fresh: Core) -> None:
    code = """const rows = ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x"))[Symbol.asyncIterator]();
        await ctx.db.insert("rows", { n: 1, s: "x" }); return (await rows.next()).value?.n"""
    assert fresh.run("p:m", {"code": code}) == 1


MISTAKES = {
    "more than eight filters": ('(q) => ["a", "b", "a", "b", "a", "b", "a", "b", "a"].reduce((r, f, i) => r.eq(f, i), q)', "Search query against rows.text has too many filter conditions. Max: 8 Actual: 9"),
    "a filter on the searched field": ('(q) => q.eq("s", 1)', 'Search query against rows.text contains an equality filter on "s" but that field isn\'t indexed for filtering in `filterFields`.'),
}  # fmt: skip


@pytest.mark.parametrize(("more", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_filters_which_an_empty_search_does_not_see(fresh: Core, more: str, text: str) -> None:
    for query in ("x", "--"):
        assert text in fresh.fails("p:q", {"code": f"{FIND} return await find(args, {more})", "args": query}).message
    assert find(fresh, "", more) == []


def test_a_filter_before_an_empty_search_is_not_looked_at_either(fresh: Core) -> None:
    source = {"type": "Search", "indexName": "rows.text", "filters": [{"type": "Eq", "fieldPath": "zz", "value": 1}, {"type": "Search", "fieldPath": "s", "value": ""}]}  # fmt: skip
    code = 'const { queryId } = JSON.parse(Convex.syscall("1.0/queryStream", JSON.stringify({ query: { source: args, operators: [] }, version: "1.48.0" }))); return await Convex.asyncSyscall("1.0/queryStreamNext", JSON.stringify({ queryId }))'
    assert json.loads(fresh.run("p:q", {"code": code, "args": source}))["done"] is True
    twice = {**source, "filters": [{"type": "Search", "fieldPath": "s", "value": "x"}] * 2}
    assert "contains multiple search filters against" in fresh.fails("p:q", {"code": code, "args": twice}).message


def test_pages_of_a_search_follow_one_another_in_order(fresh: Core) -> None:
    put(fresh, *({"n": n, "s": " ".join(["x"] * (n % 5 + 1)) + " y" * (n % 3)} for n in range(23)))
    code = """const all = []; let cursor = null; let pages = 0;
        for (;;) {
          const page = await ctx.runQuery(t.internal.p.innerQ, { args: cursor, code: `
            const p = await ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "x")).filter((q) => q.neq(q.field("n"), 3)).paginate({ numItems: 5, cursor: args });
            return { ...p, page: p.page.map((r) => r.n) }` });
          all.push(...page.page); pages += 1; cursor = page.continueCursor;
          if (page.splitCursor !== null) throw new Error("a search has no split cursor");
          if (page.isDone) return { all, pages };
        }"""
    found = fresh.run("p:q", {"code": code})
    assert found["all"] == [n for n in find(fresh, "x") if n != 3]
    assert (len(found["all"]), found["pages"]) == (22, 5)


def test_results_are_what_counts_as_read(fresh: Core) -> None:
    put(fresh, *({"n": n, "s": "x" if n < 3 else "y"} for n in range(50)))
    usage = fresh.call("p:q", {"code": f'{FIND} return await find("x")'})["usage"]
    assert (usage["documentsRead"], usage["databaseQueries"]) == (3, 3)


WATCH = """
import { ConvexClient } from "convex/browser";
import { anyApi as api } from "convex/server";
const client = new ConvexClient(process.env.URL_);
const seen = [];
const code = `const rows = await ctx.db.query("rows").withSearchIndex("text", (q) => q.search("s", "cat do").eq("a", 1)).collect(); return { found: rows.map((r) => r.n).sort(), run: Math.random() }`;
client.onUpdate(api.p.q, { code }, (value) => seen.push(value));
const until = (test) => new Promise((resolve) => { const timer = setInterval(() => { if (test()) { clearInterval(timer); resolve(); } }, 5); });
await until(() => seen.length === 1);
const runs = [];
for (const change of JSON.parse(process.env.CHANGES)) {
  const before = seen.length;
  await client.mutation(api.p.m, { code: change });
  runs.push(seen.length > before ? seen.at(-1).found : null);
}
console.log(JSON.stringify(runs));
await client.close();
"""


def test_a_subscription_to_a_search_runs_again_exactly_when_it_should(fresh: Core, tmp_path: Path) -> None:
    row = 'const row = (n) => ctx.db.query("rows").filter((q) => q.eq(q.field("n"), n)).unique().then((r) => r._id);'
    steps: list[tuple[str, list[int] | None]] = [
        ('await ctx.db.insert("rows", { n: 1, s: "cat", a: 1 })', [1]),
        ('await ctx.db.insert("rows", { n: 2, s: "cat", a: 2 })', None),
        ('await ctx.db.insert("rows", { n: 3, s: "catalogue", a: 1 })', None),
        ('await ctx.db.insert("rows", { n: 4, s: "dogs", a: 1 })', [1, 4]),
        (row + 'await ctx.db.patch(await row(3), { s: "canary" })', None),
        (row + 'await ctx.db.patch(await row(1), { other: "field" })', [1, 4]),
        (row + "await ctx.db.patch(await row(2), { a: 1 })", [1, 2, 4]),
        (row + 'await ctx.db.patch(await row(4), { s: "bird" })', [1, 2]),
        (row + "await ctx.db.delete(await row(4))", None),
        (row + "await ctx.db.delete(await row(1))", [2]),
    ]
    output = run_node(WATCH, tmp_path, URL_=fresh.url, CHANGES=json.dumps([code for code, _ in steps]))
    assert json.loads(output.splitlines()[-1]) == [found for _, found in steps]


@pytest.fixture
def own() -> Iterator[Core]:
    running = Core()
    yield running
    running.close()


def test_search_indexes_that_come_change_and_go(own: Core, bundler: Bundler) -> None:
    def push(*indexes: str) -> None:
        bundler.push(own, {"p.ts": PROGRAMS, "schema.ts": schema(*indexes)})

    def fails() -> str:
        return own.fails("p:q", {"code": f'{FIND} return await find("x")'}).message

    push()
    put(own, {"n": 1, "s": "x", "t": "y"})
    assert "Index rows.text not found." in fails()
    push('.searchIndex("text", { searchField: "s", staged: true })')
    assert "Index rows.text is currently staged and not available to query until it is enabled." in fails()
    put(own, {"n": 2, "s": "x"})
    push('.searchIndex("text", { searchField: "s" })')
    assert find(own, "x") == [2, 1]
    push('.searchIndex("text", { searchField: "t" })')
    assert "which doesn't match the indexed `searchField`" in fails()
    put(own, {"n": 3, "s": "x"})
    push('.index("text", ["s"])')
    assert "Index rows.text is not a search index" in fails()
    push('.searchIndex("text", { searchField: "s" })')
    assert find(own, "x") == [3, 2, 1]
