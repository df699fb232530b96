# ruff: noqa: E501 - programs in tables stay on one line
"""@convex-dev/migrations: batches that a component schedules through handles of the app's functions."""

from typing import Any

import pytest

from .support.core import Core

PROJECT = "migrations"


@pytest.fixture
def filled(fresh: Core) -> Core:
    fresh.control("insert", table="notes", documents=[{"n": number} for number in range(35)])
    return fresh


def notes(app: Core, field: str) -> list[Any]:
    return [row.get(field) for row in app.control("list", table="notes")["documents"]]


def status(app: Core, name: str) -> dict[str, Any]:
    code = f"return await t.migrations.getStatus(ctx, {{ migrations: [t.internal.project.{name}] }})"
    [found] = app.run("p:q", {"code": code})
    return found


def run(app: Core, path: str, **args: Any) -> Any:
    return app.run(f"project:{path}", args, identity="admin")


def test_a_migration_runs_in_batches_to_its_end(filled: Core) -> None:
    assert run(filled, "runDouble")["Status"].startswith("Migration started")
    filled.control("idle")
    assert notes(filled, "double") == [2 * number for number in range(35)]
    done = status(filled, "double")
    assert (done["state"], done["isDone"], done["processed"]) == ("success", True, 35)
    jobs = filled.control("scheduled", component="migrations")
    assert [job["state"]["kind"] for job in jobs] == ["success"] * 3
    assert len(filled.control("list", table="migrations", component="migrations")["documents"]) == 1


def test_a_second_run_does_nothing_until_it_is_reset(filled: Core) -> None:
    run(filled, "runDouble")
    filled.control("idle")
    filled.control("insert", table="notes", documents=[{"n": 100}])
    run(filled, "runDouble")
    filled.control("idle")
    assert notes(filled, "double")[-1] is None
    run(filled, "runDouble", reset=True)
    filled.control("idle")
    assert notes(filled, "double")[-1] == 200


def test_a_dry_run_shows_one_batch_and_keeps_nothing(filled: Core) -> None:
    shown = run(filled, "run", fn="project:double", dryRun=True)
    assert (shown["DryRun"], shown["processed"]) == ("No changes were committed.", 10)
    assert notes(filled, "double") == [None] * 35
    assert filled.control("list", table="migrations", component="migrations")["documents"] == []
    assert filled.control("scheduled") == []


def test_ranges_batch_sizes_and_parallel_patches(filled: Core) -> None:
    run(filled, "run", fn="project:tag", batchSize=4)
    filled.control("idle")
    assert notes(filled, "tag") == [None] * 20 + ["late"] * 15
    assert len(filled.control("scheduled", component="migrations")) == 3


def test_a_series_runs_one_after_the_other(filled: Core) -> None:
    run(filled, "runSeries")
    filled.control("idle")
    assert (status(filled, "double")["state"], status(filled, "tag")["state"]) == ("success", "success")
    assert status(filled, "double")["latestEnd"] <= status(filled, "tag")["latestStart"]
    serially = "return await t.migrations.runSerially(ctx, [t.internal.project.double, t.internal.project.fragile])"
    filled.run("p:m", {"code": serially})
    filled.control("idle")
    assert status(filled, "fragile")["state"] == "failed"


def test_a_failed_batch_is_undone_and_can_be_resumed(filled: Core) -> None:
    run(filled, "run", fn="project:fragile")
    filled.control("idle")
    failed = status(filled, "fragile")
    assert (failed["state"], failed["processed"]) == ("failed", 10)
    assert "note 15 is broken" in failed["error"]
    assert notes(filled, "tag") == ["ok"] * 10 + [None] * 25
    filled.run(
        "p:m",
        {
            "code": "const [row] = (await ctx.db.query('notes').collect()).filter((d) => d.n === 15); await ctx.db.patch(row._id, { tag: 'mended' })"
        },
    )
    run(filled, "run", fn="project:fragile")
    filled.control("idle")
    assert (status(filled, "fragile")["state"], status(filled, "fragile")["processed"]) == ("success", 35)
    assert notes(filled, "tag").count("ok") == 34


def test_a_canceled_migration_stops_and_goes_on_from_there(filled: Core) -> None:
    code = "await t.migrations.runOne(ctx, t.internal.project.double); return await t.migrations.cancel(ctx, t.internal.project.double)"
    assert filled.run("p:m", {"code": code})["state"] == "canceled"
    filled.control("idle")
    assert status(filled, "double")["state"] == "canceled"
    assert notes(filled, "double") == [2 * number for number in range(10)] + [None] * 25
    run(filled, "runDouble")
    filled.control("idle")
    assert (status(filled, "double")["state"], status(filled, "double")["processed"]) == ("success", 35)


def test_run_to_completion_from_an_action(filled: Core) -> None:
    code = "return await t.runToCompletion(ctx, t.components.migrations, t.internal.project.double, { batchSize: 8 })"
    done = filled.run("p:a", {"code": code})
    assert (done["isDone"], done["processed"]) == (True, 35)
    assert notes(filled, "double") == [2 * number for number in range(35)]
