# ruff: noqa: E501 - programs in tables stay on one line
"""The runtime of functions: determinism, globals, console, errors, time limits."""

import json

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "state.ts": """
        import { query, mutation } from "./_generated/server";
        let calls = 0; const loaded = [Date.now(), Math.random()];
        export const count = query({ args: {}, handler: async () => ++calls });
        export const imported = query({ args: {}, handler: async () => loaded });
    """,
    "live.ts": """
        import { query } from "./_generated/server";
        import { counter, increase } from "./shared";
        export const value = query({ args: {}, handler: async () => { increase(); increase(); return counter; } });
    """,
    "other.ts": """
        import { query } from "./_generated/server";
        import { counter, increase } from "./shared";
        export const value = query({ args: {}, handler: async () => { increase(); return counter; } });
    """,
    "shared.ts": "export let counter = 0; export function increase() { counter++; }",
    "node.ts": """
        "use node";
        import { action } from "./_generated/server";
        import { createHash } from "node:crypto";
        export const hash = action({ args: {}, handler: async () => { console.log("in node", { a: 1 }); return createHash("sha256").update("a").digest("hex").slice(0, 8); } });
        export const quit = action({ args: {}, handler: async () => process.exit(1) });
    """,
}

REFUSAL = "Can't use {} in queries and mutations. Please consider using an action."

RESULTS = {
    "the clock stands still": (
        "const a = Date.now(); for (let i = 0; i < 1e6; i++); return [a === Date.now(), new Date().getTime() === a, a > 1.6e12]",
        [True, True, True],
    ),
    "time zone": ("return [new Date(0).getHours(), new Date(0).getTimezoneOffset()]", [0, 0]),
    "dates work": (
        "const d = new Date(2020, 1, 1); return [d instanceof Date, d.constructor === Date, typeof Date(), Date.UTC(1970, 0, 1)]",
        [True, True, "string", 0],
    ),
    "performance stands still": (
        "const a = performance.now(); for (let i = 0; i < 1e6; i++); return performance.now() === a",
        True,
    ),
    "absent globals": (
        "return [typeof Buffer, typeof require, typeof global, typeof window, typeof setImmediate, typeof queueMicrotask, typeof navigator, typeof WebSocket, typeof process.version]",
        ["undefined"] * 9,
    ),
    "present globals": (
        "return [typeof URL, typeof crypto.subtle.digest, typeof structuredClone, typeof AsyncLocalStorage, typeof TextEncoder, typeof self, typeof fetch, typeof Response]",
        ["function", "function", "function", "function", "function", "object", "function", "function"],
    ),
    "console has only these": (
        "return [typeof console.table, typeof console.group, typeof console.trace]",
        ["undefined", "undefined", "function"],
    ),
    "fetch rejects": (
        "return await fetch('http://x').catch((e) => e.message.slice(0, 76))",
        REFUSAL.format("fetch()")[:76],
    ),
    "random identifiers": (
        "return [crypto.randomUUID().length, crypto.getRandomValues(new Uint8Array(4)).length]",
        [36, 4],
    ),
    "fresh keys are refused": (
        "return await crypto.subtle.generateKey({ name: 'AES-GCM', length: 128 }, true, ['encrypt']).catch((e) => e.message.slice(0, 60))",
        "Can't use cryptographic randomness in queries and mutations.",
    ),
    "digest": ("return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode('a')))[0]", 0xCA),
    "bodies": ("return await new Response('abc').text()", "abc"),
    "environment is read only": (
        "process.env.A = '1'; return [process.env.A ?? null, Object.keys(process.env), 'A' in process.env, process.env.CONVEX_CLOUD_URL.startsWith('http')]",
        [None, [], False, True],
    ),
    "errors of shared classes": (
        "try { new URL('nonsense'); } catch (e) { return [e instanceof TypeError, e instanceof Error] }",
        [True, True],
    ),
    "typed arrays": ("return new TextEncoder().encode('a') instanceof Uint8Array", True),
    "more absent globals": (
        "return [typeof CustomEvent, typeof MessageChannel, typeof exports, typeof module, typeof __dirname]",
        ["undefined"] * 5,
    ),
    "weak references are strong": ("return new WeakRef({ a: 1 }).deref().a", 1),
    "no actions and no vector search": ("return [typeof ctx.runAction, typeof ctx.vectorSearch]", ["undefined"] * 2),
    "no writes": ("return [typeof ctx.runMutation, typeof ctx.db.insert, typeof ctx.scheduler]", ["undefined"] * 3),
    "ECDSA is refused": (
        "return await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, {}, new Uint8Array(1)).catch((e) => e.message.slice(0, 60))",
        "Can't use cryptographic randomness in queries and mutations.",
    ),
    "too many random values": (
        "try { crypto.getRandomValues(new Uint8Array(65537)) } catch (e) { return e.name }",
        "QuotaExceededError",
    ),
    "keyed hashes": (
        "const k = await crypto.subtle.importKey('raw', new TextEncoder().encode('k'), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']); return (await crypto.subtle.sign('HMAC', k, new Uint8Array(1))).byteLength",
        32,
    ),
    "nested calls share the clock": (
        "return Date.now() === await ctx.runQuery(t.internal.p.innerQ, { code: 'return Date.now()' })",
        True,
    ),
    "nested calls have their own randomness": (
        "const r = 'return Math.random()'; return (await ctx.runQuery(t.internal.p.innerQ, { code: r })) === (await ctx.runQuery(t.internal.p.innerQ, { code: r }))",
        False,
    ),
    "the caller catches loose rejections of a nested call": (
        "try { await ctx.runQuery(t.internal.p.innerQ, { code: `Promise.reject(new Error('loose')); await ctx.db.query('t').first()` }) } catch (e) { return e.message.includes('loose') }",
        True,
    ),
    "nested errors keep their data": (
        "try { await ctx.runQuery(t.internal.p.innerQ, { code: `throw new t.ConvexError({ a: 1 })` }) } catch (e) { return [e instanceof t.ConvexError, e.data, e.message.includes('Uncaught ConvexError:')] }",
        [True, {"a": 1}, True],
    ),
    "what shared classes make": (
        "const c = structuredClone({ d: new Date(0), m: new Map([[1, []]]), s: new Set(), r: /x/ }); const j = await new Response('[{}]').json(); return [c instanceof Object, c.d instanceof Date, c.m instanceof Map, c.m.get(1) instanceof Array, c.s instanceof Set, c.r instanceof RegExp, j instanceof Array, j[0] instanceof Object, new Response('').text() instanceof Promise, TextEncoder instanceof Function]",
        [True] * 10,
    ),
    "classes of one's own": (
        "class A extends Map {} class B extends Array {} return [new A() instanceof A, new Map() instanceof A, structuredClone(new Map()) instanceof A, [] instanceof B, Object.create(null) instanceof Object, 1 instanceof Object, {} instanceof Array]",
        [True, False, False, False, False, False, False],
    ),
    "WebAssembly": (
        "const bytes = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]); const { instance } = await WebAssembly.instantiate(bytes); return [instance instanceof WebAssembly.Instance, (await WebAssembly.compile(bytes)) instanceof WebAssembly.Module]",
        [True, True],
    ),
    "performance has marks": (
        "performance.mark('a'); const m = performance.measure('b', 'a'); return [performance instanceof Performance, m instanceof PerformanceEntry, m.duration, performance.getEntriesByName('a').length, performance.getEntriesByType('measure').length]",
        [True, True, 0, 1, 1],
    ),
    "undefined becomes null": ("return undefined", None),
    "un-awaited writes are completed": ("ctx.runQuery(t.internal.p.innerQ, { code: `return 1` }); return 2", 2),
}


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_queries_run_in(fresh: Core, code: str, value: object) -> None:
    assert fresh.run("p:q", {"code": code}) == value


ERRORS = {
    "timers": ("setTimeout(() => {}, 1); await null; return 1", "Uncaught Error: " + REFUSAL.format("setTimeout")),
    "repeated timers": (
        "setInterval(() => {}, 1); await null; return 1",
        "Uncaught Error: " + REFUSAL.format("setInterval"),
    ),
    "rejections that are awaited too late": (
        "const p = Promise.reject(new Error('late')); await ctx.db.query('t').first(); await p.catch(() => 1); return 1",
        "Uncaught Error: late",
    ),
    "missing console methods": ("console.table([])", "Uncaught TypeError: console.table is not a function"),
    "Buffer": ("return Buffer.from('a')", "Uncaught ReferenceError: Buffer is not defined"),
    "require": ("return require('fs')", "Uncaught ReferenceError: require is not defined"),
    "clones with transfer": (
        "const b = new ArrayBuffer(1); structuredClone(b, { transfer: [b] })",
        "structuredClone with transfer not supported",
    ),
    "mutations of a query": (
        "await Convex.asyncSyscall('1.0/runUdf', JSON.stringify({ udfType: 'mutation', name: 'p:m', args: {} }))",
        "Cannot call a Mutation function from a Query function",
    ),
    "data that is no value": ("throw new t.ConvexError(new Date())", "Uncaught"),
    "thrown text": ('throw "x"', "Uncaught x"),
    "thrown class": ('throw new TypeError("bad")', "Uncaught TypeError: bad\n    at "),
    "never settles": ("await new Promise(() => {})", "Returned promise will never resolve"),
    "unhandled rejection": (
        "Promise.reject(new Error('loose')); await ctx.db.query('t').first(); return 1",
        "Uncaught Error: loose",
    ),
    "a query as result": ("return ctx.db.query('t')", "Uncaught Error: Return value is a Query."),
    "a date as result": ("return new Date()", "is not a supported Convex type"),
    "too many rows as result": (
        "return new Array(8193).fill(1)",
        "Function p.js:q return value invalid: Array length is too long (8193 > maximum length 8192)",
    ),
    "too large a result": (
        "return 'x'.repeat(17000000)",
        "Function p.js:q return value is too large (actual: 16.21 MiB, limit: 16 MiB)",
    ),
    "nesting of a result": (
        "let v = 1; for (let i = 0; i < 65; i++) v = [v]; return v",
        "return value invalid: Value is too nested",
    ),
    "endless loop": ("for (;;);", "Function execution timed out (maximum duration: 1s)"),
    "endless microtasks": ("for (;;) await null", "Function execution timed out (maximum duration: 1s)"),
    "slow regular expression": (
        "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "Function execution timed out (maximum duration: 1s)",
    ),
    "memory": (
        "const all = []; for (;;) all.push(new Array(100000).fill(all.length))",
        "JavaScript execution ran out of memory (maximum memory usage: 64 MB)",
    ),
}


@pytest.mark.parametrize(("code", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_failures_of_queries(fresh: Core, code: str, text: str) -> None:
    fresh.control("insert", table="t", documents=[{"kept": True}])
    assert text in fresh.fails("p:q", {"code": code}).detail
    assert fresh.run("p:q", {"code": "return (await ctx.db.query('t').collect()).length"}) == 1


def test_time_limits_cannot_be_caught(fresh: Core) -> None:
    error = fresh.fails(
        "p:m",
        {"code": "try { await ctx.runQuery(t.internal.p.innerQ, { code: `for (;;);` }); } catch (e) { return 1 }"},
    )
    assert error.detail == "Function execution timed out (maximum duration: 1s)"


def test_a_killed_loop_does_not_disturb_others(fresh: Core) -> None:
    import threading

    errors: list[str] = []
    loop = threading.Thread(target=lambda: errors.append(fresh.fails("p:q", {"code": "for (;;);"}).detail))
    loop.start()
    values = [fresh.run("p:m", {"code": f"await ctx.db.insert('t', {{ n: {n} }}); return {n}"}) for n in range(3)]
    loop.join()
    assert values == [0, 1, 2]
    assert len(fresh.control("list", table="t")["documents"]) == 3
    assert errors == ["Function execution timed out (maximum duration: 1s)"]


def test_module_state_never_survives_a_call(fresh: Core) -> None:
    assert [fresh.run("state:count") for _ in range(3)] == [1, 1, 1]
    assert fresh.run("state:imported") == fresh.run("state:imported")


def test_exports_that_change_are_seen_by_importers(fresh: Core) -> None:
    assert [fresh.run("live:value"), fresh.run("other:value"), fresh.run("live:value")] == [2, 1, 2]


def test_randomness_differs_between_calls(fresh: Core) -> None:
    assert fresh.run("p:q", {"code": "return Math.random()"}) != fresh.run("p:q", {"code": "return Math.random()"})


CONSOLE = {
    "text": ('console.log("hi", "it\'s")', "[LOG] 'hi' 'it\\'s'"),
    "object": ('console.warn({ a: 1, b: "x" })', "[WARN] {\n  a: 1,\n  b: 'x'\n}"),
    "array": ('console.info([1, 2, "z"])', "[INFO] [ 1, 2, 'z' ]"),
    "empty": ("console.error({}, [])", "[ERROR] {} []"),
    "error": ('console.debug(new Error("boom"))', "[DEBUG] [Error: boom]"),
    "numbers": ("console.log(10n, -0, undefined, null)", "[LOG] 10n -0 undefined null"),
    "date": ("console.log(new Date(0))", "[LOG] " + "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)"),
    "map": ("console.log(new Map([['a', 1]]))", "[LOG] Map (1) {\n  'a' => 1\n}"),
    "set": ("console.log(new Set([1]))", "[LOG] Set (1) {\n  1\n}"),
    "class": ("class Foo { a = 1 } console.log(new Foo())", "[LOG] Foo {\n  a: 1\n}"),
    "promise": ("console.log(Promise.resolve(1))", "[LOG] Promise [Promise] {}"),
    "bytes": ("console.log(new ArrayBuffer(1))", "[LOG] ArrayBuffer [ArrayBuffer] {}"),
    "newline": ("console.log('a\\nb')", "[LOG] 'a\\nb'"),
    "objects in an array": ("console.log([{ a: 1 }])", "[LOG] [\n  {\n    a: 1\n  }\n]"),
    "no substitution": ("console.log('%s', 1)", "[LOG] '%s' 1"),
    "timer twice": ("console.time('x'); console.time('x')", "[WARN] Timer 'x' already exists"),
    "unknown timer in between": ("console.timeLog()", "[WARN] Timer 'default' does not exist"),
    "unknown timer": ("console.timeEnd('x')", "[WARN] Timer 'x' does not exist"),
    "nested": ("await ctx.runQuery(t.internal.p.innerQ, { code: 'console.log(1)' })", "[LOG] 1"),
    "functions": ("console.log(function f() {}, () => {})", "[LOG] [Function: f] [Function (anonymous)]"),
}


@pytest.mark.parametrize(("code", "line"), CONSOLE.values(), ids=CONSOLE.keys())
def test_console(fresh: Core, code: str, line: str) -> None:
    assert fresh.call("p:q", {"code": code})["logLines"] == [line]


def test_log_lines_are_capped(fresh: Core) -> None:
    lines = fresh.call("p:q", {"code": "for (let i = 0; i < 300; i++) console.log(i)"})["logLines"]
    assert (len(lines), lines[-1]) == (256, "[ERROR] Log overflow (maximum 256). Remaining log lines omitted.")
    [line] = fresh.call("p:q", {"code": "console.log('x'.repeat(40000))"})["logLines"]
    assert len(line) == 32768
    assert line.endswith(" (truncated due to length)")


def test_actions_have_timers_and_a_moving_clock(fresh: Core) -> None:
    code = "const a = Date.now(); await new Promise((r) => setTimeout(r, 20)); let n = 0; await new Promise((r) => { const i = setInterval(() => { if (++n === 3) { clearInterval(i); r(); } }, 1); }); return [Date.now() - a >= 20, n]"
    assert fresh.run("p:a", {"code": code}) == [True, 3]


def test_unawaited_operations_of_actions_are_named(fresh: Core) -> None:
    lines = fresh.call(
        "p:a", {"code": "ctx.runQuery(t.internal.p.innerQ, { code: `for (let i = 0; i < 1e7; i++);` }); return 1"}
    )["logLines"]
    assert lines[0].startswith("[WARN] 1 unawaited operation: [query].")


def test_operations_of_an_action_wait_for_each_other_without_limit(fresh: Core) -> None:
    code = "const id = await ctx.storage.store(new Blob(['x'])); const all = await Promise.all(Array.from({ length: 2500 }, () => ctx.storage.getUrl(id))); return [all.length, new Set(all).size]"
    assert fresh.run("p:a", {"code": code}) == [2500, 1]


def test_json_of_a_response_belongs_to_its_reader(fresh: Core) -> None:
    code = "const r = await fetch(args, { method: 'POST' }); const j = await r.json(); return [r.status, j.constructor === Object, Object.getPrototypeOf(j) === Object.prototype]"
    assert fresh.run("p:a", {"code": code, "args": f"{fresh.url}/api/nothing"}) == [404, True, True]


def test_what_a_function_is_told_about_its_request(fresh: Core) -> None:
    code = "return { ...(await ctx.meta.getRequestMetadata()), ...(await ctx.meta.getFunctionMetadata()) }"
    for path in ("p:m", "p:a"):
        answer = fresh.post(f"/api/{'mutation' if path == 'p:m' else 'action'}", {"path": path, "args": {"code": code}})
        told = answer.json()["value"]
        assert len(told.pop("requestId")) == 16
        assert told.pop("userAgent").startswith("Python-urllib")
        assert told.pop("ip").endswith("127.0.0.1")
        assert (told["name"], told["componentPath"], told["scheduledFunctionId"]) == (path, "", None)
    assert "Unknown async operation" in fresh.fails("p:q", {"code": RAW_METADATA}).detail


RAW_METADATA = "return await Convex.asyncSyscall('1.0/getRequestMetadata', '{}')"


def test_functions_that_an_action_cannot_find(fresh: Core) -> None:
    for code, text in {
        "return await ctx.runQuery(t.internal.p.none, {})": "Uncaught Error: Couldn't resolve api.p.none",
        "return await ctx.runMutation(t.api.lib.deep.none, {})": "Uncaught Error: Couldn't resolve api.lib.deep.none",
        "return await ctx.runAction('p', {})": "Uncaught Error: Couldn't resolve api.p.default",
    }.items():
        assert fresh.fails("p:a", {"code": code}).detail.startswith(text)


def test_arguments_are_one_object(fresh: Core) -> None:
    for args, text in {
        "[1]": "ArgumentValidationError: Expected to receive an object as the function's argument. Instead received: 1",
        "[{}, {}]": "ArgumentValidationError: Expected to receive a single object as the function's argument. Instead received 2 arguments:",
        "[]": "ArgumentValidationError: Expected to receive a single object as the function's argument. Instead received 0 arguments:",
    }.items():
        answer = fresh.post("/api/query", {"path": "p:q", "args": json.loads(args)}).json()
        assert text in answer["errorMessage"]


def test_fetch_reaches_only_what_is_allowed(fresh: Core) -> None:
    code = "try { return (await fetch(args)).status } catch (e) { return [e instanceof TypeError, e.message] }"
    assert fresh.run("p:a", {"code": code, "args": f"{fresh.url}/version"}) == 200
    refused = fresh.run("p:a", {"code": code, "args": "http://127.0.0.1:1/"})
    assert refused[0] is True
    assert "fetch failed" in refused[1]


def test_node_actions(fresh: Core) -> None:
    answer = fresh.call("node:hash")
    assert (answer["value"], answer["logLines"]) == ("ca978112", ["[LOG] 'in node' { a: 1 }"])
    assert "process.exit() called" in fresh.fails("node:quit").message
    assert fresh.run("node:hash") == "ca978112"


def test_environment_variables(fresh: Core) -> None:
    fresh.control("env.set", variables={"COLOR": "red"})
    assert fresh.run("p:q", {"code": "return process.env.COLOR"}) == "red"
    assert "invalid" in fresh.fails("p:q", {"code": "return process.env['a-b']"}).message
    fresh.control("env.set", variables={"COLOR": None})
    assert fresh.run("p:q", {"code": "return process.env.COLOR ?? 'none'"}) == "none"


def test_an_endless_loop_in_an_action_holds_up_only_itself(bundler) -> None:
    core = Core("--action-seconds", "1")
    try:
        bundler.push(core, FILES)
        for code in ("for (;;);", "for (;;) await null"):
            loop = core.lines.begin(op="call", params={"path": "p:a", "args": {"code": code}})
            assert core.run("p:a", {"code": "return 1"}) == 1
            error = loop()["ok"]["error"]["message"]
            assert error.endswith("Function execution timed out (maximum duration: 1s)")
        assert core.run("p:a", {"code": "return 2"}) == 2
    finally:
        core.close()


def test_loose_rejections_fail_an_action(fresh: Core) -> None:
    code = "Promise.reject(new Error('loose')); await new Promise((r) => setTimeout(r, 20)); return 1"
    assert "Uncaught Error: loose" in fresh.fails("p:a", {"code": code}).detail


def test_unawaited_writes_of_a_mutation_are_kept_and_those_of_a_failed_one_are_not(fresh: Core) -> None:
    fresh.run("p:m", {"code": "ctx.db.insert('t', { n: 1 }); return 1"})
    fresh.fails("p:m", {"code": "ctx.db.insert('t', { n: 2 }); throw new Error('no')"})
    assert [row["n"] for row in fresh.control("list", table="t")["documents"]] == [1]
