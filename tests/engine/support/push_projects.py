# ruff: noqa: E501 - programs in tables stay on one line
"""Projects that make the CLI do each of its things once."""

import json

SERVER = 'import { query, mutation, action, internalAction, httpAction } from "./_generated/server"; import { v } from "convex/values";'
NOTES = f"{SERVER} export const all = query({{ args: {{}}, returns: v.array(v.any()), handler: async (ctx) => await ctx.db.query('notes').collect() }});"
SCHEMA = 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ notes: defineTable({ text: v.string(), at: v.optional(v.number()) }).index("by_at", ["at"]) });'
PLAIN = {"convex/schema.ts": SCHEMA, "convex/notes.ts": NOTES}
CHILD = {
    "convex/child/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("child");',
    "convex/child/schema.ts": SCHEMA,
    "convex/child/lib/store.ts": 'import { mutation } from "../_generated/server"; import { v } from "convex/values"; export const put = mutation({ args: { text: v.string() }, returns: v.id("notes"), handler: async (ctx, args) => await ctx.db.insert("notes", args) });',
}
PARENT = 'import { defineApp } from "convex/server"; import child from "./child/convex.config"; const app = defineApp(); app.use(child); app.use(child, { name: "second" }); export default app;'
CALLER = 'import { mutation } from "./_generated/server"; import { components } from "./_generated/api"; export const put = mutation({ args: {}, handler: async (ctx) => await ctx.runMutation(components.child.lib.store.put, { text: "a" }) });'

ACCEPTED: dict[str, dict[str, str]] = {
    "schema and functions": PLAIN,
    "http, crons and auth": {
        "convex/http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ path: "/a", method: "GET", handler: httpAction(async () => new Response("a")) }); export default http;',
        "convex/crons.ts": 'import { cronJobs } from "convex/server"; import { internal } from "./_generated/api"; const crons = cronJobs(); crons.interval("tick", { minutes: 1 }, internal.jobs.tick, {}); export default crons;',
        "convex/jobs.ts": f"{SERVER} export const tick = internalAction({{ args: {{}}, handler: async () => null }});",
        "convex/auth.config.ts": 'export default { providers: [{ domain: "https://a.example", applicationID: "convex" }] };',
    },
    "components of the project": {"convex/convex.config.ts": PARENT, **CHILD, "convex/caller.ts": CALLER},
    "Node actions and shared code": {
        "convex/deep/er/node.ts": '"use node";\nimport { createHash } from "node:crypto"; import { action } from "../../_generated/server"; import { twice } from "../shared"; export const hash = action({ args: {}, handler: async () => twice(createHash("sha256").update("a").digest("hex")) });',
        "convex/deep/shared.ts": 'import { AsyncLocalStorage } from "async_hooks"; export const twice = (text: string) => text + text; export const als = new AsyncLocalStorage();',
        "convex/plain.ts": 'import { query } from "./_generated/server"; import { twice } from "./deep/shared"; export const q = query({ args: {}, handler: async () => twice("a") });',
    },
    "files that are no entry points": {
        **PLAIN,
        "convex/notes.test.ts": "export const x = 1;",
        "convex/types.ts": "interface Nothing { a: string }",
        "convex/my file.ts": "export {};",
        "convex/.hidden.ts": "export {};",
        "convex/view.tsx": "export const pick = <T,>(value: T) => value;",
        "convex/plain.js": "const x = 1;",
        "convex/lib/schema.ts": "export const unused = 1;",
        "convex/https.ts": 'import { httpRouter } from "convex/server"; export default httpRouter();',
        "src/App.tsx": "export default 1;",
    },
    "JavaScript": {"convex/schema.js": SCHEMA, "convex/notes.js": NOTES.replace("returns: v.array(v.any()), ", "")},
    "another folder, generated TypeScript, static types": {
        "convex.json": json.dumps({"functions": "backend/", "unknownKey": 1, "codegen": {"fileType": "ts", "staticApi": True, "staticDataModel": True}}),
        "backend/schema.ts": SCHEMA,
        "backend/notes.ts": NOTES,
    },
    "a tsconfig that gives a package another meaning": {
        **PLAIN,
        "tsconfig.json": json.dumps({"compilerOptions": {"paths": {"convex/server": ["./convex/lib/server.ts"]}}}),
        "convex/lib/server.ts": 'import { defineApp as real } from "../../node_modules/convex/dist/esm/server/index.js"; export * from "../../node_modules/convex/dist/esm/server/index.js"; export const defineApp = () => { const app = real(); return app; };',
    },
    "CommonJS types": {"convex.json": json.dumps({"generateCommonJSApi": True, "node": {"nodeVersion": "22"}}), **PLAIN},
}  # fmt: skip

REFUSED: dict[str, dict[str, str]] = {
    "syntax error": {**PLAIN, "convex/bad.ts": "export const x = ;"},
    "unresolved import": {"convex/bad.ts": 'import x from "./nowhere"; import y from "no-such-package"; export default [x, y];'},
    "Node built-in without its directive": {"convex/bad.ts": 'import fs from "fs"; import { query } from "./_generated/server"; export const q = query(() => fs);'},
    "two files with one output": {"convex/a.ts": "export const a = 1;", "convex/a.tsx": "export const b = 1;"},
    "directive where it may not be": {"convex/http.ts": '"use node";\nexport default 1;'},
    "component with a Node action": {"convex/convex.config.ts": PARENT, **CHILD, "convex/child/n.ts": '"use node";\nexport default 1;'},
    "tsconfig that is no JSON": {**PLAIN, "convex/tsconfig.json": "{ nonsense"},
    "schema without default export": {"convex/schema.ts": "export const schema = 1;"},
    "throws at import": {"convex/bad.ts": 'export {};\nconsole.log("before"); throw new Error("at import");'},
    "component import that is not there": {"convex/convex.config.ts": PARENT},
    "hyphen in a name": {"convex/a-b.ts": NOTES},
}  # fmt: skip

LEFT_TO_THE_CLI: dict[str, tuple[str, dict[str, str]]] = {
    "convex.json that is no JSON": ("config: convex.json is refused", {**PLAIN, "convex.json": "{"}),
    "convex.json with a wrong type": ("config: convex.json is refused", {**PLAIN, "convex.json": json.dumps({"functions": 3})}),
    "convex.json with AuthKit": ("config: convex.json asks for AuthKit", {**PLAIN, "convex.json": json.dumps({"authKit": {}})}),
}  # fmt: skip


def with_convex(files: dict[str, str], version: str = "1.48.0") -> dict[str, str]:
    """A whole project."""
    return {"package.json": json.dumps({"name": "project", "dependencies": {"convex": version}}), **files}
