# ruff: noqa: E501 - programs in tables stay on one line
"""A tree of local components: two instances of one that itself has two of another."""

import json
from pathlib import Path
from typing import Any

import pytest

from .support.components import source_files
from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node

FILES = {
    **source_files("tree"),
    "p.ts": PROGRAMS
    + """
        import { createFunctionHandle } from "convex/server";
        Object.assign(tools, { createFunctionHandle });
    """,
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
    file = timed.run("p:a", {"code": f"return await ctx.runAction({OUTER}.act, {{ fn: 'store', args: {{}} }})"})
    url = change(timed, f"return await ctx.runQuery({OUTER}.ask, {{ fn: 'url', args: {{ id: '{file}' }} }})")
    assert request(url).text == "inner file"
    assert change(timed, f"return await ctx.storage.getUrl('{file}')") is None
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
