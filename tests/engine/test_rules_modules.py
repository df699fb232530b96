# ruff: noqa: E501 - programs in tables stay on one line
"""Modules as the bundler writes them: what they export, how they import each other, what is refused."""

import pytest

from .support.core import Core
from .support.project import Bundler, PushError

HEAD = 'import { query, action, mutation } from "{up}_generated/server";\n'


def module(text: str, up: str = "./") -> str:
    return HEAD.replace("{up}", up) + text


FILES = {
    "fn.ts": module("export default query({ args: {}, handler: async () => 'default' });"),
    "named.ts": module(
        "const f = query({ args: {}, handler: async () => 'both' }); export { f as default, f as other };"
    ),
    "again.ts": 'export { default as f, default } from "./fn"; export * from "./named";',
    "lib/state.ts": """
        export let plain = 0, swapped = 0, listed = 0, given = { n: 0 };
        export const bump = () => { plain++; [swapped] = [swapped + 1]; ({ n: given } = { n: { n: 5 } }); for (listed of [7, 8]); };
        export function replaced() { return "old"; }
        export const replace = () => { (replaced as any) = () => "new"; };
    """,
    "live.ts": module("""
        import { plain, swapped, listed, given, bump, replaced, replace } from "./lib/state";
        import * as all from "./lib/state";
        export const f = query({ args: {}, handler: async () => { bump(); replace(); return [plain, swapped, listed, given.n, replaced(), all.swapped]; } });
    """),
    "live2.ts": module(
        'import { swapped } from "./lib/state"; export const f = query({ args: {}, handler: async () => swapped });'
    ),
    "round/a.ts": module(
        'import { b } from "./b"; export const a = () => "a" + b(0); export const f = query({ args: {}, handler: async () => a() });',
        "../",
    ),
    "round/b.ts": module(
        'import { a } from "./a"; export const b = (n: number): string => (n > 0 ? a() : "b"); export const g = query({ args: {}, handler: async () => typeof a + b(0) });',
        "../",
    ),
    "texts.ts": module("""
        const text = `import { x } from "y";\\nexport { z };\\nexport default 1;`;
        const pattern = /(?:^|[\\n;}])\\s*export\\s*\\{([^}]*)\\}/;
        export const f = query({ args: {}, handler: async () => [text.length, pattern.test(text), String(import_ + export_)] });
        const import_ = 1, export_ = 2;
    """),
    "names.ts": module("""
        const exports = 1, module = 2, require = 3, take = 4, scope = 5, __convexModule = 6;
        export const get = query({ args: {}, handler: async () => exports + module + require + take + scope + __convexModule });
        export const set = query({ args: {}, handler: async () => typeof (globalThis as any).take });
    """),
    "lazy/main.ts": module(
        """
        export const near = action({ args: {}, handler: async () => (await import("./other")).value });
        export const far = action({ args: {}, handler: async () => (await import("../fn")).default !== undefined });
        export const live = action({ args: {}, handler: async () => { const m = await import("../lib/state"); m.bump(); return m.swapped; } });
        export const asked = query({ args: {}, handler: async () => await import("./other").then(() => "loaded", (e) => `${e.name}: ${e.message}`) });
    """,
        "../",
    ),
    "lazy/other.ts": module(
        'export const value = "other"; export const f = query({ args: {}, handler: async () => value });', "../"
    ),
    "other.ts": module(
        'export const value = "wrong"; export const f = query({ args: {}, handler: async () => value });'
    ),
    "kinds.ts": module("""
        class Base { static made = 0; #secret = 1; static { this.made = 3; } get secret() { return this.#secret; } }
        export default class extends Base {}
        export async function* numbers() { yield await [1][0]; }
        export const f = query({ args: {}, handler: async () => { const out = [Base.made, new Base().secret]; for await (const n of numbers()) out.push(n!); return out; } });
    """),
}

CALLS = {
    "fn": "default",
    "named": "both",
    "named:other": "both",
    "again:f": "default",
    "again:other": "both",
    "again": "default",
    "live:f": [1, 1, 8, 5, "new", 1],
    "live2:f": 0,
    "round/a:f": "ab",
    "round/b:g": "functionb",
    "texts:f": [54, True, "3"],
    "names:get": 21,
    "names:set": "undefined",
    "lazy/main:near": "other",
    "lazy/main:far": True,
    "lazy/main:live": 1,
    "lazy/main:asked": "TypeError: dynamic module import unsupported",
    "kinds:f": [3, 1, 1],
}


@pytest.mark.parametrize(("path", "value"), CALLS.items(), ids=CALLS.keys())
def test_modules_behave_as_modules(fresh: Core, path: str, value: object) -> None:
    assert [fresh.run(path), fresh.run(path)] == [value, value]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("export const x = await 1;", "Top-level awaits in source files are unsupported"),
        ("export const x = await (async () => 1)();", "Top-level awaits in source files are unsupported"),
        (
            "export const x = 1;\nfor await (const y of []) console.log(y);",
            "Top-level awaits in source files are unsupported",
        ),
        ("export const x = import.meta.url;", "import.meta unsupported"),
        ("export const x = (undefined as any).y;", "Failed to analyze m.js: Uncaught TypeError: "),
        ("import { a } from './n';\nexport const x = a();", "Failed to analyze "),
    ],
)
def test_modules_that_cannot_be_evaluated_fail_the_push(bundler: Bundler, core: Core, text: str, error: str) -> None:
    files = {"m.ts": text, "n.ts": "import { x } from './m';\nexport const b = x;\nexport const a = () => b.c;\n"}
    with pytest.raises(PushError) as caught:
        bundler.push(core, files)
    assert error in caught.value.message
