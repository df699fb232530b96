# ruff: noqa: E501 - programs stay on one line
"""What the runner prepares between calls, and what a reset leaves of calls under way, is never seen by the next call."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.process_tree import wait_until

from .support.core import Core, FunctionError
from .support.programs import PROGRAMS

FILES = {
    "p.ts": PROGRAMS,
    "early.ts": """
        import { query } from "./_generated/server";
        console.log("imported with", process.env.NAME);
        const loaded = [Date.now(), Math.random(), process.env.NAME ?? null];
        const state = { calls: 0 };
        export const look = query({ args: {}, handler: async () => [++state.calls, loaded, Math.random()] });
        export const throws = query({ args: {}, handler: async () => { state.calls = 10; throw new Error("on purpose"); } });
    """,
    "other.ts": """
        import { query } from "./_generated/server";
        let calls = 100;
        export const look = query({ args: {}, handler: async () => ++calls });
    """,
    "loose.ts": """
        import { query } from "./_generated/server";
        let late = 0;
        void Promise.resolve().then(() => { late += 1; });
        export const look = query({ args: {}, handler: async () => { await Promise.resolve(); return late; } });
    """,
}


def set_variable(core: Core, value: str) -> None:
    changes = {"changes": [{"name": "NAME", "value": value}]}
    assert core.post("/api/update_environment_variables", changes, core.key).status == 200


def test_every_call_begins_with_a_module_of_its_own(fresh: Core) -> None:
    answers = [fresh.call("early:look") for _ in range(6)]
    assert [answer["logLines"] for answer in answers] == [["[LOG] 'imported with' undefined"]] * 6
    assert [answer["value"][0] for answer in answers] == [1] * 6
    assert len({tuple(answer["value"][1]) for answer in answers}) == 1
    assert len({answer["value"][2] for answer in answers}) == 6


def test_modules_take_turns(fresh: Core) -> None:
    wanted = [
        "early:look",
        "other:look",
        "other:look",
        "other:look",
        "early:look",
        "early:look",
        "early:look",
        "other:look",
    ]
    firsts = [fresh.run(path) for path in wanted]
    assert [first if isinstance(first, int) else first[0] for first in firsts] == [1, 101, 101, 101, 1, 1, 1, 101]
    assert [fresh.run("loose:look") for _ in range(4)] == [1] * 4


def test_variables_are_those_of_the_moment(fresh: Core) -> None:
    for value in ("one", "two", "three"):
        set_variable(fresh, value)
        for _ in range(3):
            answer = fresh.call("early:look")
            assert (answer["value"][1][2], answer["logLines"]) == (value, [f"[LOG] 'imported with' '{value}'"])


def test_a_call_that_fails_leaves_nothing(fresh: Core) -> None:
    for _ in range(3):
        assert "on purpose" in fresh.fails("early:throws").detail
        assert fresh.run("early:look")[0] == 1


SLEEPS = "await new Promise((r) => setTimeout(r, 300)); await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert('t', {})` })"


@pytest.mark.parametrize(
    "code", [SLEEPS, "for (;;);", "await new Promise(() => {})"], ids=["asleep", "busy", "for ever"]
)
def test_an_action_that_a_reset_interrupts_is_never_heard_of_again(fresh: Core, code: str) -> None:
    failed: list[FunctionError] = []
    begun = "await ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert('begun', {})` }); "
    caller = threading.Thread(target=lambda: failed.append(fresh.fails("p:a", {"code": begun + code})))
    caller.start()
    wait_until(lambda: fresh.run("p:q", {"code": "return await ctx.db.query('begun').first()"}), "the action has begun")
    fresh.control("reset")
    caller.join()
    assert len(failed) == 1
    assert fresh.run("p:a", {"code": "return 7"}) == 7
    time.sleep(0.5)
    assert fresh.run("p:q", {"code": "return (await ctx.db.query('t').collect()).length"}) == 0


def test_mutations_under_way_end_with_a_reset(fresh: Core) -> None:
    code = "for (let i = 0; i < 3000; i++) await ctx.db.insert('t', { i })"
    outcomes: list[str] = []

    def insert() -> None:
        try:
            fresh.run("p:m", {"code": code})
            outcomes.append("done")
        except FunctionError:
            outcomes.append("failed")

    callers = [threading.Thread(target=insert) for _ in range(3)]
    for caller in callers:
        caller.start()
    time.sleep(0.1)
    fresh.control("reset")
    for caller in callers:
        caller.join()
    assert len(outcomes) == 3
    count = fresh.run("p:q", {"code": "return (await ctx.db.query('t').collect()).length"})
    assert count % 3000 == 0
    assert fresh.run("p:m", {"code": "return 1"}) == 1
