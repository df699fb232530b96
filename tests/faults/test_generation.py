"""Limits, money, deaths and disks: the real child against a provider on the loopback."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_convex_evals.generation.answers import Answer, leave_answer
from pytest_convex_evals.generation.client import RESTARTS
from pytest_convex_evals.generation.events import Event
from pytest_convex_evals.generation.store import GenerationStore
from pytest_convex_evals.models.prices import Price
from pytest_convex_evals.models.registry import Model
from pytest_convex_evals.records import Errored
from tests.faults.provider import Ask, Provider, Reply
from tests.support.disks import limit_files
from tests.support.generation import KEY, Child, loopback
from tests.support.process_tree import wait_until
from tests.support.suites import answer_text

TEXT = answer_text()
PRICE = Price(1e-6, 1e-5, "registry")
HELD_S = 1.5
"""Longer than a busy machine takes to bring up the next call."""


def right(ask: Ask) -> Reply:
    return Reply(TEXT)


def priced(name: str, base: str, limit: int = 10_000) -> Model:
    """A call can cost 0.1 USD and a bit, and costs 0.0046 USD."""
    return loopback(name, base, price=PRICE, output_limit=limit, max_output_tokens=limit)


class Shared:
    """One child and one provider; every test has a path of its own there, and so limits of its own."""

    def __init__(self, provider: Provider, child: Child) -> None:
        self.provider, self.child = provider, child
        self.answers: dict[str, Callable[[Ask], Reply]] = {}

    def base(self, name: str, answer: Callable[[Ask], Reply] = right) -> str:
        self.answers[name] = answer
        return f"{self.provider.root}/{name}/v1"

    def asks(self, *models: str) -> list[Ask]:
        return [ask for ask in self.provider.asks if ask.model in models]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    def answer(ask: Ask) -> Reply:
        return made.answers[ask.path](ask)

    with Provider(answer) as provider, Child(tmp_path_factory.mktemp("shared"), concurrency=1) as child:
        made = Shared(provider, child)
        yield made


def kill(child: Child) -> None:
    os.kill(child.client._process.pid, signal.SIGKILL)


def test_tickets_are_served_in_the_order_of_need_one_at_a_time_when_that_is_all_there_is(shared):
    child, model = shared.child, loopback("ordered", shared.base("order"))
    paths = [child.ask(model, f"Cell {number}.", label=f"ordered {number}") for number in range(8)]
    assert {child.outcome(path) for path in paths} == {("answer", "")}
    assert [ask.prompt for ask in shared.asks("ordered")] == [f"Cell {number}." for number in range(8)]
    assert sum(ask.model == "ordered" for ask in shared.provider.preflights) == 1


def test_calls_in_flight_are_shared_by_all_models_of_a_provider_and_held_back_by_retry_after(tmp_path):
    asked = itertools.count()
    refused: list[int] = []

    def answer(ask: Ask) -> Reply:
        if next(asked) == 0:
            refused.append(int(ask.prompt.removeprefix("Cell ").removesuffix(".")))
            said = {"message": "slow down", "type": "rate_limit_error"}
            return Reply(status=429, error=said, headers={"Retry-After": str(HELD_S)})
        # Others are held until the refusal was heard: so somebody is there whom it holds back.
        return Reply(TEXT, delay_s=0.05, before=lambda: child.wait("waiting", why="rate_limited"))

    with Provider(answer) as provider, Child(tmp_path, concurrency=3) as child:
        models = [loopback("a", provider.url), loopback("b", provider.url)]
        paths = [child.ask(models[number % 2], f"Cell {number}.", label=f"{number}") for number in range(10)]
        assert {child.outcome(path) for path in paths} == {("answer", "")}
        assert provider.most_in_flight <= 3
        child.wait("answered", 10)
        waits = child.told("waiting", why="rate_limited")
        held = paths[refused[0]]
        assert any(wait.ticket == str(held) and wait.seconds >= HELD_S for wait in waits)
        assert any(wait.ticket is None and 0 < wait.seconds <= HELD_S for wait in waits)
        record = child.submission(held).generation
        assert [(attempt.cause, attempt.status) for attempt in record.attempts] == [("rate_limited", 429)]
        assert record.attempts[0].waited_s >= HELD_S


def test_limits_per_minute_of_the_registry_hold_calls_back(shared):
    child, model = shared.child, loopback("limited", shared.base("limited"), requests_per_minute=2)
    paths = [child.ask(model, f"Cell {number}.", label=f"limited {number}") for number in range(2)]
    (wait, *_) = child.wait("waiting", why="requests_per_minute")
    assert 0 < wait.seconds <= 60
    (answered,) = child.wait("answered", model="limited")  # the first cheap call was the other one of this minute
    assert answered.ticket in map(str, paths)
    assert len(shared.asks("limited")) == 1


def test_a_wait_longer_than_anybody_waits_ends_the_cells_at_once(shared):
    def answer(ask: Ask) -> Reply:
        return Reply(status=429, error={"message": "tomorrow"}, headers={"Retry-After": "86400"})

    child, model = shared.child, loopback("tomorrow", shared.base("tomorrow", answer))
    paths = [child.ask(model, f"Cell {number}.", label=f"tomorrow {number}") for number in range(4)]
    assert {child.outcome(path) for path in paths} == {("error", "rate_limited")}
    assert len(shared.asks("tomorrow")) == 1


def test_a_key_that_is_revoked_in_the_middle_ends_the_model_without_further_calls(shared):
    def answer(ask: Ask) -> Reply:
        revoked = len(shared.asks("first", "second")) > 3
        return Reply(status=401, error={"message": "revoked", "type": "x"}) if revoked else Reply(TEXT)

    child, base = shared.child, shared.base("revoked", answer)
    paths = [child.ask(loopback("first", base), f"Cell {number}.", label=f"revoked {number}") for number in range(9)]
    outcomes = [child.outcome(path) for path in paths]
    assert outcomes == [("answer", "")] * 3 + [("error", "authentication")] * 6
    assert len(shared.asks("first")) == 4
    (stopped,) = child.wait("model_stopped", model="first")
    assert stopped.cause == "authentication"
    other = child.ask(loopback("second", base), "Cell 99.")
    assert child.outcome(other) == ("error", "authentication")
    assert len(shared.asks("second")) == 1  # another model has a call of its own


def test_a_model_that_does_not_answer_the_first_cheap_call_is_not_asked_anything_else(shared, monkeypatch):
    replies = {
        "gone": Reply(status=404, error={"message": "no such model", "code": "model_not_found"}),
        "empty": Reply("", output_tokens=0),
        "there": Reply("ready", output_tokens=1),
    }
    monkeypatch.setattr(shared.provider, "answer_preflight", lambda ask: replies[ask.model])
    child, base = shared.child, shared.base("preflight")
    paths = {
        name: [child.ask(loopback(name, base), f"Cell {number}.", label=f"{name}{number}") for number in range(2)]
        for name in replies
    }
    assert {name: [child.outcome(path) for path in mine] for name, mine in paths.items()} == {
        "gone": [("error", "unknown_model")] * 2,
        "empty": [("error", "zero_tokens")] * 2,
        "there": [("answer", "")] * 2,
    }
    assert (shared.asks("gone", "empty"), len(shared.asks("there"))) == ([], 2)
    told = {name: [(event.ok, event.cause) for event in child.wait("preflight", model=name)] for name in replies}
    assert told == {"gone": [(False, "unknown_model")], "empty": [(False, "zero_tokens")], "there": [(True, None)]}
    sent = next(ask.body for ask in shared.provider.preflights if ask.model == "there")
    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_the_budget_is_reserved_before_and_settled_after_over_all_models(tmp_path):
    with Provider(right) as provider, Child(tmp_path, concurrency=8, budget=0.23) as child:
        models = [priced("a", provider.url), priced("b", provider.url)]
        paths = [child.ask(models[number % 2], f"Cell {number}.", label=f"{number}") for number in range(40)]
        outcomes = [child.outcome(path) for path in paths]
        child.wait("answered", 40)
        # Two calls of 0.1 USD fit at once; each costs 0.0046 USD, until another 0.1 USD is no longer left.
        assert provider.most_in_flight <= 2
        bought = outcomes.count(("answer", ""))
        assert outcomes.count(("error", "budget")) == 40 - bought
        spend = child.told("spend")[-1]
        assert spend.spent_usd == pytest.approx((bought + 2) * 0.0046 - 2 * (0.0046 - 12e-6 - 2e-5), abs=1e-6)
        assert spend.spent_usd <= 0.23 < spend.spent_usd + 0.1 + 0.0046
        assert (spend.reserved_usd, spend.unknown_calls) == (0, 0)
        assert child.told("waiting", why="budget")
        assert max(event.spent_usd + event.reserved_usd for event in child.told("spend")) <= 0.23
        record = child.submission(paths[outcomes.index(("answer", ""))]).generation
        assert (record.cost_usd, record.cost_source) == (pytest.approx(0.0046), "registry")


def test_costs_come_from_the_reply_then_the_registry_then_the_map_and_are_unknown_else(shared):
    def answer(ask: Ask) -> Reply:
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        details = {
            "completion_tokens_details": {"reasoning_tokens": 60},
            "prompt_tokens_details": {"cached_tokens": 512},
        }
        more = {"cost": 0.125} if "paid" in ask.prompt else {}
        return Reply(TEXT, usage=usage | details | more, more={"provider": "Upstream"})

    child, base = shared.child, shared.base("costs", answer)
    models = {
        "paid": priced("listed", base),
        "listed": priced("listed", base),
        "mapped": loopback("gpt-4.1", base),
        "unknown": loopback("nobody-knows", base),
    }
    found = {name: child.submission(child.ask(model, name, label=name)).generation for name, model in models.items()}
    costs = {name: (record.cost_usd, record.cost_source) for name, record in found.items()}
    assert costs["paid"] == (0.125, "provider")
    assert costs["listed"] == (pytest.approx(0.002), "registry")
    assert costs["mapped"][1] == "litellm"
    assert 0 < costs["mapped"][0] < 0.01
    assert costs["unknown"] == (None, None)
    for record in found.values():
        assert (record.input_tokens, record.output_tokens) == (1000, 100)
        assert (record.reasoning_tokens, record.cached_tokens, record.served_by) == (60, 512, "Upstream")
        assert record.sent["stream_options"] == {"include_usage": True}
        assert "messages" not in record.sent
        assert record.first_token_s is not None
        assert record.first_token_s <= record.duration_s


def test_searching_is_done_by_the_provider_and_counted(shared):
    def answer(ask: Ask) -> Reply:
        return Reply(TEXT, more={"server_tool_use": {"web_search_requests": 3}} if "count" in ask.prompt else {})

    base = shared.base("search", answer).removesuffix("/v1")
    searching = loopback("claude-search", base, "anthropic", web_search=True)
    counted = shared.child.submission(shared.child.ask(searching, "Search and count.", label="counted")).generation
    silent = shared.child.submission(shared.child.ask(searching, "Search.", label="silent")).generation
    (tool,) = counted.sent["tools"]
    assert tool["name"] == "web_search"
    assert (counted.searches, silent.searches) == (3, None)


def test_a_child_that_dies_is_replaced_and_goes_on_with_what_has_no_answer(tmp_path):
    release = threading.Event()

    def answer(ask: Ask) -> Reply:
        late = ask.prompt == "Cell 2." and ask.number == 1
        return Reply(TEXT, before=(lambda: release.wait(60)) if late else None)

    with Provider(answer) as provider, Child(tmp_path, concurrency=1) as child:
        paths = [child.ask(loopback("m", provider.url), f"Cell {number}.", label=f"{number}") for number in range(5)]
        wait_until(lambda: any(ask.prompt == "Cell 2." for ask in provider.asks), "the call is there")
        child.wait("answered", 2)  # a call begins while the answer before it is on its way to the disk
        first = child.client._process.pid
        kill(child)
        assert {child.outcome(path) for path in paths} == {("answer", "")}
        release.set()
        assert child.client._process.pid != first
        child.wait("answered", 5)
        assert sorted(event.ticket for event in child.told("answered")) == sorted(map(str, paths))
        # Only the answer that was on its way is bought a second time.
        assert sorted(ask.prompt for ask in provider.asks) == [
            "Cell 0.",
            "Cell 1.",
            "Cell 2.",
            "Cell 2.",
            "Cell 3.",
            "Cell 4.",
        ]


def test_a_child_that_dies_again_and_again_is_trouble(tmp_path):
    with Provider(right) as provider:
        child, ended = Child(tmp_path), threading.Event()

        def murder() -> None:
            while not ended.wait(0.02):
                with suppress(ProcessLookupError):
                    kill(child)

        killer = threading.Thread(target=murder)
        killer.start()
        paths = [child.ask(loopback("m", provider.url), f"Cell {number}.", label=f"{number}") for number in range(2)]
        assert {child.outcome(path) for path in paths} == {("error", "generation_child")}
        ended.set()
        killer.join()
        reason = Answer.model_validate_json(paths[0].read_bytes()).trouble.reason
        assert f"died {RESTARTS + 1} times in a row" in reason
        late = child.ask(loopback("m", provider.url), "Cell 9.", label="9")
        assert child.outcome(late) == ("error", "generation_child")
        child.close()
        assert provider.asks == []


def test_a_child_that_cannot_be_replaced_is_trouble(tmp_path, monkeypatch):
    """As when this process has no file descriptor left."""
    hold = threading.Event()
    with Provider(lambda ask: Reply(TEXT, before=lambda: hold.wait(60))) as provider, Child(tmp_path) as child:
        path = child.ask(loopback("m", provider.url), "Do it.")
        wait_until(lambda: provider.asks, "the call is there")

        def none_left() -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(child.client, "_start", none_left)
        kill(child)
        assert child.outcome(path) == ("error", "generation_child")
        assert "Too many open files" in Answer.model_validate_json(path.read_bytes()).trouble.reason
        child.wait("answered", ticket=str(path), outcome="trouble")
        hold.set()
        assert child.outcome(child.ask(loopback("m", provider.url), "Late.", label="late"))[0] == "error"


def test_a_listener_with_a_defect_hears_the_next_answer_too(tmp_path):
    with Provider(right) as provider, Child(tmp_path) as child:
        hear, broken = child.client.on_progress, True

        def listen(event: Event) -> None:
            hear(event)
            if event.event == "answered" and broken:
                raise OSError("cannot send (already closed?)")

        child.client.on_progress = listen
        first = child.ask(loopback("m", provider.url), "One.", label="1")
        child.wait("answered", ticket=str(first))
        broken = False
        second = child.ask(loopback("m", provider.url), "Two.", label="2")
        child.wait("answered", ticket=str(second))
        (defect,) = child.client.defects
        assert "OSError: cannot send" in defect
        assert "in listen" in child.log()


def test_what_calls_in_flight_can_have_cost_is_spent_when_a_child_dies(tmp_path):
    release = threading.Event()
    reply = Reply(TEXT, before=lambda: release.wait(60))
    with Provider(lambda ask: reply if ask.number == 1 else Reply(TEXT)) as provider:
        with Child(tmp_path, budget=0.15) as child:
            path = child.ask(priced("m", provider.url), "Cell 1.")
            child.wait("call_started", ticket=str(path))
            kill(child)
            assert child.outcome(path) == ("error", "budget")
        release.set()
        assert len(provider.asks) <= 1  # whether it was still sent is a matter of luck


def test_programs_that_libraries_run_see_no_key(tmp_path, monkeypatch):
    """Python runs `uname` when an SDK asks for the platform, with whatever the child has in its environment."""
    seen, programs = tmp_path / "seen", tmp_path / "bin"
    programs.mkdir()
    for name in ("uname", "lsb_release"):
        (programs / name).write_text(f"#!/bin/sh\nenv >> {seen}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    with Provider(right) as provider, Child(tmp_path) as child:
        assert child.outcome(child.ask(loopback("m", provider.url), "Do it.")) == ("answer", "")
    assert "PATH=" in seen.read_text()
    assert KEY not in seen.read_text()


def test_trouble_of_an_earlier_session_is_not_an_answer(shared):
    path = shared.child.folder / "answers" / "earlier-1.json"
    leave_answer(path, Answer(trouble=Errored(cause="rate_limited", reason="yesterday")))
    assert shared.child.ask(loopback("earlier", shared.base("earlier")), "Do it.") == path
    assert shared.child.outcome(path) == ("answer", "")


def test_an_answer_of_the_first_format_is_used_again(shared):
    child, model = shared.child, loopback("old", shared.base("old"))
    record = child.submission(child.ask(model, "Do it.")).generation
    path = child.store.path(record.key)
    new = json.loads(path.read_bytes())
    known = {"key", "litellm_id", "answered_by", "parameters", "finish_reason", "input_tokens", "output_tokens"}
    known |= {"reasoning_tokens", "cached_tokens", "cost_usd", "duration_s", "reused"}
    old = {name: new[name] for name in ("call", "repeat", "text", "refusal", "response")}
    old |= {"format": 1, "record": {name: new["record"][name] for name in known}}
    path.write_text(json.dumps(old), encoding="utf-8")
    again = child.submission(child.ask(model, "Do it.", label="old again"))
    assert (again.generation.reused, again.answer_text) == (True, TEXT)
    assert len(shared.asks("old")) == 1


def test_two_tickets_for_the_same_answer_pay_once(shared):
    child, model = shared.child, loopback("twice", shared.base("twice"))
    paths = [child.ask(model, "Do it.", label=f"twice {number}") for number in range(3)]
    assert {child.outcome(path) for path in paths} == {("answer", "")}
    assert len(shared.asks("twice")) == 1


def test_a_store_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / "generations").write_text("a file where the folder should be")
    with Provider(right) as provider, Child(tmp_path) as child:
        assert child.outcome(child.ask(loopback("m", provider.url), "Do it.")) == ("error", "store_unwritable")
        assert provider.asks == provider.preflights == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a running process are set by prlimit")
def test_a_full_disk_loses_no_answer_and_buys_none(tmp_path):
    def answer(ask: Ask) -> Reply:
        return Reply(TEXT * 200, before=lambda: limit_files(child, 10_000))

    with Provider(answer) as provider, Child(tmp_path, concurrency=1) as child:
        paths = [child.ask(loopback("m", provider.url), f"Cell {number}.", label=f"{number}") for number in range(3)]
        # While it is written: it is held in memory, and nothing more is bought.
        (wait,) = child.wait("waiting", why="disk")
        assert wait.ticket == str(paths[0])
        assert not paths[0].exists()
        assert "held in memory" in child.log()
        limit_files(child, resource.RLIM_INFINITY)
        assert child.outcome(paths[0]) == ("answer", "")
        assert [child.outcome(path) for path in paths[1:]] == [("error", "disk_full")] * 2
        # Before anything is paid: it is noticed.
        limit_files(child, 10_000)
        asked = len(provider.preflights)
        assert child.outcome(child.ask(loopback("other", provider.url), "Cell 9.")) == ("error", "disk_full")
        assert (len(provider.asks), len(provider.preflights)) == (1, asked)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
def test_a_log_on_a_full_disk_costs_no_answer(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")

    def answer(ask: Ask) -> Reply:
        return Reply(TEXT * 200, before=lambda: limit_files(child, 10_000))

    with Provider(answer) as provider, Child(tmp_path, concurrency=1) as child:
        path = child.ask(priced("m", provider.url), "Do it.")
        child.wait("waiting", why="disk")
        limit_files(child, resource.RLIM_INFINITY)
        assert child.outcome(path) == ("answer", "")
        assert len(provider.asks) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
def test_an_answer_for_which_there_is_never_room_is_trouble_and_was_paid(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")

    def answer(ask: Ask) -> Reply:
        return Reply(TEXT * 200, before=lambda: limit_files(child, 10_000))

    with Provider(answer) as provider, Child(tmp_path, concurrency=1, patience={"disk_s": 0.0}) as child:
        paths = [child.ask(priced("m", provider.url), f"Cell {number}.", label=f"{number}") for number in range(2)]
        assert [child.outcome(path) for path in paths] == [("error", "disk_full")] * 2
        child.wait("answered", 2, outcome="trouble", cause="disk_full")
        assert child.told("spend")[-1].spent_usd > 0.004
        assert len(provider.asks) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of its own takes the rights of root")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_disk_without_a_byte_left_loses_no_answer(small_disk):
    filler = small_disk / "filler"

    def fill() -> None:
        with suppress(OSError), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(b"x" * 4096)

    with Provider(lambda ask: Reply(TEXT * 200, before=fill)) as provider, Child(small_disk, concurrency=1) as child:
        path = child.ask(loopback("m", provider.url), "Do it.")
        child.wait("waiting", why="disk")
        assert not child.told("answered")
        filler.unlink()
        assert child.outcome(path) == ("answer", "")
        assert (len(provider.asks), sum(provider.sold.values())) == (1, 1)


def test_errors_of_a_store_name_are_no_answers(tmp_path):
    store = GenerationStore(tmp_path)
    store.path("x").write_text('{"format": 3}', encoding="utf-8")
    assert store.has("x")
    assert store.get("x") is None
