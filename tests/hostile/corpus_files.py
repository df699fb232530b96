# ruff: noqa: E501 - programs in tables stay on one line
"""Paths, packages and settings: decided before anything of the submission runs, the same at every level."""

from __future__ import annotations

import json

from tests.hostile.case import Case

WRITES = 'import fs from "node:fs"; fs.writeFileSync("{OUTSIDE}/written", "x"); process.exit(0);\n'
NOTES = "export const more = 1;\n"
PACKAGE = {"name": "x", "type": "module", "dependencies": {"convex": "1.48.0"}}


def refused_path(name: str, attempts: str, *paths: str, cause: str = "path", quick: bool = False) -> Case:
    files = dict.fromkeys(paths, NOTES)
    return Case(name, attempts, files, "filesystem", "failed", cause, everywhere=False, quick=quick)


def ignored(name: str, attempts: str, path: str, text: str) -> Case:
    return Case(name, attempts, {path: text}, "tests", "passed", everywhere=False)


def package(name: str, attempts: str, cause: str = "package", **changes: object) -> Case:
    text = json.dumps({**PACKAGE, **changes})
    return Case(name, attempts, {"package.json": text}, "install", "failed", cause, everywhere=False)


def depends(version: str) -> dict[str, object]:
    return {"dependencies": {"convex": "1.48.0", "other": version}}


def switched_off(name: str, attempts: str, step: str, cause: str, files: dict[str, str], reason: str = "") -> Case:
    return Case(name, attempts, files, step, "failed", cause, reason, everywhere=False)  # type: ignore[arg-type]


WRONG_TYPE = 'export const wrong: number = "text";\n'
FLOATING = (
    'import { mutation } from "./_generated/server";\n'
    "export const f = mutation({ args: {}, handler: async (ctx) => {\n"
    '  ctx.db.insert("notes", { text: "a" });\n  return await Promise.resolve(null);\n} });\n'
)

PATHS = [
    refused_path("absolute path", "write to an absolute path", "{OUTSIDE}/written.ts", quick=True),
    refused_path("dot dot", "leave the project by ..", "convex/../../../written.ts"),
    refused_path("home", "write into the home folder", "~/.ssh/authorized_keys"),
    refused_path("backslashes", "leave the project on other systems", "convex\\..\\..\\written.ts"),
    refused_path("drive", "name a drive", "C:/written.ts"),
    refused_path("control character", "hide the end of a name", "convex/a.ts\x00.txt"),
    refused_path("direction mark", "show another name than the real one", "convex/a\u202est.ts"),
    refused_path("device", "name a device of other systems", "convex/aux.ts"),
    refused_path("trailing dot", "be another file on other systems", "convex/notes.ts."),
    refused_path("case twins", "overwrite a file where case is folded", "convex/Notes.ts"),
    refused_path("unicode twins", "overwrite a file where names are normalised", "convex/é.ts", "convex/e\u0301.ts"),
    refused_path("file and folder", "be a file and a folder", "convex/a", "convex/a/b.ts"),
    refused_path("deep", "exhaust the depth of folders", "/".join(["a"] * 30) + ".ts"),
    refused_path("long name", "exhaust the length of names", f"convex/{'a' * 300}.ts"),
    refused_path("many files", "exhaust the number of files", *(f"convex/f{n}.ts" for n in range(2_100)), cause="limit"),
    Case("big file", "exhaust the disk", {"convex/big.ts": "//" + "x" * 3_000_000}, "filesystem", "failed", "limit",
         everywhere=False),
    Case("functions elsewhere", "let the CLI write to another folder", {"convex.json": '{"functions": "../../written/"}'},
         "filesystem", "failed", "path", everywhere=False, quick=True),
    Case("functions at an absolute path", "let the CLI write to another folder",
         {"convex.json": '{"functions": "{OUTSIDE}"}'}, "filesystem", "failed", "path", everywhere=False),
    Case("functions among the packages", "let the CLI write into the package store",
         {"convex.json": '{"functions": "node_modules/convex"}'}, "filesystem", "failed", "path", everywhere=False),
    Case("functions behind a deep value", "hide a folder from the reader of convex.json",
         {"convex.json": '{"a": ' + "[" * 50_000 + "]" * 50_000 + ', "functions": "../../written/"}'},
         "filesystem", "failed", "path", everywhere=False),
    refused_path("surrogate", "be no text", "convex/\ud800.ts"),
    refused_path("folder twins", "be one folder where case is folded", "convex/a/x.ts", "convex/A/y.ts"),
]  # fmt: skip

IGNORED = [
    ignored("node_modules", "bring its own convex package", "node_modules/convex/bin/main.js", "process.exit(0);"),
    ignored("generated code", "bring its own generated code", "convex/_generated/server.js", "throw new Error('x');"),
    ignored("npmrc", "turn scripts on and change the registry", ".npmrc", "ignore-scripts=false\n"),
    ignored("dotenv", "point the CLI elsewhere", ".env.local", "CONVEX_DEPLOYMENT=prod:other\n"),
    ignored("git hook", "be run by git", ".git/hooks/post-checkout", "#!/bin/sh\ntouch {OUTSIDE}/hook\n"),
    ignored("vite config", "be run by a tool of the project", "vite.config.ts", f"{WRITES}export default {{}};"),
    ignored("vitest config", "be run by a test runner", "vitest.config.ts", f"{WRITES}export default {{}};"),
    ignored("node_modules by another case", "bring its own convex package where case is folded",
            "Node_Modules/convex/bin/main.js", "process.exit(0);"),
    ignored("lock file", "choose where packages come from", "package-lock.json", '{"lockfileVersion": 3}'),
    Case("install script", "run a script at install", {"package.json": json.dumps(
        {**PACKAGE, "scripts": {"preinstall": "touch {OUTSIDE}/script", "postinstall": "touch {OUTSIDE}/script"}})},
        "tests", "passed", everywhere=False),
    Case("overrides", "replace what the CLI is made of", {"package.json": json.dumps(
        {**PACKAGE, "overrides": {"esbuild": "file:../evil"}, "resolutions": {"esbuild": "file:../evil"}})},
        "tests", "passed", everywhere=False),
]  # fmt: skip

PACKAGES = [
    package("git package", "fetch from git", **depends("git+ssh://git@127.0.0.1/x.git")),
    package("github package", "fetch from GitHub", **depends("somebody/something")),
    package("file package", "link a folder of the machine", **depends("file:{OUTSIDE}")),
    package("link package", "link a folder of the machine", **depends("link:/etc")),
    package("http package", "fetch an archive", **depends("http://127.0.0.1:{PORT}/x")),
    package("workspace package", "name a workspace", **depends("workspace:*")),
    package("alias", "put another package in the place of a tool", dependencies={"convex": "npm:left-pad@1.3.0"}),
    package("package outside", "escape the store by its name", dependencies={"../../evil": "1.0.0"}),
    package("many packages", "exhaust the store", cause="limit", dependencies={f"p{n}": "1.0.0" for n in range(200)}),
    Case("deep package.json", "exhaust the parser", {"package.json": "[" * 100_000}, "install", "failed", "package",
         everywhere=False),
]  # fmt: skip

CHECKS = [
    switched_off("ts-nocheck", "switch type checking off", "tsc", "types",
                 {"convex/more.ts": f"// @ts-nocheck\n{WRONG_TYPE}"}),
    switched_off("ts-ignore", "switch type checking off for a line", "tsc", "types",
                 {"convex/more.ts": f"// @ts-ignore\n{WRONG_TYPE}"}),
    switched_off("ts-expect-error", "switch type checking off for a line", "tsc", "types",
                 {"convex/more.ts": f"// @ts-expect-error\n{WRONG_TYPE}"}),
    switched_off("tsconfig", "check nothing", "tsc", "types",
                 {"tsconfig.json": '{"compilerOptions": {"strict": false, "noCheck": true}, "include": [], "files": []}',
                  "convex/tsconfig.json": '{"compilerOptions": {"noCheck": true}, "include": []}',
                  "convex/more.ts": WRONG_TYPE}),
    switched_off("eslint-disable", "switch lint off", "eslint", "lint",
                 {"convex/more.ts": f"/* eslint-disable */\n{FLOATING}"}),
    switched_off("eslint config", "bring its own rules", "eslint", "lint",
                 {"eslint.config.js": "export default [{ ignores: ['**/*'] }];", "convex/more.ts": FLOATING}),
    switched_off("no library", "check against its own library", "tsc", "types",
                 {"convex/lib.ts": '/// <reference no-default-lib="true"/>\nexport {};\n', "convex/more.ts": WRONG_TYPE}),
    switched_off("path mapping", "check against a package of its own making", "tsc", "types",
                 {"tsconfig.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"convex/react": ["./fake/react"]}}}',
                  "fake/react.ts": "export const useQuery = 1;\n",
                  "convex/more.ts": 'import { useQuery } from "convex/react";\nexport const wrong: number = useQuery;\n'}),
    switched_off("components", "switch rules off that are off where components are called", "eslint", "lint",
                 {"convex/more.ts": 'import { components } from "./_generated/api";\nexport const known = typeof components;\n'
                  'export const unsafe = (): unknown => {\n  const parsed = JSON.parse("{}");\n  return parsed.a.b;\n};\n'}),
    switched_off("types of a secret", "let messages about types tell what stands in a file", "tsc", "types",
                 {"convex/more.ts": 'import type { key } from "{HOME}/key";\nexport const wrong: typeof key extends string ? 1 : 2 = 3;\n'
                  "export const told = (value: typeof key): number => value;\n"}, "Cannot find module"),
    switched_off("reference to a secret", "let messages about types tell what stands in a file", "tsc", "types",
                 {"convex/more.ts": '/// <reference path="{HOME}/key.ts" />\n' + WRONG_TYPE}),
    switched_off("type bomb", "let the type checker never end", "tsc", "limit", {"convex/more.ts": "".join(
        f"export const a{at} = [{','.join(f'{{a{at}_{n}:{n}}}' for n in range(990))}];\n" for at in range(145))}),
]  # fmt: skip
CASES = [*PATHS, *IGNORED, *PACKAGES, *CHECKS]
