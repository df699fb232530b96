# ruff: noqa: E501 - programs in tables stay on one line
"""What a push refuses in modules and functions: the smallest program, the code and the message."""

import pytest

from .support.core import Core
from .support.project import Bundler
from .support.pushes import HEAD, MODULES, Files, Refusals, check_refusal, refusal


def function(validators: str) -> Files:
    return {"m.ts": HEAD + f"export const f = query({{ {validators}, handler: async () => 1 as any }});"}


def exporting(method: str, text: str) -> Files:
    """A function whose validators do not come from the library."""
    return {"m.ts": HEAD + f"const f: any = query({{ args: {{}}, handler: async () => 1 }}); f.{method} = () => {text!r}; export {{ f }};"}  # fmt: skip


REFUSED: Refusals = {
    "throws at import": ({"m.ts": 'export const x = 1; throw new Error("bad");'}, "InvalidModules", MODULES + "Failed to analyze m.js: Uncaught Error: bad\n"),
    "import logs are shown": ({"m.ts": 'console.log("before"); throw new Error("bad"); export {};'}, "InvalidModules", "[LOG] 'before'"),
    "top-level await": ({"m.ts": "export const x = await Promise.resolve(1);"}, "InvalidModules", "Top-level awaits in source files are unsupported"),
    "database at import": ({"m.ts": 'Convex.syscall("1.0/queryStream", "{}"); export {};'}, "InvalidModules", "Can't use database at import time"),
    "timer at import": ({"m.ts": "setTimeout(() => {}, 1); export {};"}, "InvalidModules", "setTimeout unsupported at import time"),
    "endless loop at import": ({"m.ts": "for (;;); export {};"}, "InvalidModules", "Function execution timed out (maximum duration: 4s)"),
    "hyphen in a module path": ({"a-b.ts": HEAD}, "InvalidConfig", "a-b.js is not a valid path to a Convex module."),
    "function name": ({"m.ts": HEAD + "const f = query({ args: {}, handler: async () => 1 }); export { f as $f };"}, "InvalidFunctionName", "Invalid function name used in `m.js`:"),
    "args that are no object": ({"m.ts": HEAD + 'const f: any = query({ args: {}, handler: async () => 1 }); f.exportArgs = () => JSON.stringify({ type: "string" }); export { f };'}, "InvalidModules", MODULES + "Invalid JSON returned from m.js:f.exportArgs(): Args validator must be an object or any"),
    "undefined validator": ({"m.ts": HEAD + "export const f = query({ args: { a: v.object({ b: undefined as any }) }, handler: async () => 1 });"}, "InvalidModules", 'A validator is undefined for field "b" in v.object().'),
    "literal record keys": ({"m.ts": HEAD + 'export const f = query({ args: { a: v.record(v.union(v.literal("a"), v.literal("b")) as any, v.number()) }, handler: async () => 1 });'}, "InvalidModules", "Records cannot have string literal keys"),
    "record keys that are no strings": ({"m.ts": HEAD + "export const f = query({ args: { a: v.record(v.number() as any, v.number()) }, handler: async () => 1 });"}, "InvalidModules", "Records can only have string keys"),
    "object field that is no identifier": ({"m.ts": HEAD + 'export const f = query({ args: { "a-b": v.number() }, handler: async () => 1 });'}, "InvalidModules", 'Error in args validator: m.js:f: Invalid object field name "a-b": Identifiers must start with a letter'),
    "query in a node module": ({"m.ts": '"use node";' + HEAD + "export const f = query({ args: {}, handler: async () => 1 });"}, "InvalidModules", MODULES + "`f` defined in `m.js` is a Query function. Only actions can be defined in Node.js."),
    "public names that clash": ({"m.ts": HEAD + "export const x = query({ args: {}, handler: async () => 1 });", "m/x.ts": HEAD.replace("./_", "../_") + "export const y = query({ args: {}, handler: async () => 1 });"}, "InvalidExport", "Export m/x conflicts with existing export"),
    "fetch at import": ({"m.ts": 'await0(fetch("http://x")); function await0(p) { p.catch((e) => { throw e; }); } export {};'}, "InvalidModules", "fetch() unsupported at import time"),
    "endless loop at import of a node module": ({"m.ts": '"use node"; for (;;); export {};'}, "InvalidModules", "Function execution timed out (maximum duration: 4s)"),
    "node module that throws": ({"m.ts": '"use node"; throw new Error("bad"); export {};'}, "InvalidModules", MODULES + "Failed to analyze m.js: Error: bad"),
    "path that is too long": ({"a" * 62 + ".ts": HEAD}, "InvalidConfig", "a" * 62 + ".js is not a valid path to a Convex module."),
    "returns validator": ({"m.ts": HEAD + "export const f = query({ args: {}, returns: v.record(v.number() as any, v.number()), handler: async () => ({}) });"}, "InvalidModules", "Error in returns validator: m.js:f: Records can only have string keys"),
    "mutation in a node module": ({"m.ts": '"use node";' + HEAD + "export const f = mutation({ args: {}, handler: async () => 1 });"}, "InvalidModules", "is a Mutation function. Only actions can be defined in Node.js."),
    "HTTP action in a node module": ({"m.ts": '"use node";' + HEAD + 'export const f = httpAction(async () => new Response(""));'}, "InvalidModules", "is a HttpAction function. Only actions can be defined in Node.js."),
    "randomness for keys at import": ({"m.ts": 'crypto.subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign"]); export {};'}, "InvalidModules", "Cannot use cryptographic randomness at import time"),
    "folder with a hyphen": ({"a-b/m.ts": HEAD.replace("./_", "../_")}, "InvalidConfig", "a-b/m.js is not a valid path to a Convex module."),
    "function name that is too long": ({"m.ts": HEAD + f"export const {'f' * 65} = query({{ args: {{}}, handler: async () => 1 }});"}, "InvalidFunctionName", f'Invalid function name used in `m.js`: "{"f" * 65}"'),
    "args that are no JSON": (exporting("exportArgs", "nonsense"), "InvalidModules", MODULES + "Invalid JSON returned from m.js:f.exportArgs():"),
    "returns that are no JSON": (exporting("exportReturns", "nonsense"), "InvalidModules", MODULES + "Invalid JSON returned from m.js:f.exportReturns():"),
    "args of an unknown type": (exporting("exportArgs", '{"type":"object","value":{"a":{"fieldType":{"type":"date"},"optional":false}}}'), "InvalidModules", 'Error in args validator: m.js:f: Invalid validator for key `a`: unknown validator type "date"'),
    "args whose type has a toString": (exporting("exportArgs", '{"type":{"toString":"any","valueOf":1}}'), "InvalidModules", "Error in args validator: m.js:f: unknown validator type"),
    "optional record values in arguments": (function("args: { a: v.record(v.string(), v.optional(v.number()) as any) }"), "InvalidModules", "Uncaught Error: Record validator cannot have optional values"),
    "optional record values without the library": (exporting("exportReturns", '{"type":"record","keys":{"type":"string"},"values":{"fieldType":{"type":"number"},"optional":true}}'), "InvalidModules", MODULES + "Error in returns validator: m.js:f: Records cannot have optional values"),
    "validator without end": ({"m.ts": HEAD + "const f: any = query({ args: {}, handler: async () => 1 }); f.exportReturns = () => '{\"type\":\"array\",\"value\":'.repeat(50000) + '{\"type\":\"any\"}' + '}'.repeat(50000); export { f };"}, "InvalidModules", MODULES + "Error in returns validator: m.js:f: Validator is too nested"),
    "repeated timer at import": ({"m.ts": "setInterval(() => {}, 1); export {};"}, "InvalidModules", "setInterval unsupported at import time"),
    "rejection at import that nobody handles": ({"m.ts": 'Promise.reject(new Error("loose")); export {};'}, "InvalidModules", "Failed to analyze m.js: Uncaught Error: loose"),
    "import.meta outside Node": ({"m.ts": "export const x = import.meta.url;"}, "InvalidModules", "TypeError: import.meta unsupported"),
    "literal that is no number": (function("args: { a: v.literal(NaN) }"), "InvalidModules", "Literal validators cannot be NaN or Infinity"),
    "literal without end": (function("args: { a: v.literal(Infinity) }"), "InvalidModules", "Literal validators cannot be NaN or Infinity"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_push_is_refused(core: Core, bundler: Bundler, files: Files, code: str, text: str) -> None:
    check_refusal(core, bundler, files, code, text)


ACCEPTED = {
    "clock and randomness at import": {"m.ts": "export const x = [Date.now(), Math.random(), crypto.randomUUID()];"},
    "internal names may clash": {"m.ts": HEAD + "export const x = internalMutation({ args: {}, handler: async () => 1 });", "m/x.ts": HEAD.replace("./_", "../_") + "export const y = query({ args: {}, handler: async () => 1 });"},
    "functions without validators": {"m.ts": HEAD + "export const f = query(async () => 1);"},
    "the longest names": {"a" * 61 + ".ts": HEAD + f"export const {'f' * 64} = query({{ args: {{}}, handler: async () => 1 }});"},
    "import.meta in a node module": {"m.ts": '"use node"; import { createRequire } from "node:module"; export const x = [createRequire(import.meta.url)("node:os").EOL, import.meta.dirname.length];'},
    "names of CommonJS in a node module": {"m.ts": '"use node"; module.exports.a = exports === module.exports; export {};'},
    "returns without a validator": exporting("exportReturns", "null"),
    "arguments of any kind": exporting("exportArgs", '{"type":"any"}'),
}  # fmt: skip


@pytest.mark.parametrize("files", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_push_is_accepted(core: Core, bundler: Bundler, files: Files) -> None:
    bundler.push(core, files)


def test_what_counts_as_a_function(core: Core, bundler: Bundler) -> None:
    """One kind and at most one visibility, own or inherited; the last hundred lines of an import are shown when it fails."""
    text = (
        HEAD
        + """
        const plain: any = query({ args: {}, handler: async () => 7 });
        export const inherited: any = Object.create(plain);
        export const twoKinds: any = Object.assign(query({ args: {}, handler: async () => 1 }), { isMutation: true });
        export const twoVisibilities: any = Object.assign(query({ args: {}, handler: async () => 1 }), { isInternal: true });
        export const number = 1, text = "isQuery", nothing = null;
    """
    )
    bundler.push(core, {"m.ts": text})
    assert [fn["identifier"] for fn in core.run("_system/cli/modules:apiSpec", identity="admin")] == ["m.js:inherited"]
    assert core.run("m:inherited") == 7
    assert "Could not find public function for 'm:twoKinds'" in core.fails("m:twoKinds").detail
    loud = {"m.ts": 'for (let n = 0; n < 150; n++) console.log(n); throw new Error("bad"); export {};'}
    lines = refusal(core, bundler, loud).message.split("\n\n")[-1].split("\n")
    assert [line for line in lines if line] == [f"[LOG] {n}" for n in range(50, 150)]
