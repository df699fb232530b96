# ruff: noqa: E501 - programs in tables stay on one line
"""Scheduled functions: their states, cancelling in each, who schedules, limits, order, what becomes of their rows."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler

COMPONENT = {
    "box/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("box");',
    "box/lib.ts": """
        import { query, mutation, action, internalMutation } from "./_generated/server";
        import { v } from "convex/values";
        import { internal } from "./_generated/api";
        export const keep = internalMutation({ args: {}, handler: async (ctx) => { await ctx.db.insert("kept", { in: "box" }); } });
        export const later = mutation({ args: { ms: v.number() }, handler: (ctx, { ms }) => ctx.scheduler.runAfter(ms, internal.lib.keep, {}) });
        export const fromAction = action({ args: {}, handler: (ctx) => ctx.scheduler.runAfter(0, internal.lib.keep, {}) });
        export const handed = mutation({ args: { handle: v.string() }, handler: (ctx, { handle }) => ctx.scheduler.runAfter(0, handle as any, { code: "await ctx.db.insert('kept', { in: 'app' })" }) });
        export const jobs = query({ args: {}, handler: (ctx) => ctx.db.system.query("_scheduled_functions").collect() });
        export const cancel = mutation({ args: { id: v.string() }, handler: (ctx, { id }) => ctx.scheduler.cancel(id as any) });
        export const cancelFromAction = action({ args: { id: v.string() }, handler: (ctx, { id }) => ctx.scheduler.cancel(id as any) });
    """,
}
FILES = {
    "p.ts": PROGRAMS
    + """
        import { internalAction, httpAction } from "./_generated/server";
        import { createFunctionHandle } from "convex/server";
        export const innerA = internalAction(program);
        export const give = mutation({ args: {}, handler: async (ctx) => await ctx.runMutation(components.box.lib.handed, { handle: await createFunctionHandle(internal.p.innerM) }) });
    """,
    "http.ts": """
        import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; import { internal } from "./_generated/api";
        const http = httpRouter();
        http.route({ path: "/later", method: "POST", handler: httpAction(async (ctx) => Response.json(await ctx.scheduler.runAfter(0, internal.p.innerM, { code: "await ctx.db.insert('notes', { n: 'http' })" }))) });
        export default http;
    """,
    "convex.config.ts": 'import { defineApp } from "convex/server"; import box from "./box/convex.config"; const app = defineApp(); app.use(box); export default app;',
    **COMPONENT,
}
START = int(datetime(2026, 1, 5, 12, 0, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000


@pytest.fixture
def still(fresh: Core) -> Core:
    """Time stands still."""
    fresh.control("clock.start", time=START)
    return fresh


def schedule(app: Core, code: str, ms: int = 0, kind: str = "innerM", args: Any = None) -> str:
    call = "return await ctx.scheduler.runAfter(args.ms, t.internal.p[args.kind], { code: args.code, args: args.args })"
    return app.run("p:m", {"code": call, "args": {"ms": ms, "kind": kind, "code": code, "args": args}})


def note(name: str) -> str:
    return f'await ctx.db.insert("notes", {{ n: "{name}" }})'


def notes(app: Core) -> list[Any]:
    return [row["n"] for row in app.control("list", table="notes")["documents"]]


def states(app: Core, **params: Any) -> list[str]:
    return [job["state"]["kind"] for job in app.control("scheduled", **params)]


def eventually(test: Callable[[], bool]) -> None:
    """Waits until it holds; the deadline is generous."""
    end = time.monotonic() + 60
    while not test():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


CANCEL = "await ctx.scheduler.cancel(args)"
SLEEP = 'await new Promise((r) => setTimeout(r, 10_000)); await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert("notes", { n: "woke" })` })'


def test_cancelling_a_finished_job_changes_nothing(still: Core) -> None:
    done, broken = schedule(still, note("x")), schedule(still, "throw new Error('no')")
    still.control("clock.advance", ms=0)
    before = still.control("scheduled")
    assert [job["state"]["kind"] for job in before] == ["success", "failed"]
    for job in (done, broken):
        still.run("p:m", {"code": CANCEL, "args": job})
        still.run("p:a", {"code": CANCEL, "args": job})
    assert still.control("scheduled") == before


def test_a_cancelled_action_runs_on_but_its_end_is_ignored(still: Core) -> None:
    job = schedule(still, SLEEP, kind="innerA")
    still.control("clock.advance", ms=1000)
    [row] = still.control("scheduled")
    assert set(row["state"]) == {"kind", "request_id", "execution_id"}
    assert row["state"]["kind"] == "inProgress"
    assert "completedTime" not in row
    still.run("p:m", {"code": CANCEL, "args": job})
    [row] = still.control("scheduled")
    assert (row["state"], row["completedTime"]) == ({"kind": "canceled"}, START + 1000)
    still.control("clock.advance", ms=20_000)
    assert (states(still), notes(still)) == (["canceled"], ["woke"])


def test_an_action_may_cancel_the_job_that_it_is(still: Core) -> None:
    for code in (
        "await ctx.scheduler.cancel(ID)",
        "await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.scheduler.cancel(args)`, args: ID })",
    ):
        find = "const [{ _id: ID }] = await ctx.runQuery(t.internal.p.innerQ, { code: `return (await ctx.db.system.query('_scheduled_functions').collect()).filter((j) => j.state.kind === 'inProgress')` });"
        schedule(still, find + code, kind="innerA")
        still.control("clock.advance", ms=0)
    assert states(still) == ["canceled", "canceled"]


def test_a_mutation_cannot_cancel_the_job_that_it_is(still: Core) -> None:
    schedule(
        still,
        f'const [job] = await ctx.db.system.query("_scheduled_functions").collect(); await ctx.scheduler.cancel(job._id); {note("done")}',
    )
    still.control("clock.advance", ms=0)
    assert (states(still), notes(still)) == (["success"], ["done"])
    assert any(
        "A mutation cannot cancel itself" in line for entry in still.control("logs") for line in entry["logLines"]
    )


def test_what_a_cancelled_job_schedules_is_cancelled(still: Core) -> None:
    """By the action itself and by a mutation that it calls."""
    more = "ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: `await ctx.db.insert('notes', { n: 1 })` })"
    code = f"await new Promise((r) => setTimeout(r, 1000)); await {more}; await ctx.runMutation(t.internal.p.innerM, {{ code: args }})"
    job = schedule(still, code, kind="innerA", args=f"await {more}")
    still.control("clock.advance", ms=0)
    still.run("p:m", {"code": CANCEL, "args": job})
    still.control("clock.advance", ms=2000)
    assert (states(still), notes(still)) == (["canceled"] * 3, [])
    assert all("completedTime" in row for row in still.control("scheduled"))


def test_a_mutation_that_is_cancelled_while_it_runs_leaves_all_or_nothing(fresh: Core) -> None:
    slow = "for (let i = 0; i < args * 60; i++) await ctx.db.query('notes').first(); await ctx.db.insert('notes', { n: args })"
    jobs = [schedule(fresh, slow, args=n) for n in range(8)]
    for job in reversed(jobs):
        fresh.run("p:m", {"code": CANCEL, "args": job})
    assert fresh.control("idle") == {"idle": True}
    ends = states(fresh)
    assert set(ends) <= {"success", "canceled"}
    assert sorted(notes(fresh)) == [n for n, end in enumerate(ends) if end == "success"]


def test_conflicting_jobs_all_succeed_once(fresh: Core) -> None:
    fresh.run("p:m", {"code": 'await ctx.db.insert("notes", { n: 0 })'})
    add = "const row = await ctx.db.query('notes').first(); await ctx.db.patch(row._id, { n: row.n + 1 })"
    fresh.run(
        "p:m",
        {
            "code": "for (let i = 0; i < 24; i++) await ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: args })",
            "args": add,
        },
    )
    eventually(lambda: set(states(fresh)) == {"success"})
    assert notes(fresh) == [24]


def test_a_time_in_the_past_means_now_and_is_kept(still: Core) -> None:
    code = "for (const ms of args) await ctx.scheduler.runAt(Date.now() + ms, t.internal.p.innerM, { code: `await ctx.db.insert('notes', { n: args })`, args: ms })"
    still.run("p:m", {"code": code, "args": [0, -5000, -86400000, 1]})
    still.control("clock.advance", ms=0)
    assert sorted(notes(still)) == [-86400000, -5000, 0]
    assert [row["scheduledTime"] - START for row in still.control("scheduled")] == [0, -5000, -86400000, 1]
    assert [row.get("completedTime", 0) >= START for row in still.control("scheduled")] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("Date.now() - 6 * 366 * 86400000", "is more than 5 years in the past"),
        ("Date.now() + 6 * 366 * 86400000", "is more than 5 years in the future"),
        ('"tomorrow"', "The invoke time must a Date or a timestamp"),
    ],
)
def test_times_that_are_refused(still: Core, when: str, text: str) -> None:
    for kind in ("m", "a"):
        error = still.fails(f"p:{kind}", {"code": f"await ctx.scheduler.runAt({when}, t.internal.p.innerM, {{}})"})
        assert text in error.message


@pytest.mark.parametrize("delay", ['"1"', "NaN", "Infinity", "-1"])
def test_delays_that_are_refused(still: Core, delay: str) -> None:
    text = {'"1"': "a number", "NaN": "a finite number", "Infinity": "a finite number", "-1": "non-negative"}[delay]
    error = still.fails("p:m", {"code": f"await ctx.scheduler.runAfter({delay}, t.internal.p.innerM, {{}})"})
    assert f"`delayMs` must be {text}" in error.message


def test_a_date_and_the_five_years_to_the_day(still: Core) -> None:
    for time_ in ("new Date(Date.now() + 1000)", "Date.now() + 5 * 366 * 86400000", "Date.now() - 5 * 366 * 86400000"):
        still.run("p:m", {"code": f"await ctx.scheduler.runAt({time_}, t.internal.p.innerM, {{ code: '' }})"})
    assert len(still.control("scheduled")) == 3


CANCELS = {
    "no id": ('"garbage"', "Invalid argument `id` for `db.cancel_job`: Unable to decode ID"),
    "an id of another table": ('await ctx.runMutation(t.internal.p.innerM, { code: `return await ctx.db.insert("notes", {})` })', "Invalid scheduled function ID."),
}  # fmt: skip


@pytest.mark.parametrize(("given", "text"), CANCELS.values(), ids=CANCELS.keys())
@pytest.mark.parametrize("kind", ["m", "a"])
def test_what_cannot_be_cancelled(still: Core, kind: str, given: str, text: str) -> None:
    assert text in still.fails(f"p:{kind}", {"code": f"await ctx.scheduler.cancel({given})"}).message


def test_a_row_that_is_gone_is_cancelled_without_a_word(still: Core) -> None:
    job = schedule(still, "")
    still.control("clock.advance", ms=8 * DAY)
    assert still.control("scheduled") == []
    still.run("p:m", {"code": CANCEL, "args": job})


def test_rows_of_every_end_are_kept_for_seven_days(still: Core) -> None:
    schedule(still, "")
    schedule(still, "throw new Error('no')")
    schedule(still, "", kind="innerA")
    still.run("p:m", {"code": CANCEL, "args": schedule(still, "", ms=DAY)})
    waiting = schedule(still, "", ms=30 * DAY)
    still.control("clock.advance", ms=7 * DAY - 1)
    assert states(still) == ["success", "failed", "success", "canceled", "pending"]
    still.control("clock.advance", ms=2)
    assert [row["_id"] for row in still.control("scheduled")] == [waiting]


def test_a_thousand_jobs_and_one(still: Core) -> None:
    many = 'for (let i = 0; i < args; i++) await ctx.scheduler.runAfter(1e6, t.internal.p.innerM, { code: "" })'
    still.run("p:m", {"code": many, "args": 1000})
    error = still.fails("p:m", {"code": many, "args": 1001})
    assert "Too many functions scheduled by this mutation (limit: 1000)" in error.message
    assert len(still.control("scheduled")) == 1000
    still.run("p:a", {"code": many, "args": 1001})


def test_the_arguments_of_all_jobs_together(still: Core) -> None:
    code = "for (let i = 0; i < args; i++) await ctx.scheduler.runAfter(1e6, t.internal.p.innerM, { code: 'x'.repeat(5_000_000) })"
    still.run("p:m", {"code": code, "args": 3})
    error = still.fails("p:m", {"code": code, "args": 4})
    assert (
        "Too large total size of the arguments of scheduled functions from this mutation (limit: 16777216 bytes)"
        in error.message
    )


def test_what_was_deployed_when_a_job_is_due_is_what_runs(bundler: Bundler) -> None:
    core = Core()
    try:
        later = 'import {{ internalMutation }} from "./_generated/server"; export const {name} = internalMutation({{ args: {{}}, handler: async (ctx) => {{ await ctx.db.insert("notes", {{ n: "{name}" }}); }} }});'
        bundler.push(core, {"p.ts": PROGRAMS, "one.ts": later.format(name="f"), "two.ts": later.format(name="g")})
        core.control("clock.start", time=START)
        core.run(
            "p:m",
            {"code": "for (const f of [t.internal.one.f, t.internal.two.g]) await ctx.scheduler.runAfter(1000, f, {})"},
        )
        bundler.push(core, {"p.ts": PROGRAMS, "one.ts": later.format(name="other")})
        core.control("clock.advance", ms=1000)
        errors = [job["state"].get("error") for job in core.control("scheduled")]
        assert errors == ['Couldn\'t find "f" in module "one.js".', "Couldn't find JavaScript module 'two.js'"]
    finally:
        core.close()


def test_rows_as_functions_read_them(still: Core) -> None:
    job = still.run(
        "p:m",
        {"code": "return await ctx.scheduler.runAfter(5, t.internal.p.innerM, { code: `throw new Error('no')` })"},
    )
    code = """const one = await ctx.db.system.get(args); const all = await ctx.db.system.query("_scheduled_functions").order("desc").collect();
        return [one, all.length, await ctx.db.get(args).catch((e) => e.message)]"""
    row, count, error = still.run("p:q", {"code": code, "args": job})
    assert {key: row[key] for key in row if key != "_creationTime"} == {
        "_id": job,
        "name": "p.js:innerM",
        "args": [{"code": "throw new Error('no')"}],
        "scheduledTime": START + 5,
        "state": {"kind": "pending"},
    }
    assert (count, error.startswith("System tables can only be accessed with db.system")) == (1, True)
    still.control("clock.advance", ms=5)
    row = still.run("p:q", {"code": code, "args": job})[0]
    assert set(row["state"]) == {"kind", "error"}
    assert row["completedTime"] == START + 5


def test_http_actions_schedule_too(still: Core) -> None:
    job = request(f"{still.site}/later", b"", method="POST").json()
    still.control("clock.advance", ms=0)
    assert [row["_id"] for row in still.control("scheduled")] == [job]
    assert notes(still) == ["http"]


def test_an_action_schedules_at_once_even_when_it_fails_later(still: Core) -> None:
    still.fails(
        "p:a",
        {
            "code": "await ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: `await ctx.db.insert('notes', { n: 'kept' })` }); throw new Error('no')"
        },
    )
    still.control("clock.advance", ms=0)
    assert notes(still) == ["kept"]


def test_jobs_belong_to_the_component_that_schedules_them(still: Core) -> None:
    box = "t.components.box.lib"
    job = still.run("p:m", {"code": f"return await ctx.runMutation({box}.later, {{ ms: 0 }})"})
    still.run("p:a", {"code": f"await ctx.runAction({box}.fromAction, {{}})"})
    still.control("clock.advance", ms=0)
    assert len(still.control("list", table="kept", component="box")["documents"]) == 2
    own = still.run("p:m", {"code": f"return await ctx.runQuery({box}.jobs, {{}})"})
    assert (own[0]["_id"], own[0]["name"]) == (job, "lib.js:keep")
    assert still.run("p:q", {"code": 'return await ctx.db.system.query("_scheduled_functions").collect()'}) == []


def test_a_component_schedules_a_function_it_was_given(still: Core) -> None:
    still.run("p:give")
    still.control("clock.advance", ms=0)
    assert [row["in"] for row in still.control("list", table="kept")["documents"]] == ["app"]
    [row] = still.run("p:m", {"code": "return await ctx.runQuery(t.components.box.lib.jobs, {})"})
    assert (row["name"], row["state"]) == ("p.js:innerM", {"kind": "success"})


def test_the_action_of_a_component_cancels_in_the_table_of_the_app(still: Core) -> None:
    box = "t.components.box.lib"
    own = still.run("p:m", {"code": f"return await ctx.runMutation({box}.later, {{ ms: 1000 }})"})
    apps = schedule(still, "", ms=1000)
    for job in (own, apps):
        still.run(
            "p:a", {"code": f"await ctx.runAction({box}.cancelFromAction, {{ id: args }}).catch(() => 0)", "args": job}
        )
    assert states(still, component="") == ["canceled"]
    still.run("p:m", {"code": f"await ctx.runMutation({box}.cancel, {{ id: args }})", "args": own})
    [row] = still.run("p:m", {"code": f"return await ctx.runQuery({box}.jobs, {{}})"})
    assert row["state"] == {"kind": "canceled"}


def test_many_jobs_and_calls_at_once(fresh: Core) -> None:
    """Each job runs exactly once beside clients that write."""
    burst = "for (let i = 0; i < 20; i++) await ctx.scheduler.runAfter(i % 3, t.internal.p.innerM, { code: `await ctx.db.insert('notes', { n: args })`, args: args * 20 + i })"
    threads = [threading.Thread(target=fresh.run, args=("p:m", {"code": burst, "args": n})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: len(states(fresh)) == 160 and set(states(fresh)) == {"success"})
    assert sorted(notes(fresh)) == list(range(160))
