# ruff: noqa: E501 - programs in tables stay on one line
"""Every check of a push: the smallest program that breaks it, the code and the message."""

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler, PushError

HEAD = 'import { query, mutation, action, internalMutation, httpAction } from "./_generated/server"; import { v } from "convex/values";'
SERVER = 'import { cronJobs, httpRouter, defineSchema, defineTable, defineApp, defineComponent } from "convex/server"; import { v } from "convex/values"; import { api, internal, components } from "./_generated/api";'


def schema(tables: str, options: str = "") -> dict[str, str]:
    return {"schema.ts": f"{SERVER} export default defineSchema({{ {tables} }}{options});"}


def crons(
    body: str,
    module: str = "export const f = mutation({ args: {}, handler: async () => {} }); export const q = query({ args: {}, handler: async () => 1 });",
) -> dict[str, str]:
    return {"crons.ts": f"{SERVER} const crons = cronJobs(); {body}; export default crons;", "m.ts": HEAD + module}


T = "t: defineTable({ a: v.string(), o: v.optional(v.object({ x: v.number() })), l: v.array(v.number()), r: v.record(v.string(), v.number()) })"
SCHEMA = "Hit an error while pushing:\nHit an error while evaluating your schema:\n"
MODULES = "Hit an error while pushing:\nLoading the pushed modules encountered the following\n    error:\n"

REFUSED = {
    "throws at import": (
        {"m.ts": 'export const x = 1; throw new Error("bad");'},
        "InvalidModules",
        MODULES + "Failed to analyze m.js: Uncaught Error: bad\n",
    ),
    "import logs are shown": (
        {"m.ts": 'console.log("before"); throw new Error("bad"); export {};'},
        "InvalidModules",
        "[LOG] 'before'",
    ),
    "top-level await": (
        {"m.ts": "export const x = await Promise.resolve(1);"},
        "InvalidModules",
        "Top-level awaits in source files are unsupported",
    ),
    "database at import": (
        {"m.ts": 'Convex.syscall("1.0/queryStream", "{}"); export {};'},
        "InvalidModules",
        "Can't use database at import time",
    ),
    "timer at import": (
        {"m.ts": "setTimeout(() => {}, 1); export {};"},
        "InvalidModules",
        "setTimeout unsupported at import time",
    ),
    "endless loop at import": (
        {"m.ts": "for (;;); export {};"},
        "InvalidModules",
        "Function execution timed out (maximum duration: 4s)",
    ),
    "hyphen in a module path": ({"a-b.ts": HEAD}, "InvalidConfig", "a-b.js is not a valid path to a Convex module."),
    "function name": (
        {"m.ts": HEAD + "const f = query({ args: {}, handler: async () => 1 }); export { f as $f };"},
        "InvalidFunctionName",
        "Invalid function name used in `m.js`:",
    ),
    "args that are no object": (
        {
            "m.ts": HEAD
            + 'const f: any = query({ args: {}, handler: async () => 1 }); f.exportArgs = () => JSON.stringify({ type: "string" }); export { f };'
        },
        "InvalidModules",
        "Args validator must be an object or any",
    ),
    "undefined validator": (
        {
            "m.ts": HEAD
            + "export const f = query({ args: { a: v.object({ b: undefined as any }) }, handler: async () => 1 });"
        },
        "InvalidModules",
        "undefined",
    ),
    "literal record keys": (
        {
            "m.ts": HEAD
            + 'export const f = query({ args: { a: v.record(v.union(v.literal("a"), v.literal("b")) as any, v.number()) }, handler: async () => 1 });'
        },
        "InvalidModules",
        "Records cannot have string literal keys",
    ),
    "record keys that are no strings": (
        {
            "m.ts": HEAD
            + "export const f = query({ args: { a: v.record(v.number() as any, v.number()) }, handler: async () => 1 });"
        },
        "InvalidModules",
        "Records can only have string keys",
    ),
    "object field that is no identifier": (
        {"m.ts": HEAD + 'export const f = query({ args: { "a-b": v.number() }, handler: async () => 1 });'},
        "InvalidModules",
        "a-b",
    ),
    "query in a node module": (
        {"m.ts": '"use node";' + HEAD + "export const f = query({ args: {}, handler: async () => 1 });"},
        "InvalidModules",
        "`f` defined in `m.js` is a Query function. Only actions can be defined in Node.js.",
    ),
    "public names that clash": (
        {
            "m.ts": HEAD + "export const x = query({ args: {}, handler: async () => 1 });",
            "m/x.ts": HEAD.replace("./_", "../_") + "export const y = query({ args: {}, handler: async () => 1 });",
        },
        "InvalidExport",
        "conflicts with existing export",
    ),
    "http without default": (
        {"http.ts": "export const x = 1;"},
        "InvalidModules",
        "`convex/http.js` must have a default export of a Router.",
    ),
    "http that is no router": (
        {"http.ts": "export default {};"},
        "InvalidModules",
        "The default export of `convex/http.js` is not a Router.",
    ),
    "route without slash": (
        {
            "http.ts": SERVER
            + HEAD
            + 'const http = httpRouter(); http.route({ path: "x", method: "GET", handler: httpAction(async () => new Response("")) }); export default http;'.replace(
                "import { v }", ""
            )
        },
        "InvalidModules",
        "does not start with a /",
    ),
    "crons without default": (
        {"crons.ts": "export const x = 1;"},
        "InvalidModules",
        "`convex/crons.js` must have a default export of a Crons object.",
    ),
    "crons that are none": (
        {"crons.ts": "export default {};"},
        "InvalidModules",
        "The default export of `convex/crons.js` is not a Crons object.",
    ),
    "cron of a missing function": (
        crons('crons.interval("c", { seconds: 1 }, internal.m.none)'),
        "InvalidCron",
        "The cron job 'c' schedules a function that does not exist: m.js:none",
    ),
    "cron of a query": (
        crons('crons.interval("c", { seconds: 1 }, api.m.q as any)'),
        "InvalidCron",
        "schedules a query function, only actions and mutations can be scheduled",
    ),
    "cron expression": (
        crons('crons.cron("c", "61 * * * *", api.m.f)'),
        "InvalidCron",
        "Invalid cron expression '61 * * * *'",
    ),
    "cron with day seven": (crons('crons.cron("c", "0 0 * * 7", api.m.f)'), "InvalidCron", "Invalid cron expression"),
    "cron that never comes": (
        crons('crons.cron("c", "0 0 30 2 *", api.m.f)'),
        "InvalidCron",
        "will never match any time",
    ),
    "cron twice": (
        crons('crons.cron("c", "0 0 * * *", api.m.f); crons.cron("c", "0 0 * * *", api.m.f)'),
        "InvalidModules",
        "Cron identifier registered twice",
    ),
    "no schema": (
        {"schema.ts": "export const x = 1;"},
        "MissingSchemaExportError",
        SCHEMA + "Schema file missing default export.",
    ),
    "something else as schema": (
        {"schema.ts": "export default {};"},
        "InvalidSchemaExport",
        SCHEMA + "Default export from schema file isn't a Convex schema.",
    ),
    "schema that throws": (
        {"schema.ts": 'throw new Error("no"); export default 1;'},
        "Error",
        SCHEMA + "Uncaught Error: no",
    ),
    "environment in the schema": (
        {"schema.ts": "console.log(process.env.X); export default 1;"},
        "Error",
        "Environment variables unsupported when evaluating schema",
    ),
    "table name": (schema('"a-b": defineTable({})'), "InvalidTableName", 'Invalid table name: "a-b".'),
    "reserved table name": (schema("_t: defineTable({})"), "TableNameReserved", "_t is a reserved table name."),
    "document that is no object": (
        schema("t: defineTable(v.string() as any)"),
        "InvalidTopLevelTypeInSchemaError",
        "The document validator in a schema must be",
    ),
    "index name": (schema(T + '.index("a-b", ["a"])'), "InvalidIndexName", 'In table "t": Invalid index name: "a-b".'),
    "reserved index name": (
        schema(T + '.index("by_id", ["a"])'),
        "IndexNameReserved",
        'In table "t" cannot name an index "by_id" because the name is reserved.',
    ),
    "two indexes of one name": (
        schema(T + '.index("i", ["a"]).index("i", ["l"])'),
        "IndexNamesNotUnique",
        'Table "t" has two or more definitions of index "i".',
    ),
    "index without fields": (
        schema(T + '.index("i", [] as any)'),
        "EmptyIndex",
        'In table "t" index "i" must have at least one field.',
    ),
    "field twice": (
        schema(T + '.index("i", ["a", "a"])'),
        "FieldsNotUniqueWithinIndex",
        'Duplicate field "a". Index fields must be unique within an index.',
    ),
    "id in an index": (
        schema(T + '.index("i", ["_id"] as any)'),
        "IndexFieldsContainId",
        "`_id` is not a valid index field.",
    ),
    "creation time in an index": (
        schema(T + '.index("i", ["_creationTime"] as any)'),
        "IndexFieldsContainCreationTime",
        "`_creationTime` is automatically added to the end of each index.",
    ),
    "reserved field in an index": (
        schema(T + '.index("i", ["_x"] as any)'),
        "IndexFieldNameReserved",
        "Reserved fields (starting with `_`) are not allowed in indexes.",
    ),
    "same fields twice": (
        schema(T + '.index("i", ["a"]).index("j", ["a"])'),
        "IndexNotUnique",
        'In table "t" index "i" and index "j" have the same fields.',
    ),
    "sixteen fields": (
        schema("t: defineTable(v.any()).index('i', " + str([f"f{n}" for n in range(16)]) + " as any)"),
        "IndexTooManyFields",
        "Indexes may have up to 16 fields.",
    ),
    "unknown field": (
        schema(T + '.index("i", ["nope"] as any)'),
        "SchemaDefinitionError",
        'In table "t" the index "i" is invalid because it references the field "nope" that does not exist.',
    ),
    "field inside an array": (
        schema(T + '.index("i", ["l.x"] as any)'),
        "SchemaDefinitionError",
        "that does not exist.",
    ),
    "too many indexes": (
        schema("t: defineTable(v.any())" + "".join(f'.index("i{n}", ["f{n}"] as any)' for n in range(65))),
        "TooManyIndexes",
        'Table "t" cannot have more than 64 indexes.',
    ),
    "search field unknown": (
        schema(T + '.searchIndex("s", { searchField: "nope" as any })'),
        "SchemaDefinitionError",
        "that does not exist.",
    ),
    "search indexes alike": (
        schema(T + '.searchIndex("s", { searchField: "a" }).searchIndex("z", { searchField: "a" })'),
        "SearchIndexFieldNotUnique",
        "have the same `searchField`.",
    ),
    "vector dimensions": (
        schema(T + '.vectorIndex("v", { vectorField: "l", dimensions: 1 })'),
        "InvalidVectorDimensionError",
        "Dimensions 1 must be between 2 and 4096.",
    ),
    "vector of text": (
        schema(T + '.vectorIndex("v", { vectorField: "a" as any, dimensions: 2 })'),
        "SchemaDefinitionError",
        "that is neither an array of float64 or optional array of float64.",
    ),
    "auth without default": ({"auth.config.ts": "export const x = 1;"}, "AuthConfigMissingExportError", ""),
    "auth of another shape": (
        {"auth.config.ts": "export default { providers: [{ domain: 5 }] };"},
        "AuthConfigNotMatchingSchemaError",
        "auth config file must include a list of provider credentials:",
    ),
    "auth with an unset variable": (
        {"auth.config.ts": "export default { providers: [{ domain: process.env.NOT_SET, applicationID: 'a' }] };"},
        "AuthConfigMissingEnvironmentVariable",
        "Environment variable NOT_SET is used in auth config file but",
    ),
    "clock in auth": (
        {"auth.config.ts": "export default { providers: [{ domain: String(Date.now()), applicationID: 'a' }] };"},
        "InvalidAuthConfig",
        "Date unsupported when evaluating auth config file",
    ),
    "config with another export": (
        {"convex.config.ts": SERVER.split(" import { api")[0] + "export const x = 1; export default defineApp();"},
        "InvalidDefinition",
        "The default export of `convex.config.ts` in your app has an invalid value",
    ),
    "config that throws": (
        {"convex.config.ts": 'throw new Error("no"); export default 1;'},
        "InvalidConvexConfig",
        "Uncaught Error: no",
    ),
    "child twice": (
        {
            "convex.config.ts": 'import { defineApp } from "convex/server"; import c from "./c/convex.config"; const app = defineApp(); app.use(c); app.use(c); export default app;',
            "c/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("c");',
        },
        "TypecheckError",
        "has multiple child components with the same name",
    ),
    "component name": (
        {
            "convex.config.ts": 'import { defineApp } from "convex/server"; import c from "./c/convex.config"; const app = defineApp(); app.use(c); export default app;',
            "c/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("a-b");',
        },
        "InvalidDefinition",
        "a-b",
    ),
    "variable that is not set": (
        {
            "convex.config.ts": 'import { defineApp } from "convex/server"; import { v } from "convex/values"; export default defineApp({ env: { NEEDED: v.string() } });'
        },
        "MissingEnvironmentVariables",
        "Required environment variables are not set: NEEDED.",
    ),
}


CONFIG = 'import { defineApp, defineComponent } from "convex/server"; import { v } from "convex/values";'


def route(fields: str) -> dict[str, str]:
    return {
        "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter();'
        f'const handler = httpAction(async () => new Response("")); http.route({{ {fields} }} as any); export default http;'
    }


def auth(provider: str) -> dict[str, str]:
    return {"auth.config.ts": f"export default {{ providers: [{provider}] }};"}


def component(app: str, declared: str = "", child: str = "", **files: str) -> dict[str, str]:
    """An app that uses a component `c`."""
    return {
        "convex.config.ts": CONFIG + f'import c from "./c/convex.config"; {app} export default app;',
        "c/convex.config.ts": CONFIG + f'const c = defineComponent("c"{declared}); {child} export default c;',
        **{name.replace("__", "/") + ".ts": text for name, text in files.items()},
    }


CHILD_HTTP = 'import { httpRouter } from "convex/server"; export default httpRouter();'

REFUSED |= {
    "fetch at import": (
        {"m.ts": 'await0(fetch("http://x")); function await0(p) { p.catch((e) => { throw e; }); } export {};'},
        "InvalidModules",
        "fetch() unsupported at import time",
    ),
    "endless loop at import of a node module": (
        {"m.ts": '"use node"; for (;;); export {};'},
        "InvalidModules",
        "Function execution timed out (maximum duration: 4s)",
    ),
    "node module that throws": (
        {"m.ts": '"use node"; throw new Error("bad"); export {};'},
        "InvalidModules",
        MODULES + "Failed to analyze m.js: Error: bad",
    ),
    "path that is too long": ({"a" * 62 + ".ts": HEAD}, "InvalidConfig", "is not a valid path to a Convex module."),
    "returns validator": (
        {
            "m.ts": HEAD
            + "export const f = query({ args: {}, returns: v.record(v.number() as any, v.number()), handler: async () => ({}) });"
        },
        "InvalidModules",
        "Error in returns validator:",
    ),
    "mutation in a node module": (
        {"m.ts": '"use node";' + HEAD + "export const f = mutation({ args: {}, handler: async () => 1 });"},
        "InvalidModules",
        "is a Mutation function. Only actions can be defined in Node.js.",
    ),
    "HTTP action in a node module": (
        {"m.ts": '"use node";' + HEAD + 'export const f = httpAction(async () => new Response(""));'},
        "InvalidModules",
        "is a HttpAction function. Only actions can be defined in Node.js.",
    ),
    "route without handler": (route('path: "/a", method: "GET"'), "InvalidModules", "route requires handler"),
    "route without method": (route('path: "/a", handler'), "InvalidModules", "route requires method"),
    "route of another method": (
        route('path: "/a", method: "HEAD", handler'),
        "InvalidModules",
        "is not an allowed HTTP method",
    ),
    "route without path": (route('method: "GET", handler'), "InvalidModules", "Invalid httpRouter route"),
    "prefix without slash at the end": (
        route('pathPrefix: "/a", method: "GET", handler'),
        "InvalidModules",
        "must end with a /",
    ),
    "reserved route": (route('path: "/.files/a", method: "GET", handler'), "InvalidModules", "is reserved"),
    "route twice": (
        route('path: "/a", method: "GET", handler }); http.route({ path: "/a", method: "GET", handler'),
        "InvalidModules",
        "already in use",
    ),
    "route that is no HTTP action": (
        route('path: "/a", method: "GET", handler: (async () => new Response("")) as any'),
        "InvalidModules",
        "arr[0][2] not an HttpAction",
    ),
    "cron identifier": (
        crons('crons.interval("é", { seconds: 1 }, api.m.f)'),
        "InvalidModules",
        "Invalid cron identifier",
    ),
    "cron without interval": (
        crons('crons.interval("c", {} as any, api.m.f)'),
        "InvalidModules",
        "Must specify one of",
    ),
    "cron of half a second": (
        crons('crons.interval("c", { seconds: 0.5 }, api.m.f)'),
        "InvalidModules",
        "Interval must be an integer",
    ),
    "cron at minute sixty": (
        crons('crons.hourly("c", { minuteUTC: 60 }, api.m.f)'),
        "InvalidModules",
        "Minute of hour",
    ),
    "cron at hour 24": (
        crons('crons.daily("c", { hourUTC: 24, minuteUTC: 0 }, api.m.f)'),
        "InvalidModules",
        "Hour of day",
    ),
    "cron on an unknown day": (
        crons('crons.weekly("c", { dayOfWeek: "someday" as any, hourUTC: 1, minuteUTC: 0 }, api.m.f)'),
        "InvalidModules",
        "must be a string like",
    ),
    "cron on day 32": (
        crons('crons.monthly("c", { day: 32, hourUTC: 1, minuteUTC: 0 }, api.m.f)'),
        "InvalidModules",
        "Day of month",
    ),
    "cron of a component": (
        crons('crons.interval("c", { seconds: 1 }, components.c.m.f as any)'),
        "InvalidModules",
        "Expected function reference in the current component",
    ),
    "cron with six fields": (
        crons('crons.cron("c", "0 0 * * * *", api.m.f)'),
        "InvalidCron",
        "Invalid cron expression",
    ),
    "schema that is null": (
        {"schema.ts": "export default null;"},
        "MissingSchemaExportError",
        "Schema file missing default export.",
    ),
    "schema whose export throws": (
        {"schema.ts": 'export default { export() { throw new Error("inner"); } };'},
        "InvalidSchemaExport",
        "Default export from schema file isn't a Convex schema.",
    ),
    "filter field unknown": (
        schema(T + '.searchIndex("s", { searchField: "a", filterFields: ["nope"] as any })'),
        "SchemaDefinitionError",
        "that does not exist.",
    ),
    "vector field unknown": (
        schema(T + '.vectorIndex("v", { vectorField: "nope" as any, dimensions: 2 })'),
        "SchemaDefinitionError",
        'In table "t"',
    ),
    "vector dimensions too many": (
        schema(T + '.vectorIndex("v", { vectorField: "l", dimensions: 4097 })'),
        "InvalidVectorDimensionError",
        "must be between 2 and 4096.",
    ),
    "vector indexes alike": (
        schema(
            T
            + '.vectorIndex("v", { vectorField: "l", dimensions: 2 }).vectorIndex("w", { vectorField: "l", dimensions: 2 })'
        ),
        "VectorIndexFieldNotUnique",
        "",
    ),
    "one name for an index and a search index": (
        schema(T + '.index("i", ["l"]).searchIndex("i", { searchField: "a" })'),
        "IndexNamesNotUnique",
        'Table "t" has two or more definitions of index "i".',
    ),
    "seventeen filter fields": (
        schema(
            't: defineTable(v.any()).searchIndex("s", { searchField: "a", filterFields: '
            + str([f"f{n}" for n in range(17)])
            + " as any })"
        ),
        "IndexTooManyFilterFields",
        "",
    ),
    "reserved part of an index field": (
        schema(T + '.index("i", ["o._x"] as any)'),
        "IndexFieldNameReserved",
        "Reserved fields",
    ),
    "optional record values in a table": (
        schema("t: defineTable({ r: v.record(v.string(), v.optional(v.number()) as any) })"),
        "Error",
        "",
    ),
    "literal record keys in a table": (
        schema('t: defineTable({ r: v.record(v.literal("a") as any, v.number()) })'),
        "InvalidRecordType",
        "",
    ),
    "auth that is null": ({"auth.config.ts": "export default null;"}, "AuthConfigMissingExportError", ""),
    "auth with a misspelt field": (
        auth('{ domain: "https://a.com", applicationId: "a" }'),
        "AuthConfigNotMatchingSchemaError",
        "",
    ),
    "auth of an unknown type": (
        auth('{ type: "saml", domain: "https://a.com", applicationID: "a" }'),
        "AuthConfigNotMatchingSchemaError",
        "",
    ),
    "custom tokens with a domain": (
        auth(
            '{ type: "customJwt", domain: "a", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "RS256" }'
        ),
        "AuthConfigNotMatchingSchemaError",
        "",
    ),
    "custom tokens with another algorithm": (
        auth('{ type: "customJwt", issuer: "https://a.com", jwks: "https://a.com/j", algorithm: "HS256" }'),
        "AuthConfigNotMatchingSchemaError",
        "",
    ),
    "discovery with an issuer": (
        auth('{ domain: "https://a.com", issuer: "https://a.com", applicationID: "a" }'),
        "AuthConfigNotMatchingSchemaError",
        "",
    ),
    "provider by another scheme": (
        auth('{ domain: "ftp://a.com", applicationID: "a" }'),
        "InvalidProviderDomainUrl",
        "",
    ),
    "provider in quotes": (
        auth("""{ domain: '"https://a.com"', applicationID: "a" }"""),
        "InvalidProviderDomainUrl",
        "",
    ),
    "provider that is no domain": (auth('{ domain: "nonsense", applicationID: "a" }'), "InvalidProviderDomainUrl", ""),
    "clock in a definition": (
        {"convex.config.ts": CONFIG + "Date.now(); export default defineApp();"},
        "InvalidConvexConfig",
        "Date unsupported",
    ),
    "randomness in a definition": (
        {"convex.config.ts": CONFIG + "Math.random(); export default defineApp();"},
        "InvalidConvexConfig",
        "Math.random unsupported",
    ),
    "definition that is none": (
        {"convex.config.ts": "export default {};"},
        "InvalidDefinition",
        "The default export of `convex.config.ts` in your app has an invalid value",
    ),
    "instance name": (component('const app = defineApp(); app.use(c, { name: "a-b" });'), "InvalidDefinition", "a-b"),
    "component schema that throws": (
        component("const app = defineApp(); app.use(c);", c__schema='throw new Error("no"); export default 1;'),
        "InvalidSchema",
        "Uncaught Error: no",
    ),
    "variable of another type": (
        {"convex.config.ts": CONFIG + "export default defineApp({ env: { N: v.number() as any } });"},
        "InvalidEnvVarDeclaration",
        "N",
    ),
    "unknown variable of a component": (
        component('const app = defineApp(); app.use(c, { env: { A: "x" } } as any);'),
        "TypecheckError",
        "has no env var named",
    ),
    "missing variable of a component": (
        component("const app = defineApp(); app.use(c);", ", { env: { A: v.string() } }"),
        "TypecheckError",
        "is missing required env var",
    ),
    "wrong variable of a component": (
        component(
            'const app = defineApp(); app.use(c, { env: { A: "x" } } as any);', ', { env: { A: v.literal("y") } }'
        ),
        "TypecheckError",
        "has an invalid value for env var",
    ),
    "mount without routes": (
        component('const app = defineApp(); app.use(c, { httpPrefix: "/c/" } as any);'),
        "TypecheckError",
        "doesn't have any HTTP routes.",
    ),
}


@pytest.mark.parametrize(("files", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_push_is_refused(core: Core, bundler: Bundler, files: dict[str, str], code: str, text: str) -> None:
    with pytest.raises(PushError) as refused:
        bundler.push(core, files)
    assert (refused.value.status, refused.value.code) == (400, code), refused.value.message
    assert text in refused.value.message


ACCEPTED = {
    "fifteen fields": schema("t: defineTable(v.any()).index('i', " + str([f"f{n}" for n in range(15)]) + " as any)"),
    "field of an optional object": schema(T + '.index("i", ["o.x"] as any)'),
    "prefix of another index": schema(T + '.index("i", ["a"]).index("j", ["a", "l"])'),
    "unknown field without validation": schema(T + '.index("i", ["nope"] as any)', ", { schemaValidation: false }"),
    "search indexes that filter differently": schema(
        T + '.searchIndex("s", { searchField: "a" }).searchIndex("z", { searchField: "a", filterFields: ["l"] })'
    ),
    "id of a missing table": schema('t: defineTable({ a: v.id("missing") })'),
    "clock and randomness at import": {"m.ts": "export const x = [Date.now(), Math.random(), crypto.randomUUID()];"},
    "internal names may clash": {
        "m.ts": HEAD + "export const x = internalMutation({ args: {}, handler: async () => 1 });",
        "m/x.ts": HEAD.replace("./_", "../_") + "export const y = query({ args: {}, handler: async () => 1 });",
    },
    "functions without validators": {"m.ts": HEAD + "export const f = query(async () => 1);"},
}


@pytest.mark.parametrize("files", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_push_is_accepted(core: Core, bundler: Bundler, files: dict[str, str]) -> None:
    bundler.push(core, files)


def test_a_refused_push_leaves_the_old_deployment(core: Core, bundler: Bundler) -> None:
    bundler.push(core, {"p.ts": PROGRAMS})
    with pytest.raises(PushError):
        bundler.push(core, {"p.ts": PROGRAMS, "m.ts": 'export const x = 1; throw new Error("bad");'})
    assert core.run("p:q", {"code": "return 1"}) == 1


def test_older_clients_send_all_modules_of_the_app_as_functions(core: Core, bundler: Bundler) -> None:
    body = bundler.body({"p.ts": PROGRAMS})
    body["appDefinition"]["functions"] = body["appDefinition"].pop("changedModules")
    del body["appDefinition"]["unchangedModuleHashes"]
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body}).json()
    assert core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started}).status == 200
    assert core.run("p:q", {"code": "return 31"}) == 31


def test_unchanged_modules_are_kept_and_checked(core: Core, bundler: Bundler) -> None:
    files = {"p.ts": PROGRAMS}
    bundler.push(core, files)
    hashes = core.post("/api/get_config_hashes", {"adminKey": core.key}).json()["moduleHashes"]
    body = bundler.body(files)
    kept = [{"path": item["path"], "environment": item["environment"], "sha256": item["hash"]} for item in hashes]
    body["appDefinition"].update(changedModules=[], unchangedModuleHashes=kept)
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body}).json()
    assert core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started}).status == 200
    assert core.run("p:q", {"code": "return 5"}) == 5
    body["appDefinition"]["unchangedModuleHashes"][0]["sha256"] = "0" * 64
    refused = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body})
    assert (refused.status, refused.json()["code"]) == (409, "ExistingModuleHashConflict")


def test_the_stored_schema_is_sorted_and_complete(core: Core, bundler: Bundler) -> None:
    bundler.push(
        core,
        schema(
            'b: defineTable({ z: v.number(), a: v.string() }).index("two", ["z"]).index("one", ["a"]), a: defineTable(v.union(v.object({ x: v.null() })))'
        ),
    )
    stored = core.control("schema")
    assert [table["tableName"] for table in stored["tables"]] == ["a", "b"]
    assert stored["tables"][1]["indexes"] == [
        {"indexDescriptor": "one", "fields": ["a", "_creationTime"]},
        {"indexDescriptor": "two", "fields": ["z", "_creationTime"]},
    ]
    assert list(stored["tables"][1]["documentType"]["value"]) == ["a", "z"]
    assert stored["tables"][0]["documentType"]["type"] == "object"


def test_indexes_of_a_second_push_are_built_and_dropped(core: Core, bundler: Bundler) -> None:
    base = {"p.ts": PROGRAMS, **schema("t: defineTable({ n: v.number() })")}
    bundler.push(core, base)
    core.control("insert", table="t", documents=[{"n": n} for n in (3, 1, 2)])
    bundler.push(core, {**base, **schema('t: defineTable({ n: v.number() }).index("by_n", ["n"])')})
    code = 'return (await ctx.db.query("t").withIndex("by_n").collect()).map((r) => r.n)'
    assert core.run("p:q", {"code": code}) == [1, 2, 3]
    bundler.push(core, base)
    assert "Index t.by_n not found." in core.fails("p:q", {"code": code}).message
    with pytest.raises(PushError) as refused:
        bundler.push(core, {**base, **schema("t: defineTable({ n: v.string() })")})
    assert 'in table "t" does not match the schema: Value does not match validator.' in refused.value.message
    assert core.run("p:m", {"code": 'return typeof await ctx.db.insert("t", { n: 4 })'}) == "string"


def push_raw(core: Core, body: object, **extra: object) -> tuple[int, str]:
    answer = core.post("/api/deploy2/start_push", {"adminKey": core.key, **body, **extra})
    return answer.status, answer.json()["code"]


def one(path: str, source: str = "export {};") -> dict[str, object]:
    module = {"path": path, "source": source, "environment": "isolate"}
    return {"appDefinition": {"changedModules": [module], "udfServerVersion": "1.48.0"}, "componentDefinitions": []}


MALFORMED = {
    "nothing": ({}, "InvalidConfig"),
    "another type": ({"appDefinition": 5}, "InvalidConfig"),
    "module without source": ({"appDefinition": {"changedModules": [{"path": "a.js"}]}}, "InvalidConfig"),
    "module that is null": ({"appDefinition": {"changedModules": [None]}}, "InvalidConfig"),
    "component that is null": ({"appDefinition": {}, "componentDefinitions": [None]}, "InvalidConfig"),
    "old Node": ({**one("a.js"), "nodeVersion": "18"}, "InvalidConfig"),
    "unknown Node": ({**one("a.js"), "nodeVersion": "x"}, "InvalidConfig"),
    "folder above": (one("../a.js"), "InvalidConfig"),
    "no JavaScript": (one("a.js", "export const = ;"), "InvalidModules"),
    "import outside the bundle": (one("a.js", 'import "left-pad"; export {};'), "InvalidModules"),
    "unknown dependency": ({"appDefinition": {"dependencies": ["x"]}}, "TypecheckError"),
    "too many modules": (
        {"appDefinition": {"changedModules": [{"path": f"m{n}.js", "source": ""} for n in range(4097)]}},
        "InvalidModules",
    ),
}


@pytest.mark.parametrize(("body", "code"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_push_is_told_why(core: Core, body: dict[str, object], code: str) -> None:
    assert push_raw(core, body) == (400, code)


def test_a_push_that_was_overtaken_is_not_activated(core: Core, bundler: Bundler) -> None:
    bundler.push(core, {"p.ts": PROGRAMS})
    body = {"adminKey": core.key, **bundler.body({})}
    first = core.post("/api/deploy2/start_push", body).json()
    core.post("/api/deploy2/start_push", body)
    waited = core.post("/api/deploy2/wait_for_schema", {"adminKey": core.key, "schemaChange": first["schemaChange"]})
    assert waited.json() == {"type": "raceDetected"}
    finished = core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": first})
    assert (finished.status, finished.json()["code"]) == (400, "RaceDetected")
    assert core.run("p:q", {"code": "return 1"}) == 1


def test_a_push_fails_when_variables_changed_meanwhile(core: Core, bundler: Bundler) -> None:
    started = core.post("/api/deploy2/start_push", {"adminKey": core.key, **bundler.body({"p.ts": PROGRAMS})}).json()
    core.control("env.set", variables={"CHANGED": "1"})
    finished = core.post("/api/deploy2/finish_push", {"adminKey": core.key, "startPush": started})
    core.control("env.set", variables={"CHANGED": None})
    assert (finished.status, finished.json()["code"]) == (400, "RaceDetected")
    assert "Environment variables have changed during push" in finished.json()["message"]
