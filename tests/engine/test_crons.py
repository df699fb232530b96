# ruff: noqa: E501 - programs in tables stay on one line
"""Cron jobs on the virtual clock: a year and more against dates written by hand, first runs, overlap, changes by a push."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler

JOBS = """
    import { internalMutation, internalAction, mutation } from "./_generated/server";
    import { internal } from "./_generated/api";
    import { v } from "convex/values";
    export const tick = internalMutation({ args: {}, handler: async () => 1 });
    export const note = mutation({ args: { n: v.any() }, handler: async (ctx, { n }) => { console.log("noted", n); await ctx.db.insert("notes", { n, who: await ctx.auth.getUserIdentity() }); } });
    export const slow = internalAction({ args: { ms: v.number() }, handler: async (ctx, { ms }) => { await new Promise((r) => setTimeout(r, ms)); await ctx.runMutation(internal.jobs.note, { n: "slow" } as any); } });
    export const fail = internalMutation({ args: {}, handler: async (ctx) => { await ctx.db.insert("notes", { n: "lost" }); throw new Error("cron failed"); } });
"""
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def crons(body: str) -> dict[str, str]:
    head = 'import { cronJobs } from "convex/server"; import { api, internal } from "./_generated/api"; const crons = cronJobs();'
    return {"p.ts": PROGRAMS, "jobs.ts": JOBS, "crons.ts": f"{head} {body} export default crons;"}


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def shown(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.fixture(scope="module")
def engine() -> Iterator[Core]:
    running = Core()
    yield running
    running.close()


class Crons:
    """A deployment whose crons are pushed anew, each time on a clock of its own."""

    def __init__(self, core: Core, bundler: Bundler) -> None:
        self.core, self.bundler = core, bundler

    def begin(self, body: str, start: str) -> None:
        self.push(body)
        self.core.control("clock.start", time=moment(start))

    def push(self, body: str) -> None:
        self.bundler.push(self.core, crons(body))

    def advance(self, ms: int) -> None:
        self.core.control("clock.advance", ms=ms, deadline=55_000)

    def runs(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.core.control("cronRuns") if run["name"] == name]

    def dates(self, name: str) -> list[str]:
        return [shown(run["scheduledFor"]) for run in self.runs(name)]

    def next(self, name: str) -> str:
        return next(shown(job["nextRun"]) for job in self.core.control("crons") if job["name"] == name)

    def notes(self) -> list[Any]:
        return [row["n"] for row in self.core.control("list", table="notes")["documents"]]


@pytest.fixture
def deployed(engine: Core, bundler: Bundler) -> Crons:
    engine.control("wipe")
    return Crons(engine, bundler)


YEAR = {
    'monthly("day 31", { day: 31, hourUTC: 0, minuteUTC: 30 }, internal.jobs.tick)': [
        "2023-12-31 00:30",
        "2024-01-31 00:30",
        "2024-03-31 00:30",
        "2024-05-31 00:30",
        "2024-07-31 00:30",
        "2024-08-31 00:30",
        "2024-10-31 00:30",
        "2024-12-31 00:30",
        "2025-01-31 00:30",
    ],
    'monthly("day 29", { day: 29, hourUTC: 23, minuteUTC: 59 }, internal.jobs.tick)': [
        "2023-12-29 23:59",
        *(f"2024-{month:02}-29 23:59" for month in range(1, 13)),
        "2025-01-29 23:59",
    ],
    'cron("29 February", "0 12 29 2 *", internal.jobs.tick)': ["2024-02-29 12:00"],
    'cron("month ends", "0 0 L * *", internal.jobs.tick)': [
        "2023-12-31 00:00",
        "2024-01-31 00:00",
        "2024-02-29 00:00",
        "2024-03-31 00:00",
        "2024-04-30 00:00",
        "2024-05-31 00:00",
        "2024-06-30 00:00",
        "2024-07-31 00:00",
        "2024-08-31 00:00",
        "2024-09-30 00:00",
        "2024-10-31 00:00",
        "2024-11-30 00:00",
        "2024-12-31 00:00",
        "2025-01-31 00:00",
        "2025-02-28 00:00",
    ],
    'cron("first weekdays", "30 6 1W * *", internal.jobs.tick)': [
        "2024-01-01 06:30",
        "2024-02-01 06:30",
        "2024-03-01 06:30",
        "2024-04-01 06:30",
        "2024-05-01 06:30",
        "2024-06-03 06:30",
        "2024-07-01 06:30",
        "2024-08-01 06:30",
        "2024-09-02 06:30",
        "2024-10-01 06:30",
        "2024-11-01 06:30",
        "2024-12-02 06:30",
        "2025-01-01 06:30",
        "2025-02-03 06:30",
    ],
    'cron("fifth Fridays", "0 8 * * FRI#5", internal.jobs.tick)': [
        "2023-12-29 08:00",
        "2024-03-29 08:00",
        "2024-05-31 08:00",
        "2024-08-30 08:00",
        "2024-11-29 08:00",
        "2025-01-31 08:00",
    ],
    'cron("quarters", "15 4 1 1,4,7,10 *", internal.jobs.tick)': [
        "2024-01-01 04:15",
        "2024-04-01 04:15",
        "2024-07-01 04:15",
        "2024-10-01 04:15",
        "2025-01-01 04:15",
    ],
}
COUNTED = {
    'weekly("Mondays", { dayOfWeek: "monday", hourUTC: 9, minuteUTC: 5 }, internal.jobs.tick)': (61, "2024-01-01 09:05", "2025-02-24 09:05"),
    'daily("days", { hourUTC: 3, minuteUTC: 0 }, internal.jobs.tick)': (430, "2023-12-27 03:00", "2025-02-28 03:00"),
    'interval("weeks", { hours: 168 }, internal.jobs.tick)': (62, "2023-12-27 00:00", "2025-02-26 00:00"),
    'cron("13th or Friday", "0 8 13 * FRI", internal.jobs.tick)': (74, "2023-12-29 08:00", "2025-02-28 08:00"),
}  # fmt: skip
"""430 days from 27 December 2023: 5 of 2023, 366 of 2024, 59 of 2025. 62 Fridays, and 14 days 13 of which 2 are Fridays."""


def test_more_than_a_year_across_a_leap_day_and_month_ends(deployed: Crons) -> None:
    deployed.begin("".join(f"crons.{job};" for job in [*YEAR, *COUNTED]), "2023-12-27T00:00:00")
    for _ in range(10):
        deployed.advance(43 * DAY)
    assert shown(deployed.core.control("clock.now")["now"]) == "2025-03-01 00:00"
    for job, dates in YEAR.items():
        assert deployed.dates(job.split('"')[1]) == dates, job
    for job, (count, first, last) in COUNTED.items():
        found = deployed.dates(job.split('"')[1])
        assert (len(found), found[0], found[-1]) == (count, first, last), job
    assert deployed.next("29 February") == "2028-02-29 12:00"
    assert deployed.next("day 31") == "2025-03-31 00:30"
    assert {run["status"]["type"] for run in deployed.core.control("cronRuns")} == {"success"}


def test_runs_of_several_crons_come_in_the_order_they_fall_due(deployed: Crons) -> None:
    body = "".join(f'crons.cron("c{n}", "{(n * 7) % 60} * * * *", api.jobs.note, {{ n: {n} }});' for n in range(12))
    deployed.begin(body, "2024-02-29T23:00:00")
    deployed.advance(HOUR)
    assert deployed.notes() == sorted(range(12), key=lambda n: (n * 7) % 60)


FIRST = {
    "an interval runs at once, then on a grid": ('interval("c", { minutes: 30 }, internal.jobs.tick)', 95 * MINUTE, ["12:10", "12:40", "13:10", "13:40"]),
    "an hour with its minute": ('hourly("c", { minuteUTC: 5 }, internal.jobs.tick)', 3 * HOUR, ["13:05", "14:05", "15:05"]),
    "a minute that is now begins within it": ('cron("c", "10 12 * * *", internal.jobs.tick)', MINUTE, ["12:10"]),
    "a public function with arguments": ('daily("c", { hourUTC: 13, minuteUTC: 0 }, api.jobs.note, { n: 1 })', DAY, ["13:00"]),
}  # fmt: skip


@pytest.mark.parametrize(("job", "ms", "times"), FIRST.values(), ids=FIRST.keys())
def test_first_runs(deployed: Crons, job: str, ms: int, times: list[str]) -> None:
    deployed.begin(f"crons.{job};", "2024-03-05T12:10:00")
    deployed.advance(ms)
    assert [text.split()[1] for text in deployed.dates("c")] == times


def test_without_a_minute_an_hour_has_one_run_at_a_fixed_offset(deployed: Crons) -> None:
    deployed.begin(
        'crons.hourly("c", internal.jobs.tick); crons.daily("d", { hourUTC: 5 }, internal.jobs.tick);',
        "2024-03-05T00:00:00",
    )
    deployed.advance(2 * DAY)
    times = [run["scheduledFor"] for run in deployed.runs("c")]
    assert {later - sooner for sooner, later in pairwise(times)} == {HOUR}
    assert [text[:13] for text in deployed.dates("d")] == ["2024-03-05 05", "2024-03-06 05"]
    deployed.core.control("clock.start", time=moment("2024-03-05T00:00:00"))
    deployed.advance(2 * DAY)
    assert [run["scheduledFor"] for run in deployed.runs("c")] == times, "runs repeat from one deployment to the next"


def test_a_pinned_minute_has_an_offset_of_less_than_a_minute(deployed: Crons) -> None:
    deployed.begin(
        "".join(f'crons.cron("c{n}", "0 0 * * *", internal.jobs.tick);' for n in range(8)), "2024-03-05T12:00:00"
    )
    deployed.advance(DAY)
    offsets = {run["scheduledFor"] - moment("2024-03-06T00:00:00") for run in deployed.core.control("cronRuns")}
    assert all(0 <= offset < MINUTE for offset in offsets)
    assert len(offsets) > 1


def test_an_interval_that_takes_longer_than_its_period_skips_what_it_missed(deployed: Crons) -> None:
    deployed.begin('crons.interval("c", { seconds: 10 }, internal.jobs.slow, { ms: 25_000 });', "2024-03-05T12:00:00")
    deployed.advance(61_000)
    found = [
        ((run["scheduledFor"] - moment("2024-03-05T12:00:00")) / 1000, run["status"]["type"])
        for run in deployed.runs("c")
    ]
    assert found == [(0, "success"), (10, "canceled"), (30, "success"), (40, "canceled")]
    skipped = deployed.runs("c")[1]
    assert skipped["status"] == {"type": "canceled", "skipped": 2}
    assert "Skipping 2 run(s)" in skipped["logLines"][0]
    rows = deployed.core.run("_system/frontend/listCronJobRuns", identity="admin")
    statuses = [row["status"] for row in rows]
    assert {"type": "canceled", "num_canceled": {"$integer": "AgAAAAAAAAA="}} in statuses
    [job] = deployed.core.run("_system/frontend/listCronJobs", identity="admin")
    assert job["nextRun"]["state"] == {"type": "inProgress"}, "the third run began at sixty seconds"


def test_other_schedules_drop_what_they_missed_without_a_word(deployed: Crons) -> None:
    deployed.begin('crons.cron("c", "* * * * *", internal.jobs.slow, { ms: 150_000 });', "2024-03-05T12:00:00")
    deployed.advance(8 * MINUTE)
    assert deployed.dates("c") == ["2024-03-05 12:00", "2024-03-05 12:03"] or deployed.dates("c") == [
        "2024-03-05 12:00",
        "2024-03-05 12:03",
        "2024-03-05 12:06",
    ]
    assert {run["status"]["type"] for run in deployed.runs("c")} == {"success"}


def test_a_failing_cron_keeps_its_cadence_and_its_error(deployed: Crons) -> None:
    deployed.begin(
        'crons.interval("c", { hours: 1 }, internal.jobs.fail); crons.interval("bad", { hours: 1 }, api.jobs.note, {} as any);',
        "2024-03-05T12:00:00",
    )
    deployed.advance(2 * HOUR)
    assert [run["status"]["error"].split("\n")[0] for run in deployed.runs("c")] == ["Uncaught Error: cron failed"] * 3
    assert all("ArgumentValidationError" in run["status"]["error"] for run in deployed.runs("bad"))
    assert deployed.notes() == []


def test_crons_run_without_identity_and_keep_their_logs(deployed: Crons) -> None:
    deployed.begin('crons.interval("c", { hours: 1 }, api.jobs.note, { n: "x" });', "2024-03-05T12:00:00")
    deployed.advance(6 * HOUR)
    assert [row["who"] for row in deployed.core.control("list", table="notes")["documents"]] == [None] * 7
    assert deployed.runs("c")[0]["logLines"] == ["[LOG] 'noted' 'x'"]
    assert len(deployed.core.run("_system/frontend/listCronJobRuns", identity="admin")) == 5


def test_a_cron_that_conflicts_with_clients_runs_in_the_end(engine: Core, bundler: Bundler) -> None:
    """In real time, beside mutations that change what it reads."""
    engine.control("wipe")
    count = """import { internalMutation } from "./_generated/server";
        export const add = internalMutation({ args: {}, handler: async (ctx) => { const row = await ctx.db.query("notes").first(); for (let i = 0; i < 200; i++) await ctx.db.query("notes").first(); if (row) await ctx.db.patch(row._id, { cron: (row.cron ?? 0) + 1 }); } });"""
    files = crons('crons.interval("c", { seconds: 1 }, internal.count.add);') | {"count.ts": count}
    bundler.push(engine, {key: text for key, text in files.items() if key != "crons.ts"})
    engine.control("insert", table="notes", documents=[{"n": 0}])
    bundler.push(engine, files)
    change = 'const row = await ctx.db.query("notes").first(); await ctx.db.patch(row._id, { n: row.n + 1 })'
    conflicts, end, done = engine.control("stats")["conflicts"], time.monotonic() + 60, 0
    while engine.control("stats")["conflicts"] < conflicts + 8:
        assert time.monotonic() < end, "nothing conflicts"
        engine.run("p:m", {"code": change})
        done += 1
    while not (row := engine.control("list", table="notes")["documents"][0]).get("cron"):
        assert time.monotonic() < end, "the cron never ran"
        time.sleep(0.05)
    assert row["n"] == done
    assert {run["status"]["type"] for run in engine.control("cronRuns")} <= {"success", "canceled"}


# ── changes by a push ────────────────────────────────────────────────────────────────────────────────────────────────

DAILY = 'crons.daily("c", { hourUTC: 18, minuteUTC: 0 }, api.jobs.note, { n: %s });'


def test_equal_crons_go_on_and_changed_arguments_keep_the_time(deployed: Crons) -> None:
    body = 'crons.interval("c", { hours: 5 }, api.jobs.note, { n: %d });'
    deployed.begin(body % 1, "2024-03-05T12:00:00")
    deployed.advance(HOUR)
    deployed.push(body % 1)
    assert deployed.next("c") == "2024-03-05 17:00"
    deployed.push(body % 2)
    assert deployed.next("c") == "2024-03-05 17:00"
    deployed.advance(4 * HOUR)
    assert deployed.notes() == [1, 2]
    assert deployed.dates("c") == ["2024-03-05 12:00", "2024-03-05 17:00"], "the history stays"


def test_a_changed_schedule_begins_as_if_new(deployed: Crons) -> None:
    deployed.begin(DAILY % 1, "2024-03-05T12:00:00")
    deployed.push('crons.interval("c", { hours: 2 }, api.jobs.note, { n: 2 });')
    deployed.advance(3 * HOUR)
    assert deployed.dates("c") == ["2024-03-05 12:00", "2024-03-05 14:00"]
    deployed.push(DAILY % 3)
    assert deployed.next("c") == "2024-03-05 18:00"


def test_a_changed_schedule_lets_a_run_of_the_next_thirty_seconds_happen(deployed: Crons) -> None:
    deployed.begin('crons.interval("c", { minutes: 10 }, api.jobs.note, { n: 1 });', "2024-03-05T12:00:00")
    deployed.advance(9 * MINUTE + 31_000)
    deployed.push(DAILY % 2)
    assert deployed.next("c") == "2024-03-05 12:10"
    deployed.advance(HOUR)
    assert deployed.notes() == [1, 2]
    assert deployed.next("c") == "2024-03-05 18:00"


def test_a_removed_cron_ends_and_comes_back_without_its_history(deployed: Crons) -> None:
    deployed.begin(DAILY % 1, "2024-03-05T12:00:00")
    deployed.advance(7 * HOUR)
    deployed.push("")
    assert (deployed.core.control("crons"), deployed.core.control("cronRuns")) == ([], [])
    deployed.advance(3 * DAY)
    deployed.push(DAILY % 2)
    assert deployed.dates("c") == []
    deployed.advance(DAY)
    assert deployed.notes() == [1, 2]


def test_a_cron_that_is_removed_while_it_runs_ends_there(deployed: Crons) -> None:
    deployed.begin('crons.interval("c", { seconds: 10 }, internal.jobs.slow, { ms: 5000 });', "2024-03-05T12:00:00")
    deployed.advance(1000)
    deployed.push("")
    deployed.advance(MINUTE)
    assert deployed.notes() == ["slow"]
    assert deployed.core.control("crons") == []


def test_components_have_their_own_crons(engine: Core, bundler: Bundler) -> None:
    engine.control("wipe")
    files = {
        "p.ts": PROGRAMS,
        "convex.config.ts": 'import { defineApp } from "convex/server"; import box from "./box/convex.config"; const app = defineApp(); app.use(box); app.use(box, { name: "twin" }); export default app;',
        "box/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("box");',
        "box/jobs.ts": JOBS,
        "box/crons.ts": crons('crons.interval("c", { hours: 1 }, api.jobs.note, { n: "in box" });')["crons.ts"],
    }
    bundler.push(engine, files)
    engine.control("clock.start", time=moment("2024-03-05T12:00:00"))
    engine.control("clock.advance", ms=2 * HOUR)
    for component in ("box", "twin"):
        assert len(engine.control("list", table="notes", component=component)["documents"]) == 3
    assert engine.control("list", table="notes")["documents"] == []
