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


def times(app, job):
    return [datetime.fromtimestamp(run.at / 1000, UTC) for run in app.cron_runs() if run.name == job]


def gaps(app, job):
    return [later - earlier for earlier, later in pairwise(times(app, job))]


def minutes(app, job):
    """Seconds do not count: Convex spreads jobs with a time of day over the minute."""
    return [f"{moment:%a %H:%M}" for moment in times(app, job)]


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
    clock.start("2026-03-04T13:07:20Z")
    clock.advance(days=2)
    assert set(gaps(app, "auction lots")) == {timedelta(minutes=90)}
    assert set(gaps(app, "landing board")) == {timedelta(hours=7)}
    assert len(times(app, "landing board")) >= 6


def test_the_gate_lights_follow_the_morning_in_lima(app, clock):
    clock.start("2026-02-28T08:30:00Z")
    clock.advance(hours=28)
    clocks = [f"{hour:02}:{minute:02}" for hour in (9, 10, 11) for minute in (0, 20, 40)]
    assert minutes(app, "gate lights") == [f"{day} {time}" for day in ("Sat", "Sun") for time in clocks]


def test_the_evening_prices_come_on_weekdays_of_lima(app, clock):
    ran = []
    for day, hours in ((1, 3), (2, 3), (3, 24), (4, 3), (5, 3), (6, 3), (7, 3)):
        clock.start(f"2026-03-{day:02}T00:00:00Z")
        clock.advance(hours=hours)
        ran += minutes(app, "evening prices")
    assert ran == [f"{day} 01:15" for day in ("Tue", "Wed", "Thu", "Fri", "Sat")]


def test_the_totals_come_when_a_quarter_begins_in_lima(app, clock):
    ran = []
    for month, hours in ((1, 30), (2, 6), (4, 6), (7, 6), (10, 6), (12, 6)):
        clock.start(f"2026-{month:02}-01T00:00:00Z")
        clock.advance(hours=hours)
        ran += [f"{moment:%b %d %H:%M}" for moment in times(app, "quarter totals")]
    assert ran == [f"{month} 01 05:05" for month in ("Jan", "Apr", "Jul", "Oct")]


def test_the_runs_reach_the_action(app, clock):
    clock.start("2026-07-01T05:04:30Z")
    clock.advance(minutes=2)
    assert logged(app, "refresh totals 92") == 1
