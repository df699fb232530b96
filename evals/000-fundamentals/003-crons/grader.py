"""Crons: intervals and cron expressions, in UTC, all for one internal action with arguments of its own."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

ACTION = "displays:refresh"
JOBS = {
    "auction lots": {"display": "auction", "days": 0},
    "landing board": {"display": "landings", "days": 1},
    "gate lights": {"display": "gates", "days": 1},
    "evening prices": {"display": "prices", "days": 5},
    "quarter totals": {"display": "totals", "days": 92},
}


QUARTERS = [(1, 1, 0, 6), (1, 2, 5, 1), *((month, 1, 5, 1) for month in (2, 4, 7, 10, 12))]
"""Month, day, first hour, hours: when the totals are looked for."""


def times(app, job):
    return [datetime.fromtimestamp(run.at / 1000, UTC) for run in app.cron_runs() if run.name == job]


def weekend(app, clock, seen={}):  # noqa: B006 - simulated once, for all checks that look at it
    """When each job runs from Saturday morning until Sunday noon."""
    if not seen:
        clock.start("2026-02-28T08:30:00Z")
        clock.advance(hours=28)
        seen.update({job: times(app, job) for job in JOBS})
    return seen


def gaps(moments):
    return [later - earlier for earlier, later in pairwise(moments)]


def minutes(moments):
    """Seconds do not count: Convex spreads jobs with a time of day over the minute."""
    return [f"{moment:%a %H:%M}" for moment in moments]


def logged(app, text):
    """How often a line was logged, at any level; strings that are logged in parts have quotes of their own."""
    return sum(line.partition("] ")[2].replace("'", "") == text for line in app.logs())


def test_there_are_exactly_these_jobs_with_their_arguments(app):
    assert {job.name: job.args for job in app.crons()} == JOBS


def test_all_jobs_run_the_one_action(app):
    assert {job.name: job.function for job in app.crons()} == dict.fromkeys(JOBS, ACTION)


def test_the_action_is_for_jobs_and_operators_only(app):
    with app.refuses(ACTION):
        app.action(ACTION, {"display": "tanks", "days": 3})
    assert logged(app, "refresh tanks 3") == 0
    app.as_admin().action(ACTION, {"display": "tanks", "days": 3})


def test_the_action_logs_its_arguments(app):
    assert app.as_admin().action(ACTION, {"display": "tanks", "days": 3}) is None
    assert app.as_admin().action(ACTION, {"display": "ice", "days": 14}) is None
    assert (logged(app, "refresh tanks 3"), logged(app, "refresh ice 14")) == (1, 1)


def test_the_action_requires_both_arguments(app):
    for args in ({"display": "tanks"}, {"days": 3}, {"display": "tanks", "days": "3"}, {"display": 1, "days": 3}):
        with app.rejects("ArgumentValidationError"):
            app.as_admin().action(ACTION, args)


def test_intervals_keep_their_distance(app, clock):
    ran = weekend(app, clock)
    assert set(gaps(ran["auction lots"])) == {timedelta(minutes=90)}
    assert set(gaps(ran["landing board"])) == {timedelta(hours=7)}
    assert len(ran["landing board"]) >= 4


def test_the_gate_lights_follow_the_morning_in_lima(app, clock):
    clocks = [f"{hour:02}:{minute:02}" for hour in (9, 10, 11) for minute in (0, 20, 40)]
    assert minutes(weekend(app, clock)["gate lights"]) == [f"{day} {time}" for day in ("Sat", "Sun") for time in clocks]


def test_the_evening_prices_come_on_weekdays_of_lima(app, clock):
    ran = minutes(weekend(app, clock)["evening prices"])
    for day in range(1, 8):
        clock.start(f"2026-03-{day:02}T00:00:00Z")
        clock.advance(hours=3 if day == 3 else 2)
        ran += minutes(times(app, "evening prices"))
    assert ran == [f"{day} 01:15" for day in ("Tue", "Wed", "Thu", "Fri", "Sat")]


def test_the_totals_come_when_a_quarter_begins_in_lima(app, clock):
    ran = [f"{moment:%b %d %H:%M}" for moment in weekend(app, clock)["quarter totals"]]
    for month, day, hour, hours in QUARTERS:
        clock.start(f"2026-{month:02}-{day:02}T{hour:02}:00:00Z")
        clock.advance(hours=hours)
        ran += [f"{moment:%b %d %H:%M}" for moment in times(app, "quarter totals")]
    assert ran == [f"{month} 01 05:05" for month in ("Jan", "Apr", "Jul", "Oct")]


def test_the_runs_reach_the_action(app, clock):
    clock.start("2026-07-01T05:04:30Z")
    clock.advance(minutes=2)
    assert logged(app, "refresh totals 92") == 1
