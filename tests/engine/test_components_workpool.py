# ruff: noqa: E501 - programs in tables stay on one line
"""@convex-dev/workpool: queues of mutations and actions, their order, retries and ends, on the clock."""

from itertools import pairwise
from typing import Any

import pytest

from .support.core import Core

PROJECT = "workpool"
START = 1_800_000_000_000
DONE = "onComplete: t.internal.project.completed"


@pytest.fixture
def timed(fresh: Core) -> Core:
    fresh.control("clock.start", time=START)
    return fresh


def enqueue(app: Core, code: str) -> Any:
    return app.run("p:m", {"code": f"return await t.{code}"})


def notes(app: Core) -> list[tuple[str, float]]:
    return [(row["text"], row["at"] - START) for row in app.control("list", table="notes")["documents"]]


def results(app: Core) -> dict[str, dict[str, Any]]:
    return {row["context"]: row["result"] for row in app.control("list", table="results")["documents"]}


def status(app: Core, pool: str, *ids: str) -> list[str]:
    found = app.run("p:q", {"code": f"return await t.{pool}.statusBatch(ctx, args)", "args": list(ids)})
    return [one["state"] for one in found]


def test_mutations_run_and_report(timed: Core) -> None:
    ok = enqueue(
        timed, f"two.enqueueMutation(ctx, t.internal.project.note, {{ text: 'hello' }}, {{ {DONE}, context: 'ok' }})"
    )
    bad = enqueue(
        timed, f"two.enqueueMutation(ctx, t.internal.project.note, {{ text: 'fail' }}, {{ {DONE}, context: 'bad' }})"
    )
    timed.control("clock.advance", ms=10_000)
    assert [text for text, _ in notes(timed)] == ["hello"], "what failed was undone"
    assert results(timed)["ok"] == {"kind": "success", "returnValue": 5}
    assert results(timed)["bad"]["kind"] == "failed"
    assert "no such note" in results(timed)["bad"]["error"]
    assert status(timed, "two", ok, bad) == ["finished", "finished"]


def test_queries_and_actions_return_values(timed: Core) -> None:
    enqueue(timed, f"many.enqueueQuery(ctx, t.internal.project.count, {{ text: 'x' }}, {{ {DONE}, context: 'query' }})")
    enqueue(
        timed,
        f"many.enqueueAction(ctx, t.internal.project.slow, {{ name: 'a', ms: 0 }}, {{ {DONE}, context: 'action' }})",
    )
    timed.control("clock.advance", ms=10_000)
    assert results(timed) == {
        "query": {"kind": "success", "returnValue": 0},
        "action": {"kind": "success", "returnValue": "a"},
    }


def test_no_more_run_at_once_than_the_pool_allows(timed: Core) -> None:
    for name in "abcde":
        enqueue(
            timed,
            f"two.enqueueAction(ctx, t.internal.project.slow, {{ name: '{name}', ms: 20_000 }}, {{ {DONE}, context: '{name}' }})",
        )
    timed.control("clock.advance", ms=120_000)
    running = most = 0
    for text, _ in notes(timed):
        running += 1 if text.endswith("begins") else -1
        most = max(most, running)
    assert (most, running) == (2, 0)
    assert sorted(results(timed)) == list("abcde")
    times = dict(notes(timed))
    assert times["e begins"] >= times["b ends"] >= 20_000


def test_a_wide_pool_runs_them_together(timed: Core) -> None:
    names = ", ".join(f"{{ name: '{name}', ms: 20_000 }}" for name in "abcde")
    ids = enqueue(timed, f"many.enqueueActionBatch(ctx, t.internal.project.slow, [{names}])")
    timed.control("clock.advance", ms=10_000)
    assert status(timed, "many", *ids) == ["running"] * 5
    timed.control("clock.advance", ms=20_000)
    assert status(timed, "many", *ids) == ["finished"] * 5
    begins = [at for text, at in notes(timed) if text.endswith("begins")]
    ends = [at for text, at in notes(timed) if text.endswith("ends")]
    assert max(begins) < min(ends)


def test_failed_actions_are_tried_again_with_growing_pauses(timed: Core) -> None:
    enqueue(
        timed,
        f"two.enqueueAction(ctx, t.internal.project.flaky, {{ name: 'third', failures: 2 }}, {{ {DONE}, context: 'third' }})",
    )
    enqueue(
        timed,
        f"two.enqueueAction(ctx, t.internal.project.flaky, {{ name: 'never', failures: 99 }}, {{ {DONE}, context: 'never' }})",
    )
    enqueue(
        timed,
        f"two.enqueueAction(ctx, t.internal.project.flaky, {{ name: 'once', failures: 99 }}, {{ {DONE}, context: 'once', retry: false }})",
    )
    enqueue(
        timed,
        f"two.enqueueAction(ctx, t.internal.project.flaky, {{ name: 'final', failures: 0, final: true }}, {{ {DONE}, context: 'final' }})",
    )
    timed.control("clock.advance", ms=60_000)
    found = results(timed)
    assert found["third"] == {"kind": "success", "returnValue": 3}
    assert {name: found[name]["kind"] for name in ("never", "once", "final")} == dict.fromkeys(
        ("never", "once", "final"), "failed"
    )
    assert "attempt 4" in found["never"]["error"]
    assert found["final"]["error"] == "never again"
    tries = [at for text, at in notes(timed) if text == "never"]
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert len(pauses) == 3
    assert all(base * 500 <= pause for base, pause in zip((1, 2, 4), pauses, strict=True))
    texts = [text for text, _ in notes(timed)]
    assert (texts.count("once"), texts.count("final")) == (1, 1)


def test_work_that_is_canceled_before_it_starts_never_runs(timed: Core) -> None:
    later = enqueue(
        timed,
        f"two.enqueueMutation(ctx, t.internal.project.note, {{ text: 'later' }}, {{ {DONE}, context: 'later', runAfter: 30_000 }})",
    )
    kept = enqueue(timed, "two.enqueueMutation(ctx, t.internal.project.note, { text: 'kept' }, { runAfter: 30_000 })")
    timed.control("clock.advance", ms=10_000)
    assert status(timed, "two", later, kept) == ["pending", "pending"]
    enqueue(timed, f"two.cancel(ctx, '{later}')")
    timed.control("clock.advance", ms=5_000)
    assert results(timed) == {"later": {"kind": "canceled"}}
    timed.control("clock.advance", ms=30_000)
    assert [(text, at >= 30_000) for text, at in notes(timed)] == [("kept", True)]


def test_everything_can_be_canceled(timed: Core) -> None:
    args = ", ".join("{ text: 'x' }" for _ in range(10))
    ids = enqueue(timed, f"many.enqueueMutationBatch(ctx, t.internal.project.note, [{args}], {{ runAfter: 60_000 }})")
    timed.control("clock.advance", ms=1)
    enqueue(timed, "many.cancelAll(ctx, { limit: 4 })")
    timed.control("clock.advance", ms=120_000)
    assert notes(timed) == []
    assert status(timed, "many", *ids) == ["finished"] * 10


def test_a_retry_stops_when_it_is_canceled(timed: Core) -> None:
    work = enqueue(
        timed,
        f"two.enqueueAction(ctx, t.internal.project.flaky, {{ name: 'x', failures: 99 }}, {{ {DONE}, context: 'x', retry: {{ maxAttempts: 9, initialBackoffMs: 60_000, base: 2 }} }})",
    )
    timed.control("clock.advance", ms=5_000)
    assert status(timed, "two", work) == ["pending"]
    enqueue(timed, f"two.cancel(ctx, '{work}')")
    timed.control("clock.advance", ms=600_000)
    assert results(timed) == {"x": {"kind": "canceled"}}
    assert len(notes(timed)) == 1


def test_work_of_a_failed_mutation_is_never_queued(timed: Core) -> None:
    timed.fails(
        "p:m",
        {"code": "await t.two.enqueueMutation(ctx, t.internal.project.note, { text: 'x' }); throw new Error('no')"},
    )
    timed.control("clock.advance", ms=10_000)
    assert notes(timed) == []
    assert timed.control("scheduled") == []


def test_pools_are_instances_of_their_own(timed: Core) -> None:
    enqueue(timed, "many.enqueueMutation(ctx, t.internal.project.note, { text: 'x' }, { runAfter: 60_000 })")
    assert len(timed.control("list", table="work", component="many")["documents"]) == 1
    assert timed.control("list", table="work", component="two")["documents"] == []
    paths = [component["path"] for component in timed.control("components")]
    assert paths == ["", "many", "many/batchWorker", "two", "two/batchWorker"]
