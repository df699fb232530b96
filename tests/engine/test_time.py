# ruff: noqa: E501 - programs in tables stay on one line
"""Scheduler, crons and the clock."""

from datetime import UTC, datetime

import pytest

from .support.core import Core
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "jobs.ts": """
        import { query, mutation, action, internalMutation, internalAction, internalQuery } from "./_generated/server";
        import { v } from "convex/values";
        import { internal } from "./_generated/api";
        export const note = internalMutation({ args: { text: v.string() }, handler: (ctx, { text }) => ctx.db.insert("notes", { text, at: Date.now() }) });
        export const fail = internalMutation({ args: {}, handler: async (ctx) => { await ctx.db.insert("notes", { text: "lost" }); throw new Error("job failed"); } });
        export const act = internalAction({ args: {}, handler: (ctx) => ctx.runMutation(internal.jobs.note, { text: "from action" }) });
        export const self = internalMutation({ args: {}, handler: async (ctx) => { const jobs = await ctx.db.system.query("_scheduled_functions").collect(); await ctx.db.insert("notes", { text: jobs.map((j) => j.state.kind).join() }); } });
        const own = async (ctx) => (await ctx.runQuery(internal.jobs.running, {}))[0];
        export const running = internalQuery({ args: {}, handler: async (ctx) => (await ctx.db.system.query("_scheduled_functions").collect()).filter((j) => j.state.kind === "inProgress").map((j) => j._id) });
        export const suicidal = internalMutation({ args: {}, handler: async (ctx) => { await ctx.scheduler.cancel(await own(ctx)); await ctx.db.insert("notes", { text: "still here" }); } });
        export const quitter = internalAction({ args: {}, handler: async (ctx) => { await ctx.scheduler.cancel(await own(ctx)); await ctx.runMutation(internal.jobs.note, { text: "went on" }); await ctx.scheduler.runAfter(0, internal.jobs.note, { text: "never" }); } });
        export const ask = query({ args: {}, handler: async () => 1 });
        export const sleepy = internalAction({ args: {}, handler: async (ctx) => { await new Promise((r) => setTimeout(r, 30_000)); await ctx.runMutation(internal.jobs.note, { text: "woke" }); } });
    """,
    "crons.ts": """
        import { cronJobs } from "convex/server";
        import { internal } from "./_generated/api";
        const crons = cronJobs();
        crons.daily("nightly", { hourUTC: 13, minuteUTC: 0 }, internal.jobs.note, { text: "nightly" });
        crons.interval("often", { hours: 6 }, internal.jobs.note, { text: "often" });
        crons.monthly("last", { day: 31, hourUTC: 0, minuteUTC: 30 }, internal.jobs.note, { text: "monthly" });
        crons.cron("weekday", "15 9 * * MON-FRI", internal.jobs.note, { text: "weekday" });
        crons.weekly("sunday", { dayOfWeek: "sunday", hourUTC: 8, minuteUTC: 5 }, internal.jobs.fail);
        export default crons;
    """,
}
START = int(datetime(2026, 1, 5, 12, 59, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000


def notes(app: Core) -> list[str]:
    return [row["text"] for row in app.control("list", table="notes")["documents"]]


def schedule(app: Core, call: str) -> str:
    return app.run("p:m", {"code": f"return await ctx.scheduler.{call}"})


@pytest.fixture
def quiet(fresh: Core) -> Core:
    """A virtual clock, and the interval cron's first run out of the way."""
    fresh.control("clock.start", time=START)
    fresh.control("clock.advance", ms=0)
    fresh.control("clear", table="notes")
    return fresh


def test_a_job_runs_when_it_is_due_and_not_before(quiet: Core) -> None:
    schedule(quiet, 'runAfter(5000, t.internal.jobs.note, { text: "a" })')
    quiet.control("clock.advance", ms=4999)
    [job] = quiet.control("scheduled")
    assert (job["state"], job["name"], job["args"], job["scheduledTime"]) == (
        {"kind": "pending"},
        "jobs.js:note",
        [{"text": "a"}],
        START + 5000,
    )
    quiet.control("clock.advance", ms=1)
    [job] = quiet.control("scheduled")
    assert (job["state"], job["completedTime"]) == ({"kind": "success"}, START + 5000)
    assert notes(quiet) == ["a"]


def test_jobs_run_in_the_order_they_are_due(quiet: Core) -> None:
    for delay, text in ((300, "c"), (100, "a"), (200, "b")):
        schedule(quiet, f'runAfter({delay}, t.internal.jobs.note, {{ text: "{text}" }})')
    quiet.control("clock.advance", ms=1000)
    rows = quiet.control("list", table="notes")["documents"]
    assert [(row["text"], row["at"] - START) for row in rows] == [("a", 100), ("b", 200), ("c", 300)]


def test_failed_jobs_keep_their_error_and_write_nothing(quiet: Core) -> None:
    schedule(quiet, "runAfter(0, t.internal.jobs.fail, {})")
    quiet.control("clock.advance", ms=1)
    [job] = quiet.control("scheduled")
    assert job["state"]["kind"] == "failed"
    assert job["state"]["error"].startswith("Uncaught Error: job failed\n    at ")
    assert notes(quiet) == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("runAfter(0, t.internal.jobs.note, { text: 5 })", "ArgumentValidationError: Value does not match validator."),
        ("runAfter(0, t.api.jobs.ask, {})", "Unsupported function type"),
    ],
)
def test_bad_arguments_and_queries_fail_when_they_run(quiet: Core, call: str, error: str) -> None:
    schedule(quiet, call)
    quiet.control("clock.advance", ms=1)
    assert quiet.control("scheduled")[0]["state"]["error"].startswith(error)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("runAfter(0, t.internal.none.f, {})", "Attempted to schedule function at nonexistent path: none.js"),
        (
            "runAfter(0, t.internal.jobs.none, {})",
            "Attempted to schedule function, but no exported function none found in the file: jobs.js. Did you forget to export it?",
        ),
        ("runAfter(-1, t.internal.jobs.note, {})", "`delayMs` must be non-negative"),
        ("runAt(Date.now() + 6 * 366 * 86400000, t.internal.jobs.note, {})", "is more than 5 years in the future"),
        ('cancel("garbage")', "Invalid argument `id` for `db.cancel_job`: Unable to decode ID"),
    ],
)
def test_refused_schedules(quiet: Core, call: str, text: str) -> None:
    assert text in quiet.fails("p:m", {"code": f"await ctx.scheduler.{call}"}).message
    assert quiet.control("scheduled") == []


def test_jobs_of_a_failed_mutation_vanish(quiet: Core) -> None:
    quiet.fails(
        "p:m", {"code": 'await ctx.scheduler.runAfter(0, t.internal.jobs.note, { text: "x" }); throw new Error()'}
    )
    quiet.run(
        "p:m",
        {
            "code": 'try { await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.scheduler.runAfter(0, t.internal.jobs.note, { text: "y" }); throw new Error()` }) } catch {}'
        },
    )
    quiet.control("clock.advance", ms=10)
    assert (notes(quiet), quiet.control("scheduled")) == ([], [])


def test_cancelling(quiet: Core) -> None:
    job = schedule(quiet, 'runAfter(1000, t.internal.jobs.note, { text: "x" })')
    quiet.run("p:m", {"code": "await ctx.scheduler.cancel(args)", "args": job})
    quiet.control("clock.advance", ms=2000)
    assert quiet.control("scheduled")[0]["state"] == {"kind": "canceled"}
    quiet.run("p:m", {"code": "await ctx.scheduler.cancel(args)", "args": job})
    assert notes(quiet) == []


def test_a_mutation_that_cancels_itself_is_warned_and_goes_on(quiet: Core) -> None:
    quiet.control("logs", clear=True)
    schedule(quiet, "runAfter(0, t.internal.jobs.suicidal, {})")
    quiet.control("clock.advance", ms=1)
    assert quiet.control("scheduled")[0]["state"] == {"kind": "success"}
    assert notes(quiet) == ["still here"]
    (lines,) = [entry["logLines"] for entry in quiet.control("logs") if entry["function"] == "jobs:suicidal"]
    assert len(lines) == 1
    assert lines[0].startswith("[WARN]")
    assert "A mutation cannot cancel itself" in lines[0]


def test_an_action_that_cancels_itself_goes_on_and_what_it_schedules_is_canceled(quiet: Core) -> None:
    schedule(quiet, "runAfter(0, t.internal.jobs.quitter, {})")
    quiet.control("clock.advance", ms=1000)
    assert [(job["name"], job["state"]["kind"]) for job in quiet.control("scheduled")] == [
        ("jobs.js:quitter", "canceled"),
        ("jobs.js:note", "canceled"),
    ]
    assert notes(quiet) == ["went on"]


def test_a_scheduled_mutation_sees_itself_in_progress(quiet: Core) -> None:
    schedule(quiet, "runAfter(0, t.internal.jobs.self, {})")
    quiet.control("clock.advance", ms=1)
    assert notes(quiet) == ["inProgress"]


def test_actions_are_scheduled_and_sleep_on_the_clock(quiet: Core) -> None:
    schedule(quiet, "runAfter(0, t.internal.jobs.act, {})")
    schedule(quiet, "runAfter(0, t.internal.jobs.sleepy, {})")
    quiet.control("clock.advance", ms=29_000)
    assert notes(quiet) == ["from action"]
    assert [job["state"]["kind"] for job in quiet.control("scheduled")] == ["success", "inProgress"]
    quiet.control("clock.advance", ms=1000)
    assert notes(quiet) == ["from action", "woke"]


def test_scheduled_functions_run_without_identity_and_by_the_real_clock(fresh: Core) -> None:
    fresh.run(
        "p:m",
        {
            "code": "await ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: `await ctx.db.insert('who', { is: await ctx.auth.getUserIdentity() })` })"
        },
        identity={"issuer": "https://i", "subject": "s"},
    )
    assert fresh.control("idle") == {"idle": True}
    assert [row["is"] for row in fresh.control("list", table="who")["documents"]] == [None]


def test_finished_jobs_are_removed_after_seven_days(quiet: Core) -> None:
    schedule(quiet, 'runAfter(0, t.internal.jobs.note, { text: "x" })')
    quiet.control("clock.advance", ms=7 * DAY - 1000)
    assert len(quiet.control("scheduled")) == 1
    quiet.control("clock.advance", ms=2000)
    assert quiet.control("scheduled") == []


def runs(app: Core, name: str) -> list[str]:
    return [
        datetime.fromtimestamp(run["scheduledFor"] / 1000, UTC).strftime("%m-%d %H:%M")
        for run in app.control("cronRuns")
        if run["name"] == name
    ]


def test_crons_run_on_their_dates(fresh: Core) -> None:
    fresh.control("clock.start", time=START)
    fresh.control("clock.advance", ms=27 * DAY)
    assert runs(fresh, "nightly")[:2] == ["01-05 13:00", "01-06 13:00"]
    assert len(runs(fresh, "nightly")) == 27
    assert runs(fresh, "often")[:3] == ["01-05 12:59", "01-05 18:59", "01-06 00:59"]
    assert runs(fresh, "last") == ["01-31 00:30"]
    assert runs(fresh, "weekday")[:5] == ["01-06 09:15", "01-07 09:15", "01-08 09:15", "01-09 09:15", "01-12 09:15"]
    assert runs(fresh, "sunday") == ["01-11 08:05", "01-18 08:05", "01-25 08:05", "02-01 08:05"]
    assert {run["status"]["type"] for run in fresh.control("cronRuns") if run["name"] == "sunday"} == {"err"}


def test_crons_are_listed_for_the_dashboard(fresh: Core) -> None:
    rows = fresh.run("_system/frontend/listCronJobs", identity="admin")
    by_name = {row["name"]: row for row in rows}
    assert by_name["nightly"]["cronSpec"]["udfPath"] == "jobs.js:note"
    assert by_name["weekday"]["cronSpec"]["cronSchedule"] == {"type": "cron", "cronExpr": "15 9 * * MON-FRI"}
    assert set(by_name["nightly"]["nextRun"]["nextTs"]) == {"$integer"}


def test_the_clock_moves_only_forward_and_only_when_started(fresh: Core) -> None:
    from .support.core import ControlError

    with pytest.raises(ControlError, match=r"clock\.start must come before"):
        fresh.control("clock.advance", ms=1)
    fresh.control("clock.start", time=START)
    with pytest.raises(ControlError, match="only moves forward"):
        fresh.control("clock.advance", ms=-1)
    assert fresh.run("p:q", {"code": "return Date.now()"}) == START
    assert fresh.run("p:a", {"code": "return Date.now()"}) == START
