# ruff: noqa: E501 - programs in tables stay on one line
"""Contexts serve one call after the other: nothing that one of them leaves is found by the next."""

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "kept.ts": """
        import { query, action } from "./_generated/server";
        const cache = new Map(); class Counter { static count = 0; #own = 0; next() { Counter.count++; return ++this.#own; } }
        const counter = new Counter(); const kept = (() => { let inner = 0; return () => ++inner; })();
        const handler = async () => { cache.set(cache.size, 1); return [cache.size, counter.next(), Counter.count, kept()]; };
        export const q = query({ args: {}, handler });
        export const a = action({ args: {}, handler });
    """,
    "declares.ts": """
        import { query } from "./_generated/server";
        const evaluate = globalThis.eval;
        export const q = query({ args: {}, handler: async () => {
          const before = evaluate("typeof declared"); evaluate("let declared = 1"); return before;
        } });
    """,
    "patches.ts": """
        import { query } from "./_generated/server";
        Array.prototype.second ??= function () { return this[1]; };
        const before = globalThis.imports ?? 0; globalThis.imports = before + 1;
        export const q = query({ args: {}, handler: async () => [[1, 2].second(), before] });
    """,
    "says.ts": """
        import { query } from "./_generated/server";
        console.log("imported");
        export const q = query({ args: {}, handler: async () => 1 });
    """,
    "later.ts": """
        import { query } from "./_generated/server";
        let late = 0;
        void Promise.resolve().then(() => { late += 1; });
        export const q = query({ args: {}, handler: async () => late });
    """,
    "saysLater.ts": """
        import { mutation } from "./_generated/server";
        void (async () => { await null; console.log("imported"); })();
        export const m = mutation({ args: {}, handler: async () => 1 });
    """,
    "knows.ts": """
        import { query } from "./_generated/server";
        const tag = process.env.TAG ?? null; const at = Date.now(); const chance = Math.random();
        export const q = query({ args: {}, handler: async () => [tag, at, chance] });
    """,
    "one.ts": "import { query } from './_generated/server'; let n = 0; export const q = query({ args: {}, handler: async () => ++n });",
    "two.ts": "import { query } from './_generated/server'; let n = 0; export const q = query({ args: {}, handler: async () => ++n });",
}

TRACES = {
    "a global variable": ("globalThis.kept", "globalThis.kept = 1"),
    "a hidden global variable": ("'kept' in globalThis", "Object.defineProperty(globalThis, 'kept', { value: 1 })"),
    "a global accessor": (
        "typeof Object.getOwnPropertyDescriptor(globalThis, 'atob').get",
        "const own = atob; Object.defineProperty(globalThis, 'atob', { get: () => own, configurable: true })",
    ),
    "a deleted global": ("typeof structuredClone", "delete globalThis.structuredClone"),
    "a method of arrays": ("[].kept", "Array.prototype.kept = 1"),
    "a replaced method": ("typeof ''.trim()", "String.prototype.trim = () => 1"),
    "a static method": ("Array.from([1]).length", "Array.from = () => []"),
    "a class of errors": (
        "Error.stackTraceLimit > 0 && Error.prepareStackTrace === undefined",
        "Error.prepareStackTrace = () => ''",
    ),
    "randomness": ("Math.random() < 1", "Math.random = () => 4"),
    "time": ("Date.now() > 0", "Date.now = () => -1"),
    "JSON": ("JSON.kept", "JSON.kept = 1"),
    "a symbol": ("[][Symbol.for('kept')]", "Array.prototype[Symbol.for('kept')] = 1"),
    "a prototype": ("new Map() instanceof Set", "Object.setPrototypeOf(Map.prototype, Set.prototype)"),
    "a frozen prototype": ("Object.isFrozen(Object.prototype)", "Object.freeze(Object.prototype)"),
    "generators": ("(function* () {})().kept", "Object.getPrototypeOf(function* () {}).prototype.kept = 1"),
    "iterators": ("[].values().kept", "Object.getPrototypeOf([].values()).kept = 1"),
    "async functions": ("(async () => {}).kept", "Object.getPrototypeOf(async () => {}).kept = 1"),
    "console": ("console.kept", "console.kept = 1"),
    "process": ("process.kept", "process.kept = 1"),
    "crypto": ("crypto.subtle.kept", "crypto.subtle.kept = 1"),
    "the platform's own functions": ("Convex.kept", "Convex.kept = 1"),
    "marks": ("performance.getEntries().length", "performance.mark('kept'); performance.measure('kept')"),
    "the last match": ("RegExp.$1", "/(k)/.test('k')"),
}


@pytest.mark.parametrize("kind", ["q", "m", "a"])
@pytest.mark.parametrize("trace", TRACES)
def test_nothing_outlives_a_call(fresh: Core, trace: str, kind: str) -> None:
    look, leave = TRACES[trace]
    code = f"const found = {look}; {leave}; return found ?? null"
    assert fresh.run(f"p:{kind}", {"code": code}) == fresh.run(f"p:{kind}", {"code": code})
    fails = f"{leave}; throw new Error('left')"
    fresh.fails(f"p:{kind}", {"code": fails})
    before = fresh.run(f"p:{kind}", {"code": f"return ({look}) ?? null"})
    fresh.fails(f"p:{kind}", {"code": fails})
    assert fresh.run(f"p:{kind}", {"code": f"return ({look}) ?? null"}) == before


@pytest.mark.parametrize("path", ["kept:q", "kept:a"])
def test_modules_are_evaluated_for_every_call(fresh: Core, path: str) -> None:
    assert [fresh.run(path) for _ in range(4)] == [[1, 1, 1, 1]] * 4


@pytest.mark.parametrize("path", ["says:q", "saysLater:m"])
def test_what_a_module_prints_belongs_to_each_call(fresh: Core, path: str) -> None:
    assert [fresh.call(path)["logLines"] for _ in range(4)] == [["[LOG] 'imported'"]] * 4


def test_what_a_module_puts_off_is_done_before_its_function_begins(fresh: Core) -> None:
    assert [fresh.run("later:q") for _ in range(4)] == [1] * 4


def test_a_module_reads_the_variables_of_the_moment(fresh: Core) -> None:
    found = []
    for tag in ("a", "b", None):
        fresh.control("env.set", variables={"TAG": tag})
        found += [fresh.run("knows:q") for _ in range(3)]
    assert [tag for tag, _, _ in found] == [*["a"] * 3, *["b"] * 3, *[None] * 3]
    assert len({(at, chance) for _, at, chance in found}) == 1


def test_modules_that_take_turns_are_evaluated_for_every_call(fresh: Core) -> None:
    paths = ["one:q", "two:q", "kept:q", "knows:q", "later:q"]
    assert [fresh.run(path) for _ in range(3) for path in paths][::5] == [1] * 3
    assert [fresh.run(path) for _ in range(3) for path in paths[:2]] == [1] * 6


def test_variables_that_are_no_properties_end_with_the_call(fresh: Core) -> None:
    assert [fresh.run("declares:q") for _ in range(3)] == ["undefined"] * 3


def test_a_module_may_add_to_built_in_classes_every_time(fresh: Core) -> None:
    assert [fresh.run("patches:q") for _ in range(3)] == [[2, 0]] * 3
    assert fresh.run("p:q", {"code": "return [typeof [].second, typeof imports]"}) == ["undefined", "undefined"]


def test_labels_of_timers_end_with_the_call(fresh: Core) -> None:
    lines = [fresh.call("p:q", {"code": "console.time('kept')"})["logLines"] for _ in range(2)]
    assert lines == [[], []]


@pytest.mark.parametrize(
    "late",
    [
        "setTimeout(() => console.log('late'), 30)",
        "ctx.runQuery(t.api.p.q, { code: 'return 1' }).then(() => console.log('late'))",
        "new Response('late').text().then((text) => console.log(text))",
        "crypto.subtle.digest('SHA-256', new Uint8Array(4)).then(() => console.log('late'))",
        "new Blob(['late']).arrayBuffer().then(() => console.log('late'))",
        "fetch(process.env.CONVEX_CLOUD_URL + '/version').then(() => console.log('late'))",
        "(await fetch(process.env.CONVEX_CLOUD_URL + '/version')).text().then(() => console.log('late'))",
        "const { body } = await fetch(process.env.CONVEX_CLOUD_URL + '/version'); (async () => { for await (const _ of body) console.log('late') })()",
    ],
)
def test_what_a_call_leaves_under_way_never_speaks_in_another(fresh: Core, late: str) -> None:
    wait = {"code": "await new Promise((go) => setTimeout(go, 60)); return 1"}
    for _ in range(3):
        fresh.run("p:a", {"code": f"{late}; return 1"})
        assert fresh.call("p:a", wait)["logLines"] == []


@pytest.mark.parametrize("kind", ["q", "a"])
def test_a_context_that_was_left_as_it_was_is_used_again(fresh: Core, kind: str) -> None:
    """Seen by the one trace that nobody looks for."""
    code = "const { map } = Array.prototype; map.calls = (map.calls ?? 0) + 1; return map.calls"
    assert max(fresh.run(f"p:{kind}", {"code": code}) for _ in range(6)) >= 3


@pytest.mark.parametrize("read", ["await response.text()", "0"], ids=["read", "unread"])
def test_a_request_that_has_ended_leaves_its_context_to_others(fresh: Core, read: str) -> None:
    ask = f"const response = await fetch(process.env.CONVEX_CLOUD_URL + '/version'); {read};"
    code = f"{ask} const {{ map }} = Array.prototype; map.asked = (map.asked ?? 0) + 1; return [response.status, map.asked]"
    status, first = fresh.run("p:a", {"code": code})
    assert status == 200
    assert [fresh.run("p:a", {"code": code}) for _ in range(2)] == [[200, first + 1], [200, first + 2]]


def test_calls_at_the_same_time_have_contexts_of_their_own(fresh: Core) -> None:
    inner = "const before = globalThis.kept; globalThis.kept = 'inner'; return before ?? null"
    code = f"globalThis.kept = 'outer'; const seen = await ctx.runQuery(t.api.p.q, {{ code: `{inner}` }}); return [seen, globalThis.kept]"
    for _ in range(3):
        assert fresh.run("p:m", {"code": code}) == [None, "outer"]
