# ruff: noqa: E501 - programs in tables stay on one line
"""Several components in one app: retried actions, registered crons, durable workflows and streamed text."""

import json
from typing import Any

import pytest

from .support.core import Core, request

PROJECT = "several"
START = 1_800_000_000_000
"""A full hour."""


@pytest.fixture
def timed(fresh: Core) -> Core:
    fresh.control("clock.start", time=START)
    return fresh


def change(app: Core, code: str, args: Any = None) -> Any:
    return app.run("p:m", {"code": f"return await t.{code}", "args": args})


def ask(app: Core, code: str, args: Any = None) -> Any:
    return app.run("p:q", {"code": f"return await t.{code}", "args": args})


def notes(app: Core) -> list[tuple[str, float]]:
    return [(row["text"], row["at"] - START) for row in app.control("list", table="notes")["documents"]]


def test_an_action_is_retried_until_it_succeeds(timed: Core) -> None:
    run = change(
        timed,
        "retrier.run(ctx, t.internal.project.flaky, { name: 'x', failures: 2 }, { onComplete: t.internal.project.ended })",
    )
    assert ask(timed, "retrier.status(ctx, args)", run) == {"type": "inProgress"}
    timed.control("clock.advance", ms=30_000)
    assert ask(timed, "retrier.status(ctx, args)", run) == {
        "type": "completed",
        "result": {"type": "success", "returnValue": 3},
    }
    times = [at for _, at in notes(timed)]
    assert len(times) == 3
    assert times[1] - times[0] >= 500
    assert [row["result"]["type"] for row in timed.control("list", table="results")["documents"]] == ["success"]


def test_an_action_is_given_up_or_canceled(timed: Core) -> None:
    failing = change(timed, "retrier.run(ctx, t.internal.project.flaky, { name: 'x', failures: 99 })")
    canceled = change(timed, "retrier.runAfter(ctx, 60_000, t.internal.project.flaky, { name: 'later', failures: 0 })")
    change(timed, "retrier.cancel(ctx, args)", canceled)
    timed.control("clock.advance", ms=120_000)
    result = ask(timed, "retrier.status(ctx, args)", failing)["result"]
    assert result["type"] == "failed"
    assert "attempt 4" in result["error"]
    assert ask(timed, "retrier.status(ctx, args)", canceled)["result"]["type"] == "canceled"
    assert [text for text, _ in notes(timed)] == ["x"] * 4


def test_crons_are_registered_while_running(timed: Core) -> None:
    change(
        timed,
        "crons.register(ctx, { kind: 'interval', ms: 60_000 }, t.internal.project.note, { text: 'minute' }, 'minutely')",
    )
    change(
        timed,
        "crons.register(ctx, { kind: 'cron', cronspec: '30 * * * *' }, t.internal.project.note, { text: 'half past' })",
    )
    assert ask(timed, "crons.get(ctx, { name: 'minutely' })")["schedule"] == {"kind": "interval", "ms": 60_000}
    timed.control("clock.advance", ms=180_000)
    assert notes(timed) == [("minute", 60_000), ("minute", 120_000), ("minute", 180_000)]
    change(timed, "crons.delete(ctx, { name: 'minutely' })")
    timed.control("clock.advance", ms=1_800_000)
    assert notes(timed)[3:] == [("half past", 1_800_000)]
    assert len(ask(timed, "crons.list(ctx)")) == 1


def test_a_workflow_goes_through_retries_sleep_and_an_event(timed: Core) -> None:
    flow = change(timed, "workflows.start(ctx, t.internal.project.trip, { name: 'ann' })")
    timed.control("clock.advance", ms=30_000)
    assert ask(timed, "workflows.status(ctx, args)", flow)["type"] == "inProgress"
    texts = [text for text, _ in notes(timed)]
    assert (texts[0], sorted(texts[1:])) == ("ann sets out", ["ann left", "ann right", "ann right"])
    timed.control("clock.advance", ms=60_000)
    change(timed, "workflows.sendEvent(ctx, { workflowId: args, name: 'arrival', value: 'Rome' })", flow)
    timed.control("clock.advance", ms=30_000)
    assert ask(timed, "workflows.status(ctx, args)", flow) == {"type": "completed", "result": "1+2 in Rome"}
    assert notes(timed)[-1][0] == "ann is in Rome"


def test_a_canceled_workflow_does_nothing_more(timed: Core) -> None:
    flow = change(timed, "workflows.start(ctx, t.internal.project.trip, { name: 'bob' })")
    timed.control("clock.advance", ms=30_000)
    change(timed, "workflows.cancel(ctx, args)", flow)
    before = len(notes(timed))
    timed.control("clock.advance", ms=300_000)
    assert ask(timed, "workflows.status(ctx, args)", flow) == {"type": "canceled"}
    assert len(notes(timed)) == before


def test_text_is_streamed_to_the_caller_and_kept(fresh: Core) -> None:
    stream = change(fresh, "streaming.createStream(ctx)")
    assert ask(fresh, "streaming.getStreamBody(ctx, args)", stream) == {"text": "", "status": "pending"}
    answer = request(f"{fresh.site}/stream", json.dumps({"id": stream}).encode(), {"Content-Type": "application/json"})
    assert (answer.status, answer.text) == (200, "One. Two! Three")
    fresh.control("idle")
    assert ask(fresh, "streaming.getStreamBody(ctx, args)", stream) == {"text": "One. Two! Three", "status": "done"}
    again = request(f"{fresh.site}/stream", json.dumps({"id": stream}).encode(), {"Content-Type": "application/json"})
    assert again.status == 205, again.text
