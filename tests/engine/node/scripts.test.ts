/** Bundled modules as scripts: which are taken, what they export, where their lines are. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { compileScript, type ModuleScope } from "#runner/scripts.js";

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

test("modules that change their exports or have another outline are left to the module loader", () => {
  for (const source of [
    "let n = 0;\nfunction up() { n++; }\nexport { n, up };\n",
    "var n;\nfunction init() { n = 1; }\nn = 0;\nexport { n, init };\n",
    "export const a = 1;\n",
    "var a = await 1;\nexport { a };\n",
    'import * as all from "./a.js";\nexport { all };\n',
    "var a = import.meta;\nexport { a };\n",
  ]) assert.equal(compileScript(source, "convex:/|m.js", () => null), null, source);
});

test("stack lines keep their positions", () => {
  const found = load('import { x } from "./a.js";\nfunction boom() {\n  throw new Error("here");\n}\nexport { boom };\n', [{ x: 1 }]);
  assert.throws(() => (found?.["boom"] as () => void)(), (error: Error) => /convex:\/\|m\.js:3:9/.test(error.stack ?? ""));
});
