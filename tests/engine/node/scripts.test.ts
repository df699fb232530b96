/** Bundled modules as scripts: which are taken, what they export, where their lines are. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { compileScript as compileOutline, outlineOf, type ModuleScope, type ScriptModule } from "#runner/scripts.js";

function compileScript(source: string, identifier: string, onDynamicImport: () => unknown): ScriptModule | null {
  const outline = outlineOf(source);
  return outline === null ? null : compileOutline(outline, identifier, onDynamicImport);
}

function load(source: string, dependencies: Record<string, unknown>[] = []): Record<string, unknown> | null {
  const compiled = compileScript(source, "convex:/|m.js", () => null);
  if (compiled === null) return null;
  let exported: Record<string, unknown> = {};
  const scope: ModuleScope = {
    exports: (getters) => (exported = getters as Record<string, unknown>),
    take: (index, name) => dependencies[index]?.[name],
  };
  (compiled.script.runInThisContext() as (scope: ModuleScope) => void)(scope);
  return exported;
}

test("exports are live and have their public names", () => {
  const found = load('var a = 1;\nfunction later() { return typeof b; }\nconst b = "x";\nexport {\n  a as default,\n  later\n};\n//# sourceMappingURL=m.js.map\n');
  assert.deepEqual(Object.keys(found ?? {}), ["default", "later"]);
  assert.equal((found?.["later"] as () => string)(), "string");
});

test("imports in every form the bundler writes", () => {
  const found = load('import {\n  x as y,\n  z\n} from "./_deps/A.js";\nimport d, { e } from "./_deps/B.js";\nimport "./_deps/C.js";\nvar all = [y, z, d, e];\nexport { all };\n', [{ x: 1, z: 2 }, { default: 3, e: 4 }, {}]);
  assert.deepEqual([...(found?.["all"] as number[])], [1, 2, 3, 4]);
  const minified = load('import{x as y}from"./a.js";var r=y+1;export{r as default};', [{ x: 1 }]);
  assert.equal(minified?.["default"], 2);
});

test("licence comments may follow the exports", () => {
  assert.equal(load("var a = 1;\nexport {\n  a\n};\n/*! Bundled license information:\n\nx.js:\n  (** * MIT *)\n*/\n")?.["a"], 1);
});

test("exports in every form", () => {
  const found: [string, string, unknown][] = [
    ["function f() { return 1; }\nexport {\n  f as default\n};\n", "default", 1],
    ["var o = () => 2;\nexport { o as default, o as named };\n", "named", 2],
    ["class C { static call() { return 3; } }\nvar x = () => C.call();\nexport { C as default, x };\n", "x", 3],
    ['import { a } from "./_deps/A.js";\nexport {\n  a\n};\n', "a", 4],
    ['import{a as t}from"./_deps/A.js";export{t as default};', "default", 4],
    ['import d from "./_deps/A.js";\nexport { d as again };\n', "again", 5],
    ['import { default as d } from "./_deps/A.js";\nexport { d as again };\n', "again", 5],
    ["var { a, b: [c] } = { a: () => 6, b: [() => 7] };\nexport { a, c };\n", "c", 7],
    ["export { later };\nfunction later() { return 8; }\n", "later", null],
    ["var get = () => 9, set = 1;\nexport { get, set };\n", "get", 9],
  ];
  for (const [source, name, value] of found) {
    const loaded = load(source, [{ a: () => 4, default: () => 5 }]);
    assert.equal(loaded === null ? null : (loaded[name] as () => unknown)(), value, source);
  }
});

test("words of the module syntax inside literals mean nothing", () => {
  for (const [text, value] of [
    ["`\nexport { b };\n`", "\nexport { b };\n"],
    ["'import { b } from \"x\";'", 'import { b } from "x";'],
    ["String(/export\\s*\\{([^}]*)\\}/)", "/export\\s*\\{([^}]*)\\}/"],
    ["`import ${1 + 1} export`", "import 2 export"],
  ] as const) assert.equal(load(`var a = ${text};\nexport { a };\n`)?.["a"], value);
});

test("module scope: no this, strict, directives, names of the host's wrapper", () => {
  assert.equal(load("var a = this;\nexport { a };\n")?.["a"], undefined);
  assert.equal(load('"use client";\nvar a = (function() { return this; })();\nexport { a };\n')?.["a"], undefined);
  assert.equal(load("var exports = 1, module = 2, require = 3, scope = exports + module + require;\nexport { scope };\n")?.["scope"], 6);
});

test("a loop over what is awaited is no top-level await inside a function, and one at the top level is", () => {
  assert.notEqual(load("async function all(list) { for await (const x of list) ; }\nexport { all };\n"), null);
  for (const loop of ["for await (const x of [])", "for  await (const x of [])", "for\nawait (const x of [])"]) {
    assert.equal(load(`var a = 1;\n${loop} ;\nexport { a };\n`), null, loop);
    assert.equal(load(`var a = 1;\n${loop} ;\nvar b = await (a);\nexport { a };\n`), null, loop);
  }
});

test("names of exports that stand in longer names are not taken for them", () => {
  const found = load("var a = 1, $ = 2;\nvar xa = 3;\nvar ab = {};\nab.a = 4;\nab.$ = 5;\nvar $a = 6;\n$a++;\nxa = 7;\nexport { a, $ };\n");
  assert.deepEqual([found?.["a"], found?.["$"]], [1, 2]);
  for (const change of ["$ = 3;", "$++;", "--a;", "[a] = [1];", "({ $ } = {});", "for (a of []) ;", "a\n= 2;"]) {
    assert.equal(load(`var a = 1, $ = 2;\n${change}\nexport { a, $ };\n`), null, change);
  }
});

test("awaits inside async functions are no top-level awaits", () => {
  assert.notEqual(load("var a = async () => await (async () => 1)();\nasync function* g() { for await (const x of []) yield await [x]; }\nexport { a, g };\n"), null);
});

test("exports that keep their value are taken", () => {
  for (const source of [
    "var a = {}, b = [];\na[b] = 1;\na.b = 2;\nb[0] = a;\nexport { a, b };\n",
    "var a = 1;\nfunction f({ x: t = 2 } = {}, [u] = []) { let [v, w] = [t, u]; return a === v && a >= w && a <= t; }\nexport { a, f };\n",
    "var a = 1, o = { a: 2, b: a };\nconst { z } = o;\nexport { a, o };\n",
    "function f() {}\nclass A {}\nvar g = (f) => f == A;\nexport { f, A, g };\n",
  ]) assert.notEqual(compileScript(source, "convex:/|m.js", () => null), null, source);
});

test("modules that change their exports or have another outline are left to the module loader", () => {
  for (const source of [
    "let n = 0;\nfunction up() { n++; }\nexport { n, up };\n",
    "let m = 0, n = 0;\nfunction up() { m\n++n }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { --n; }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { n ??= 1; }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { [n] = [1]; }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { ({ a: n } = { a: 1 }); }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { ({ a: [, { b: n = 2 }], ...rest } = x); }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { for (n of [1, 2]) ; }\nexport { n, up };\n",
    "let n = 0;\nfunction up() { for ([n] of [[1]]) ; }\nexport { n, up };\n",
    "function n() {}\nfunction up() { n = null; }\nexport { n, up };\n",
    "class n {}\nfunction up() { n = null; }\nexport { n, up };\n",
    "var n;\nfunction init() { n = 1; }\nn = 0;\nexport { n, init };\n",
    "export const a = 1;\n",
    "export default function() {}\n",
    "export default class {}\n",
    'export { a } from "./a.js";\n',
    'export * from "./a.js";\n',
    'export * as a from "./a.js";\n',
    'var a = 1;\nexport { a as "a name" };\n',
    'import { "a name" as a } from "./a.js";\nexport { a };\n',
    'import a, * as b from "./a.js";\nexport { a, b };\n',
    'import a from "./a.json" with { type: "json" };\nexport { a };\n',
    "var a = await 1;\nexport { a };\n",
    "var a = await (async () => 1)();\nexport { a };\n",
    "var a = await [1];\nexport { a };\n",
    "for await (const x of []) ;\n",
    'import * as all from "./a.js";\nexport { all };\n',
    "var a = import.meta;\nexport { a };\n",
    "var a = () => import.meta.url;\nexport { a };\n",
    "#!/usr/bin/env node\nvar a = 1;\nexport { a };\n",
    '"use strict";\nimport { x } from "./a.js";\nexport { x };\n',
  ]) assert.equal(compileScript(source, "convex:/|m.js", () => null), null, source);
});

test("stack lines keep their positions", () => {
  const found = load('import { x } from "./a.js";\nfunction boom() {\n  throw new Error("here");\n}\nexport { boom };\n', [{ x: 1 }]);
  assert.throws(() => (found?.["boom"] as () => void)(), (error: Error) => /convex:\/\|m\.js:3:9/.test(error.stack ?? ""));
});
