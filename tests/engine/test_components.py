# ruff: noqa: E501 - programs in tables stay on one line
"""Components: own tables, sub-transactions, handles, identity, mounts, environment."""

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS

DEFINITION = 'import { defineComponent } from "convex/server"; import { v } from "convex/values"; export default defineComponent("{name}"{options});'
COUNTER = """
    import { query, mutation, internalMutation, action } from "./_generated/server";
    import { v } from "convex/values";
    import { internal } from "./_generated/api";
    export const add = mutation({ args: { by: v.number() }, returns: v.number(), handler: async (ctx, { by }) => {
      const row = await ctx.db.query("counts").first();
      if (row) await ctx.db.patch(row._id, { n: row.n + by }); else await ctx.db.insert("counts", { n: by });
      if (by > 100) throw new Error("too much");
      return (row?.n ?? 0) + by; } });
    export const get = query({ args: {}, handler: async (ctx) => (await ctx.db.query("counts").first())?.n ?? 0 });
    export const later = mutation({ args: {}, handler: async (ctx) => await ctx.scheduler.runAfter(0, internal.lib.hidden, {}) });
    export const hidden = internalMutation({ args: {}, handler: async (ctx) => await ctx.db.insert("counts", { n: 1000 }) });
    export const who = query({ args: {}, handler: async (ctx) => await ctx.auth.getUserIdentity() });
    export const page = query({ args: {}, handler: async (ctx) => await ctx.db.query("counts").paginate({ numItems: 1, cursor: null }) });
    export const env = query({ args: {}, handler: async () => [process.env.MODE ?? null, process.env.OUTER ?? null] });
    export const call = mutation({ args: { handle: v.string() }, handler: async (ctx, { handle }) => await ctx.runMutation(handle as any, { code: "return await ctx.db.insert('t', { by: 'handle' })" }) });
"""
FILES = {
    "p.ts": PROGRAMS
    + """
        import { createFunctionHandle } from "convex/server";
        export const give = mutation({ args: {}, handler: async (ctx) => await ctx.runMutation(components.counter.lib.call, { handle: await createFunctionHandle(internal.p.innerM) }) });
    """,
    "convex.config.ts": """
        import { defineApp } from "convex/server"; import { v } from "convex/values"; import counter from "./counter/convex.config";
        const app = defineApp({ env: { OUTER: v.optional(v.string()) } });
        app.use(counter, { env: { MODE: "fixed" } }); app.use(counter, { name: "second", httpPrefix: "/second/", env: { MODE: "other" } });
        export default app;
    """,
    "counter/convex.config.ts": DEFINITION.replace("{name}", "counter").replace(
        "{options}", ", { env: { MODE: v.string() } }"
    ),
    "counter/schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ counts: defineTable({ n: v.number() }) });',
    "counter/lib.ts": COUNTER,
    "counter/http.ts": """
        import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; import { api } from "./_generated/api";
        const http = httpRouter();
        http.route({ path: "/hello", method: "GET", handler: httpAction(async (ctx, r) => Response.json([new URL(r.url).pathname, await ctx.runQuery(api.lib.get, {})])) });
        export default http;
    """,
}
ADD = "await ctx.runMutation(t.components.{}.lib.add, {{ by: {} }})"

RESULTS = {
    "instances have their own data": (
        ADD.format("counter", 1)
        + ";"
        + ADD.format("second", 5)
        + "; return [await ctx.runQuery(t.components.counter.lib.get, {}), await ctx.runQuery(t.components.second.lib.get, {})]",
        [1, 5],
    ),
    "the app does not see their tables": (
        ADD.format("counter", 1) + '; return await ctx.db.query("counts").collect()',
        [],
    ),
    "a failed call is undone, the rest stays": (
        ADD.format("counter", 1)
        + "; try { "
        + ADD.format("counter", 500)
        + ' } catch (e) { await ctx.db.insert("t", { text: e.message.split("\\n")[0] }) } return [await ctx.runQuery(t.components.counter.lib.get, {}), (await ctx.db.query("t").first()).text]',
        [1, "Uncaught Error: too much"],
    ),
    "bound variables": (
        "return [await ctx.runQuery(t.components.counter.lib.env, {}), await ctx.runQuery(t.components.second.lib.env, {})]",
        [["fixed", None], ["other", None]],
    ),
}


@pytest.mark.parametrize(("code", "value"), RESULTS.values(), ids=RESULTS.keys())
def test_components(fresh: Core, code: str, value: object) -> None:
    fresh.control("env.set", variables={"OUTER": "x"})
    assert fresh.run("p:m", {"code": code}) == value


def test_a_failing_caller_undoes_the_component_too(fresh: Core) -> None:
    fresh.fails("p:m", {"code": ADD.format("counter", 1) + "; throw new Error()"})
    assert fresh.control("list", table="counts", component="counter")["documents"] == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("await ctx.runMutation(t.components.counter.lib.hidden, {})", "does not export lib.hidden"),
        ("await ctx.runMutation(t.components.nobody.lib.add, {})", "nobody"),
        ("await ctx.runMutation(t.components.counter.lib.add, { by: 'x' })", "ArgumentValidationError"),
        ("await ctx.runQuery(t.components.counter.lib.page, {})", "paginate() is only supported in the app."),
    ],
)
def test_what_components_refuse(fresh: Core, code: str, text: str) -> None:
    assert text in fresh.fails("p:m", {"code": code}).message


def test_only_admins_call_components_directly(fresh: Core) -> None:
    assert "Could not find public function for 'lib:get'" in fresh.fails("lib:get", component="counter").message
    assert fresh.run("lib:get", component="counter", identity="admin") == 0
    acting = fresh.fails("lib:get", component="counter", identity={"issuer": "https://i", "subject": "s"})
    assert "Could not find public function" in acting.message


def test_identity_is_kept_in_transactions_and_dropped_by_actions(fresh: Core) -> None:
    who = {"issuer": "https://i", "subject": "s"}
    code = "return (await ctx.runQuery(t.components.counter.lib.who, {}))?.subject ?? null"
    assert fresh.run("p:q", {"code": code}, identity=who) == "s"
    assert fresh.run("p:a", {"code": code}, identity=who) is None
    assert (
        fresh.run(
            "p:a",
            {
                "code": "return (await ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.auth.getUserIdentity()).subject` }))"
            },
            identity=who,
        )
        == "s"
    )


def test_components_schedule_their_own_functions(fresh: Core) -> None:
    fresh.run("p:m", {"code": "await ctx.runMutation(t.components.counter.lib.later, {})"})
    fresh.control("idle")
    [job] = fresh.control("scheduled")
    assert (job["component"], job["name"], job["state"]) == ("counter", "lib.js:hidden", {"kind": "success"})
    assert [row["n"] for row in fresh.control("list", table="counts", component="counter")["documents"]] == [1000]


def test_function_handles_lead_back_to_the_app(fresh: Core) -> None:
    fresh.run("p:give")
    assert [row["by"] for row in fresh.control("list", table="t")["documents"]] == ["handle"]


def test_mounted_routes(fresh: Core) -> None:
    fresh.run("p:m", {"code": ADD.format("second", 7)})
    assert request(f"{fresh.site}/second/hello").json() == ["/second/hello", 7]
    assert request(f"{fresh.site}/hello").status == 404


def test_exports_for_code_generation(bundler, core: Core, app: Core) -> None:
    started = bundler.push(core, FILES)
    [[name, branch]] = [
        item for item in started["analysis"]["counter"]["definition"]["exports"]["branch"] if item[0] == "lib"
    ]
    assert (name, branch["type"]) == ("lib", "branch")
    assert ["add", {"type": "leaf", "leaf": "_reference/function/lib.js:add"}] in branch["branch"]
    assert "hidden" not in [leaf for leaf, _ in branch["branch"]]
    assert [component["path"] for component in core.control("components")] == ["", "counter", "second"]
