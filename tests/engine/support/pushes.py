# ruff: noqa: E501 - programs stay on one line
"""Small projects for tables of refused and accepted pushes."""

import json
from typing import Any

from .core import Core
from .project import Bundler, PushError

Files = dict[str, str]
Refusals = dict[str, tuple[Files, str, str]]
"""Name: files, code, distinctive text of the message."""

HEAD = 'import { query, mutation, action, internalMutation, httpAction } from "./_generated/server"; import { v } from "convex/values";'
SERVER = 'import { cronJobs, httpRouter, defineSchema, defineTable, defineApp, defineComponent } from "convex/server"; import { v } from "convex/values"; import { api, internal, components } from "./_generated/api";'
CONFIG = 'import { defineApp, defineComponent } from "convex/server"; import { v } from "convex/values";'
JOBS = "export const f = mutation({ args: {}, handler: async () => {} }); export const q = query({ args: {}, handler: async () => 1 });"

PUSH = "Hit an error while pushing:\n"
SCHEMA = PUSH + "Hit an error while evaluating your schema:\n"
MODULES = PUSH + "Loading the pushed modules encountered the following\n    error:\n"

TABLE = "t: defineTable({ a: v.string(), o: v.optional(v.object({ x: v.number() })), l: v.array(v.number()), r: v.record(v.string(), v.number()) })"


def schema(tables: str, options: str = "") -> Files:
    return {"schema.ts": f"{SERVER} export default defineSchema({{ {tables} }}{options});"}


def raw_schema(**table: Any) -> Files:
    """A schema that does not come from the library."""
    exported = {"tables": [{"tableName": "t", "indexes": [], "documentType": {"type": "any"}, **table}]}
    return {"schema.ts": f"export default {{ export: () => {json.dumps(json.dumps(exported))} }};"}


def crons(body: str) -> Files:
    return {"crons.ts": f"{SERVER} const crons = cronJobs(); {body}; export default crons;", "m.ts": HEAD + JOBS}


def raw_crons(exported: Any) -> Files:
    """Cron jobs that do not come from the library."""
    text = json.dumps(json.dumps(exported))
    return {"crons.ts": f"export default {{ isCrons: true, export: () => {text} }};", "m.ts": HEAD + JOBS}


def route(fields: str) -> Files:
    return {
        "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter();'
        f'const handler = httpAction(async () => new Response("")); http.route({{ {fields} }} as any); export default http;'
    }


def raw_routes(routes: str) -> Files:
    """A router that does not come from the library."""
    return {"http.ts": f"export default {{ isRouter: true, getRoutes: () => {routes} }};"}


def auth(provider: str) -> Files:
    return {"auth.config.ts": f"export default {{ providers: [{provider}] }};"}


def component(app: str, declared: str = "", child: str = "", **files: str) -> Files:
    """An app that uses a component `c`."""
    return {
        "convex.config.ts": CONFIG + f'import c from "./c/convex.config"; {app} export default app;',
        "c/convex.config.ts": CONFIG + f'const c = defineComponent("c"{declared}); {child} export default c;',
        **{name.replace("__", "/") + ".ts": text for name, text in files.items()},
    }


def raw_config(exported: Any, path: str = "convex.config.ts") -> Files:
    """A definition that does not come from the library."""
    return {path: f"export default {{ export: () => ({json.dumps(exported)}) }};"}


def refusal(core: Core, bundler: Bundler, files: Files) -> PushError:
    """The error of a push that must be refused."""
    try:
        bundler.push(core, files)
    except PushError as error:
        return error
    raise AssertionError("the push was accepted")


def check_refusal(core: Core, bundler: Bundler, files: Files, code: str, text: str) -> None:
    """Refused in a way that ends the CLI, with this code and these words."""
    refused = refusal(core, bundler, files)
    assert (refused.status, refused.code) == (400, code), refused.message
    assert text in refused.message
