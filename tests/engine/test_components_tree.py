# ruff: noqa: E501 - programs in tables stay on one line
"""A tree of local components: two instances of one that itself has two of another."""

import json
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler, PushError, run_node

CONFIG = 'import { defineApp, defineComponent } from "convex/server"; import { v } from "convex/values";'
INNER_LIB = """
    import { createFunctionHandle } from "convex/server";
    import { query, mutation, action, internalMutation, internalAction } from "./_generated/server";
    import { v } from "convex/values";
    import { internal, api } from "./_generated/api";
    export const list = query({ args: {}, handler: async (ctx) => (await ctx.db.query("rows").collect()).map((row) => row.text) });
    export const add = mutation({ args: { text: v.string(), fail: v.optional(v.boolean()) }, returns: v.id("rows"), handler: async (ctx, { text, fail }) => {
      const id = await ctx.db.insert("rows", { text });
      await ctx.scheduler.runAfter(1000, internal.lib.tick, { text: text + " later" });
      if (fail) throw new Error("inner fails");
      return id; } });
    export const tick = internalMutation({ args: { text: v.string() }, handler: async (ctx, { text }) => { await ctx.db.insert("rows", { text }); } });
    export const get = query({ args: { id: v.id("rows") }, handler: (ctx, { id }) => ctx.db.get(id) });
    export const env = query({ args: {}, handler: async () => [process.env.LEVEL ?? null, process.env.TOP ?? null, process.env.CONVEX_SITE_URL !== undefined] });
    export const store = action({ args: {}, handler: async (ctx) => await ctx.storage.store(new Blob(["inner file"], { type: "text/plain" })) });
    export const url = query({ args: { id: v.string() }, handler: (ctx, { id }) => ctx.storage.getUrl(id as any) });
    export const callBack = mutation({ args: { handle: v.string(), later: v.optional(v.boolean()), args: v.any() }, handler: async (ctx, { handle, later, args }) => {
      await ctx.db.insert("rows", { text: "calls back" });
      if (later) return await ctx.scheduler.runAfter(0, handle as any, args);
      return await ctx.runMutation(handle as any, args); } });
    export const actBack = action({ args: { handle: v.string(), args: v.any() }, handler: (ctx, { handle, args }) => ctx.runQuery(handle as any, args) });
    export const mine = query({ args: {}, handler: async () => [await createFunctionHandle(internal.lib.tick), await createFunctionHandle(api.lib.add)] });
    export const wrong = query({ args: {}, returns: v.string(), handler: async () => 5 as any });
    export const where = query({ args: {}, handler: async (ctx: any) => await ctx.meta.getFunctionMetadata() });
"""
OUTER_LIB = """
    import { query, mutation, action } from "./_generated/server";
    import { v } from "convex/values";
    import { components } from "./_generated/api";
    const inner = (name: string) => (components as any)[name].lib;
    export const list = query({ args: {}, handler: async (ctx) => [(await ctx.db.query("rows").collect()).map((row) => row.text), await ctx.runQuery(inner("inner").list, {}), await ctx.runQuery(inner("second").list, {})] });
    export const add = mutation({ args: { text: v.string(), inner: v.optional(v.string()), failInner: v.optional(v.boolean()), failOuter: v.optional(v.boolean()), catches: v.optional(v.boolean()) }, handler: async (ctx, args) => {
      await ctx.db.insert("rows", { text: args.text });
      try { await ctx.runMutation(inner(args.inner ?? "inner").add, { text: args.text, fail: args.failInner }); }
      catch (error) { if (!args.catches) throw error; await ctx.db.insert("rows", { text: "caught" }); }
      if (args.failOuter) throw new Error("outer fails"); } });
    export const pass = mutation({ args: { handle: v.string(), later: v.optional(v.boolean()), args: v.any() }, handler: (ctx, args): Promise<any> => ctx.runMutation(inner("inner").callBack, args) });
    export const act = action({ args: { fn: v.string(), args: v.any() }, handler: (ctx, { fn, args }): Promise<any> => (fn === "url" || fn === "get" || fn === "env" || fn === "where" ? ctx.runQuery(inner("inner")[fn], args) : ctx.runAction(inner("inner")[fn], args)) });
    export const ask = query({ args: { fn: v.string(), args: v.any() }, handler: (ctx, { fn, args }): Promise<any> => ctx.runQuery(inner("inner")[fn], args) });
"""
HTTP = """
    import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; import { api } from "./_generated/api";
    const http = httpRouter();
    const handler = httpAction(async (ctx: any, request) => Response.json([NAME, (await ctx.meta.getFunctionMetadata()).componentPath, new URL(request.url).pathname, await ctx.auth.getUserIdentity()]));
    http.route({ path: "/here", method: "GET", handler });
    http.route({ pathPrefix: "/under/", method: "GET", handler });
    export default http;
"""
SCHEMA = 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ rows: defineTable({ text: v.string() }) });'
FILES = {
    "p.ts": PROGRAMS
    + """
        import { createFunctionHandle } from "convex/server";
        Object.assign(tools, { createFunctionHandle });
    """,
    "convex.config.ts": CONFIG
    + """
        import outer from "./outer/convex.config";
        const app = defineApp({ env: { TOP: v.optional(v.string()) } });
        app.use(outer, { httpPrefix: "/o/", env: { MIDDLE: app.env.TOP } });
        app.use(outer, { name: "other" });
        export default app;
    """,
    "http.ts": HTTP.replace("NAME", '"app"').replace("/here", "/o/exact").replace("/under/", "/"),
    "outer/convex.config.ts": CONFIG
    + """
        import inner from "../inner/convex.config";
        const outer = defineComponent("outer", { env: { MIDDLE: v.optional(v.string()) } });
        outer.use(inner, { httpPrefix: "/i/", env: { LEVEL: outer.env.MIDDLE } });
        outer.use(inner, { name: "second", env: { LEVEL: "fixed" } });
        export default outer;
    """,
    "outer/schema.ts": SCHEMA,
    "outer/lib.ts": OUTER_LIB,
    "outer/http.ts": HTTP.replace("NAME", '"outer"'),
    "inner/convex.config.ts": CONFIG
    + 'export default defineComponent("inner", { env: { LEVEL: v.optional(v.string()) } });',
    "inner/schema.ts": SCHEMA,
    "inner/lib.ts": INNER_LIB,
    "inner/http.ts": HTTP.replace("NAME", '"inner"'),
    "inner/crons.ts": 'import { cronJobs } from "convex/server"; import { internal } from "./_generated/api"; const crons = cronJobs(); crons.hourly("hourly", { minuteUTC: 30 }, internal.lib.tick, { text: "cron" }); export default crons;',
}
PATHS = ["", "other", "other/inner", "other/second", "outer", "outer/inner", "outer/second"]
OUTER = "t.components.outer.lib"
WHO = {"issuer": "https://i", "subject": "s"}


@pytest.fixture
def timed(fresh: Core) -> Core:
    fresh.control("env.set", variables={"TOP": None})
    fresh.control("clock.start", time=1_800_000_000_000)
    return fresh


def change(app: Core, code: str) -> Any:
    return app.run("p:m", {"code": code})


def rows(app: Core, component: str = "") -> list[str]:
    return [row["text"] for row in app.control("list", table="rows", component=component)["documents"]]


def test_every_instance_has_its_own_rows(timed: Core) -> None:
    assert [component["path"] for component in timed.control("components")] == PATHS
    change(
        timed,
        f"await {OUTER}.add; await ctx.db.insert('rows', {{ text: 'app' }}); await ctx.runMutation({OUTER}.add, {{ text: 'a' }}); await ctx.runMutation(t.components.other.lib.add, {{ text: 'b', inner: 'second' }})",
    )
    assert {path: rows(timed, path) for path in PATHS} == {
        "": ["app"],
        "other": ["b"],
        "other/inner": [],
        "other/second": ["b"],
        "outer": ["a"],
        "outer/inner": ["a"],
        "outer/second": [],
    }
    timed.control("clock.advance", ms=1000)
    assert (rows(timed, "outer/inner"), rows(timed, "other/second")) == (["a", "a later"], ["b", "b later"])
    jobs = {(job["component"], job["name"]) for job in timed.control("scheduled")}
    assert jobs == {("outer/inner", "lib.js:tick"), ("other/second", "lib.js:tick")}


ROLLBACKS = {
    "the middle fails after the inner one": ("{ text: 'a', failOuter: true }", [], []),
    "the inner one fails through the middle": ("{ text: 'a', failInner: true }", [], []),
    "the middle catches the inner one": ("{ text: 'a', failInner: true, catches: true }", ["a", "caught"], []),
    "nothing fails": ("{ text: 'a' }", ["a"], ["a"]),
    "the middle fails after it caught": ("{ text: 'a', failInner: true, catches: true, failOuter: true }", [], []),
}


@pytest.mark.parametrize(("args", "outer", "inner"), ROLLBACKS.values(), ids=ROLLBACKS.keys())
def test_a_failed_call_undoes_what_is_below_it(timed: Core, args: str, outer: list[str], inner: list[str]) -> None:
    seen = change(
        timed,
        f"await ctx.db.insert('rows', {{ text: 'before' }}); try {{ await ctx.runMutation({OUTER}.add, {args}) }} catch (error) {{ await ctx.db.insert('rows', {{ text: 'after' }}) }} return await ctx.runQuery({OUTER}.list, {{}})",
    )
    assert seen == [outer, inner, []]
    assert (rows(timed)[0], rows(timed, "outer"), rows(timed, "outer/inner")) == ("before", outer, inner)
    assert len(timed.control("scheduled")) == len(inner), "jobs are undone with their mutation"


def test_what_a_failed_call_read_still_counts(timed: Core) -> None:
    call = f"try {{ await ctx.runMutation({OUTER}.add, {{ text: 'a', failOuter: true }}) }} catch {{}} await ctx.runQuery({OUTER}.list, {{}});"
    usage = timed.call("p:m", {"code": f"await ctx.runMutation({OUTER}.add, {{ text: 'x' }}); {call}"})["usage"]
    assert usage["documentsWritten"] == 2
    assert usage["functionsScheduled"] == 2


REFUSED = {
    "a grandchild": ("await ctx.runQuery(t.components.outer.inner.lib.list, {})", "does not export inner.lib.list"),
    "a missing child": ("await ctx.runQuery(t.components.inner.lib.list, {})", "Couldn't resolve inner.lib.list"),
    "a missing function": (f"await ctx.runQuery({OUTER}.nothing, {{}})", "does not export lib.nothing"),
    "another kind": (
        f"await ctx.runQuery({OUTER}.add, {{ text: 'a' }})",
        "Trying to execute lib.js:add as Query, but it is defined as Mutation.",
    ),
    "arguments": (f"await ctx.runMutation({OUTER}.add, {{ text: 5 }})", "ArgumentValidationError"),
    "a result": (f"await ctx.runQuery({OUTER}.ask, {{ fn: 'wrong', args: {{}} }})", "ReturnsValidationError"),
    "a handle of nothing": ("await ctx.runMutation('function://nobody', {})", "Function handle not found"),
    "a handle of an internal function of a child": (
        "await t.createFunctionHandle(t.components.outer.lib.hidden)",
        "does not export lib.hidden",
    ),
    "a handle of a missing function": (
        "await t.createFunctionHandle(t.api.p.nothing)",
        "there is no function 'p:nothing'",
    ),
    "a job for a grandchild": (
        "await ctx.scheduler.runAfter(0, t.components.outer.inner.lib.add, {})",
        "does not export",
    ),
}


@pytest.mark.parametrize(("code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_out_of_reach(timed: Core, code: str, text: str) -> None:
    assert text in timed.fails("p:m", {"code": code}).message


def test_ids_mean_something_in_their_own_component_only(timed: Core) -> None:
    change(
        timed, f"await ctx.runMutation({OUTER}.add, {{ text: 'a' }}); await ctx.db.insert('rows', {{ text: 'app' }})"
    )
    [inner] = timed.control("list", table="rows", component="outer/inner")["documents"]
    assert change(timed, f"return await ctx.db.get('{inner['_id']}')") is None
    found = change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'get', args: {{ id: '{inner['_id']}' }} }})")
    assert found["text"] == "a"
    [own] = timed.control("list", table="rows")["documents"]
    assert (
        change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'get', args: {{ id: '{own['_id']}' }} }})")
        is None
    )


INSERT = (
    "{ code: \"await ctx.db.insert('rows', { text: 'from below' }); if (args) throw new Error('handle fails')\" %s }"
)


def test_handles_lead_from_the_bottom_to_the_top(timed: Core) -> None:
    change(
        timed,
        f"await ctx.runMutation({OUTER}.pass, {{ handle: await t.createFunctionHandle(t.internal.p.innerM), args: {INSERT % ''} }})",
    )
    assert (rows(timed), rows(timed, "outer/inner")) == (["from below"], ["calls back"])


def test_a_handle_that_fails_undoes_its_own_writes_and_its_callers(timed: Core) -> None:
    change(
        timed,
        f"try {{ await ctx.runMutation({OUTER}.pass, {{ handle: await t.createFunctionHandle(t.internal.p.innerM), args: {INSERT % ', args: true'} }}) }} catch (error) {{ await ctx.db.insert('rows', {{ text: error.message.includes('handle fails') ? 'seen' : error.message }}) }}",
    )
    assert (rows(timed), rows(timed, "outer/inner")) == (["seen"], [])


def test_a_scheduled_handle_belongs_to_the_component_that_scheduled_it(timed: Core) -> None:
    change(
        timed,
        f"await ctx.runMutation({OUTER}.pass, {{ handle: await t.createFunctionHandle(t.internal.p.innerM), later: true, args: {INSERT % ''} }})",
    )
    timed.control("idle")
    [job] = timed.control("scheduled")
    assert (job["component"], job["name"], job["state"]["kind"]) == ("outer/inner", "p.js:innerM", "success")
    assert rows(timed) == ["from below"]


def test_handles_of_a_component_work_everywhere_even_internal_ones(timed: Core) -> None:
    internal, public = change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'mine', args: {{}} }})")
    assert internal.endswith("#lib:tick")
    change(
        timed,
        f"await ctx.runMutation('{internal}', {{ text: 'x' }}); await ctx.runMutation('{public}', {{ text: 'y' }})",
    )
    assert rows(timed, "outer/inner") == ["x", "y"]
    assert change(
        timed, f"return await t.createFunctionHandle({OUTER}.add) === await t.createFunctionHandle({OUTER}.add)"
    )


def test_the_app_schedules_functions_of_a_component(timed: Core) -> None:
    change(timed, f"await ctx.scheduler.runAfter(5000, {OUTER}.add, {{ text: 'late' }})")
    [job] = timed.control("scheduled")
    assert (job["component"], job["name"]) == ("", "lib.js:add")
    timed.control("clock.advance", ms=5000)
    assert rows(timed, "outer") == ["late"]


def test_identity_ends_where_an_action_meets_a_component(timed: Core) -> None:
    who = '{ code: "return (await ctx.auth.getUserIdentity())?.subject ?? null" }'
    code = f"return await ctx.runAction({OUTER}.act, {{ fn: 'actBack', args: {{ handle: await t.createFunctionHandle(t.internal.p.innerQ), args: {who} }} }})"
    assert timed.run("p:a", {"code": code}, identity=WHO) is None
    through = f"return await ctx.runMutation({OUTER}.pass, {{ handle: await t.createFunctionHandle(t.internal.p.innerM), args: {who} }})"
    assert timed.run("p:m", {"code": through}, identity=WHO) == "s"


def test_crons_run_in_each_instance(timed: Core) -> None:
    jobs = timed.control("crons")
    assert [(job["name"], job["component"]) for job in jobs] == [("hourly", path) for path in PATHS if "/" in path]
    timed.control("clock.advance", ms=3_600_000)
    assert {path: rows(timed, path) for path in PATHS if "/" in path} == {
        path: ["cron"] for path in PATHS if "/" in path
    }


def test_files_belong_to_a_component(timed: Core) -> None:
    id = timed.run("p:a", {"code": f"return await ctx.runAction({OUTER}.act, {{ fn: 'store', args: {{}} }})"})
    url = change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'url', args: {{ id: '{id}' }} }})")
    assert request(url).text == "inner file"
    assert change(timed, f"return await ctx.storage.getUrl('{id}')") is None
    assert timed.control("list", table="_storage")["documents"] == []
    assert len(timed.control("list", table="_storage", component="outer/inner")["documents"]) == 1


def test_variables_are_handed_down(timed: Core) -> None:
    ask = f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'env', args: {{}} }})"
    assert change(timed, ask) == [None, None, True]
    timed.control("env.set", variables={"TOP": "high"})
    assert change(timed, ask) == ["high", None, True]
    act = f"return await ctx.runAction({OUTER}.act, {{ fn: 'env', args: {{}} }})"
    assert timed.run("p:a", {"code": act}) == ["high", None, True]
    assert change(timed, ask.replace("outer", "other")) == [None, None, True]
    assert timed.run("lib:env", component="outer/second", identity="admin") == ["fixed", None, True]


ROUTES = {
    "/o/here": ["outer", "outer", "/o/here", None],
    "/o/under/x": ["outer", "outer", "/o/under/x", None],
    "/o/i/here": ["inner", "outer/inner", "/o/i/here", None],
    "/o/i/under/a/b": ["inner", "outer/inner", "/o/i/under/a/b", None],
    "/o/exact": ["app", "", "/o/exact", None],
    "/elsewhere": ["app", "", "/elsewhere", None],
    "/here": ["app", "", "/here", None],
    "/o/nothing": 404,
    "/o/i/nothing": 404,
}


@pytest.mark.parametrize(("path", "value"), ROUTES.items(), ids=ROUTES.keys())
def test_routes_of_the_tree(timed: Core, path: str, value: object) -> None:
    answer = request(timed.site + path)
    assert (answer.status if answer.status != 200 else answer.json()) == value


def test_functions_know_where_they_are(timed: Core) -> None:
    where = change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'where', args: {{}} }})")
    assert (where["name"], where["componentPath"]) == ("lib:where", "outer/inner")


def test_a_subscription_sees_changes_inside_components(timed: Core, tmp_path: Path) -> None:
    script = """
        import { ConvexClient } from "convex/browser";
        import { anyApi as api } from "convex/server";
        const client = new ConvexClient(process.env.URL_);
        const list = { code: "return await ctx.runQuery(t.components.outer.lib.list, {})" };
        const add = (text, name) => client.mutation(api.p.m, { code: `await ctx.runMutation(t.components.${name}.lib.add, { text: '${text}' })` });
        const seen = [];
        await new Promise(async (done) => {
          client.onUpdate(api.p.q, list, (value) => { seen.push(value[1]); if (seen.length === 1) void add("b", "other").then(() => add("a", "outer")); if (value[1].length === 1) done(); });
        });
        await client.close();
        console.log(JSON.stringify(seen));
        process.exit(0);
    """
    assert json.loads(run_node(script, tmp_path, URL_=timed.url)) == [[], ["a"]]


def test_a_removed_component_keeps_its_data_and_finds_it_again(bundler: Bundler, app: Core) -> None:
    app.control("reset")
    handle = change(
        app, f"await ctx.runMutation({OUTER}.add, {{ text: 'kept' }}); return await t.createFunctionHandle({OUTER}.add)"
    )
    bundler.push(app, {"p.ts": FILES["p.ts"]})
    assert [component["path"] for component in app.control("components")] == [""]
    assert app.control("crons") == []
    assert (
        "Couldn't resolve outer.lib.list"
        in app.fails("p:m", {"code": f"await ctx.runQuery({OUTER}.list, {{}})"}).message
    )
    assert (
        "Function handle not found"
        in app.fails("p:m", {"code": f"await ctx.runMutation('{handle}', {{ text: 'x' }})"}).message
    )
    bundler.push(app, FILES)
    change(app, f"await ctx.runMutation('{handle}', {{ text: 'again' }})")
    assert rows(app, "outer") == ["kept", "again"]


def component(app: str, more: dict[str, str] | None = None) -> dict[str, str]:
    return {
        "convex.config.ts": CONFIG
        + f'import c from "./c/convex.config"; const app = defineApp(); {app} export default app;',
        "c/convex.config.ts": CONFIG + 'export default defineComponent("c");',
        **(more or {}),
    }


FUNCTION = (
    'import { query } from "./_generated/server"; export const {name} = query({ args: {}, handler: async () => 1 });'
)
PUSHES = {
    "a component that throws at import": (
        component("app.use(c);", {"c/lib.ts": 'throw new Error("broken component"); export {};'}),
        "InvalidModules",
        "Failed to analyze lib.js: Uncaught Error: broken component",
    ),
    "a definition that throws": (
        component("app.use(c);", {"c/convex.config.ts": 'throw new Error("broken definition"); export default 1;'}),
        "InvalidConvexConfig",
        "Uncaught Error: broken definition",
    ),
    "a cycle": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import d from "../d/convex.config"; const c = defineComponent("c"); c.use(d); export default c;',
                "d/convex.config.ts": CONFIG
                + 'import c from "../c/convex.config"; const d = defineComponent("d"); d.use(c); export default d;',
            },
        ),
        "CyclicImport",
        "Found cyclic definition dependency",
    ),
    "a component that uses itself": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import me from "./convex.config"; const c = defineComponent("c"); c.use(me); export default c;'
            },
        ),
        "CyclicImport",
        "Found cyclic definition dependency",
    ),
    "a component that uses the app": (
        component(
            "app.use(c);",
            {
                "c/convex.config.ts": CONFIG
                + 'import app from "../convex.config"; const c = defineComponent("c"); c.use(app as any); export default c;'
            },
        ),
        "NoImportAppDuringDefinitionEvaluation",
        "",
    ),
    "an app where a component is expected": (
        component("app.use(c);", {"c/convex.config.ts": CONFIG + "export default defineApp();"}),
        "InvalidDefinition",
        "in component `c` has an invalid value",
    ),
    "two children of one name": (
        component('app.use(c, { name: "x" }); app.use(c, { name: "x" });'),
        "TypecheckError",
        "has multiple child components with the same name",
    ),
    "no name": (component('app.use(c, { name: "" });'), "InvalidConvexConfig", "Component name cannot be empty."),
    "a function and a folder of one name": (
        component(
            "app.use(c);",
            {
                "c/m.ts": FUNCTION.replace("{name}", "x"),
                "c/m/x.ts": FUNCTION.replace("{name}", "y").replace("./_", "../_"),
            },
        ),
        "InvalidExport",
        "conflicts with existing export",
    ),
    "a prefix without a slash": (
        component('app.use(c, { httpPrefix: "c/" });', {"c/http.ts": HTTP.replace("NAME", "1")}),
        "InvalidConvexConfig",
        'httpPrefix must start with "/"',
    ),
    "a mount on a prefix route": (
        component(
            'app.use(c, { httpPrefix: "/under/" });',
            {"c/http.ts": HTTP.replace("NAME", "1"), "http.ts": HTTP.replace("NAME", "2")},
        ),
        "TypecheckError",
        "Overlap with existing prefix route",
    ),
    "a variable that the app does not declare": (
        component(
            "app.use(c, { env: { A: (app as any).env.B } } as any);",
            {"c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.string() } });'},
        ),
        "InvalidConvexConfig",
        'Env var "B" is not declared on this app.',
    ),
    "an optional variable for a required one": (
        {
            **component(""),
            "convex.config.ts": CONFIG
            + 'import c from "./c/convex.config"; const app = defineApp({ env: { A: v.optional(v.string()) } }); app.use(c, { env: { A: app.env.A } }); export default app;',
            "c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.string() } });',
        },
        "TypecheckError",
        "is required, but parent env var",
    ),
    "a wider variable for a narrower one": (
        {
            **component(""),
            "convex.config.ts": CONFIG
            + 'import c from "./c/convex.config"; const app = defineApp({ env: { A: v.string() } }); app.use(c, { env: { A: app.env.A } } as any); export default app;',
            "c/convex.config.ts": CONFIG + 'export default defineComponent("c", { env: { A: v.literal("x") } });',
        },
        "TypecheckError",
        "validator is not satisfied by",
    ),
    "a query at import": (
        component("app.use(c);", {"c/lib.ts": 'Convex.syscall("1.0/queryStream", "{}"); export {};'}),
        "InvalidModules",
        "Can't use database at import time",
    ),
}


@pytest.mark.parametrize(("files", "code", "text"), PUSHES.values(), ids=PUSHES.keys())
def test_a_push_is_refused_and_the_app_goes_on(
    timed: Core, bundler: Bundler, files: dict[str, str], code: str, text: str
) -> None:
    with pytest.raises(PushError) as refused:
        bundler.push(timed, files)
    assert (refused.value.status, refused.value.code) == (400, code), refused.value.message
    assert text in refused.value.message
    assert change(timed, f"return await ctx.runQuery({OUTER}.list, {{}})") == [[], [], []]
