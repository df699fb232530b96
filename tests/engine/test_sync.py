# ruff: noqa: E501 - programs in tables stay on one line
"""The sync protocol, frame by frame: versions, identities, close codes, chunks, clients that do not read."""

import base64
import json
import threading
import time
from collections.abc import Iterator

import pytest

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler
from .support.sockets import BINARY, TEXT, Frames

FILES = {
    "p.ts": PROGRAMS,
    "convex.config.ts": """
        import { defineApp } from "convex/server";
        import part from "./part/convex.config";
        const app = defineApp(); app.use(part); export default app;
    """,
    "part/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("part");',
    "part/inner.ts": """
        import { query } from "./_generated/server";
        export const say = query({ args: {}, handler: async () => "part" });
    """,
}
COUNT = {"code": "return (await ctx.db.query('t').collect()).length"}
INSERT = {"code": "return await ctx.db.insert('t', {})"}
WHO = {"code": "return (await ctx.auth.getUserIdentity())?.subject ?? null"}
ANN = {"issuer": "https://i", "subject": "ann"}


def admin(app: Core, base: int = 0, **more: object) -> dict:
    return {"type": "Authenticate", "baseVersion": base, "tokenType": "Admin", "value": app.key, **more}


@pytest.fixture(scope="module")
def quiet() -> Iterator[Frames]:
    """A connection on which nothing is said while the other tests run, to a core where nothing happens."""
    core = Core()
    with Frames(core) as socket:
        yield socket
    core.close()


@pytest.fixture(autouse=True)
def opened_early(quiet: Frames) -> None:
    """The quiet connection is there from the first test on."""


# ── messages that are refused ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("{", "Received Invalid JSON on websocket:"),
        ('{"type": "Nonsense"}', 'Received Invalid JSON on websocket: unknown type "Nonsense"'),
        (
            '{"type": "Action", "requestId": 0, "udfPath": "!", "args": [{}]}',
            "Received Invalid JSON on websocket: ! is not a valid path to a Convex function.",
        ),
        (
            '{"type": "Mutation", "requestId": 0, "udfPath": "", "args": [{}]}',
            "Received Invalid JSON on websocket:  is not a valid path to a Convex function.",
        ),
        (
            '{"type": "ModifyQuerySet", "baseVersion": 0, "newVersion": 1, "modifications": [{"type": "Add", "queryId": 0, "udfPath": "a b:c", "args": [{}]}]}',
            "Received Invalid JSON on websocket: a b:c is not a valid path to a Convex function.",
        ),
        (
            '{"type": "Action", "requestId": 0, "udfPath": "p:a", "args": "x"}',
            "Received Invalid JSON on websocket: invalid args",
        ),
        (
            '{"type": "ModifyQuerySet", "baseVersion": 7, "newVersion": 8, "modifications": []}',
            "Base version 7 passed up doesn't match the current version 0",
        ),
    ],
)
def test_a_message_that_is_none_is_answered_by_a_fatal_error(fresh: Core, message: str, text: str) -> None:
    with Frames(fresh) as socket, Frames(fresh, sessionId="other") as other:
        socket.send_raw(TEXT, message.encode())
        messages, closed = socket.rest()
        assert [found["type"] for found in messages] == ["FatalError"]
        assert messages[0]["error"].startswith(text)
        assert closed.code == 1000
        assert other.call("Mutation", 0, "p:m", {"code": "return 1"})["result"] == 1


@pytest.mark.parametrize("wrong", ["binary", "authenticate base", "known query", "unknown query", "future"])
def test_a_client_out_of_step_is_closed_without_a_message(fresh: Core, wrong: str) -> None:
    with Frames(fresh) as socket:
        if wrong == "binary":
            socket.send_raw(BINARY, b"{}")
        elif wrong == "authenticate base":
            socket.send({"type": "Authenticate", "baseVersion": 3, "tokenType": "None"})
        elif wrong == "known query":
            socket.modify(*[{"type": "Add", "queryId": 0, "udfPath": "p:q", "args": [{}]}] * 2)
        elif wrong == "unknown query":
            socket.modify({"type": "Remove", "queryId": 5})
        else:
            late = base64.b64encode((2**63).to_bytes(8, "little")).decode()
            socket.send({"type": "Connect", "sessionId": "s", "maxObservedTimestamp": late})
        messages, closed = socket.rest()
    assert (messages, closed.code) == ([], 1011)
    assert fresh.run("p:q", {"code": "return 1"}) == 1


def test_more_than_a_thousand_waiting_mutations_are_refused(fresh: Core) -> None:
    slow = {
        "code": "const end = performance.now() + 300; while (performance.now() < end); await ctx.db.insert('t', {})"
    }
    with Frames(fresh) as socket:
        # The first ones hold up the others for longer than it takes to send them.
        calls = [
            {"type": "Mutation", "requestId": n, "udfPath": "p:m", "args": [slow if n < 20 else INSERT]}
            for n in range(1100)
        ]
        socket.send(*calls)
        closed = socket.close_reason()
    assert (closed.code, closed.reason) == (1013, "TooManyConcurrentMutations")
    assert len(fresh.control("list", table="t")["documents"]) < 1000


def test_a_mutation_that_always_conflicts_ends_the_connection(fresh: Core) -> None:
    """It gets no answer, so that the client connects and sends the mutation again."""
    busy = "await ctx.db.query('t').collect(); const end = performance.now() + 500; while (performance.now() < end); await ctx.db.insert('done', {})"
    fresh.control("insert", table="done", documents=[{}])
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            fresh.control("insert", table="t", documents=[{}])
            time.sleep(0.01)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with Frames(fresh) as socket:
            socket.send({"type": "Mutation", "requestId": 0, "udfPath": "p:m", "args": [{"code": busy}]})
            messages, closed = socket.rest()
    finally:
        stop.set()
        disturber.join()
    assert not [message for message in messages if message["type"] == "MutationResponse"]
    assert (closed.code, closed.reason) == (1013, "OptimisticConcurrencyControlFailure")
    assert len(fresh.control("list", table="done")["documents"]) == 1


# ── identities ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"value": "wrong"}, "The provided deploy key was invalid for deployment"),
        ({"impersonating": {}}, "Acting-as attributes need a tokenIdentifier, or an issuer and a subject"),
        ({"impersonating": {"issuer": "i"}}, "Acting-as attributes need a tokenIdentifier, or an issuer and a subject"),
        ({"impersonating": "ann"}, "Acting-as attributes must be an object"),
        (
            {"impersonating": {"issuer": {"toString": 1}, "subject": "s"}},
            "Acting-as attribute `issuer` must be a string",
        ),
        ({"tokenType": "User", "value": "a.b.c"}, "Could not parse JWT payload."),
        ({"tokenType": "User", "value": None}, "Could not parse JWT payload."),
    ],
)
def test_a_refused_identity_gets_an_auth_error_and_the_end(fresh: Core, change: dict, text: str) -> None:
    with Frames(fresh) as socket:
        socket.send(admin(fresh, **change))
        messages, closed = socket.rest()
    [error] = messages
    assert (error["type"], error["baseVersion"], error["authUpdateAttempted"]) == ("AuthError", 0, True)
    assert error["error"].startswith(text)
    assert closed.code == 1000


def test_a_new_identity_runs_all_queries_again_and_sends_only_what_changed(fresh: Core) -> None:
    with Frames(fresh) as socket:
        socket.subscribe(0, "p:q", WHO)
        socket.subscribe(1, "p:q", {"code": "return Math.random() > 2 ? 1 : 'same'"})
        seen = {}
        while len(seen) < 2:
            seen |= {change["queryId"]: change["value"] for change in socket.updates()}
        assert seen == {0: None, 1: "same"}
        socket.send(admin(fresh, impersonating=ANN))
        changed = socket.transition()
        assert [(change["queryId"], change["value"]) for change in changed["modifications"]] == [(0, "ann")]
        assert changed["endVersion"]["identity"] == 1
        socket.send(admin(fresh, 1, acting_as=ANN))
        again = socket.transition()
        assert (again["endVersion"]["identity"], again["modifications"]) == (2, [])
        ran = [entry for entry in fresh.control("logs") if entry["caller"] == "SyncWorker"]
        assert len(ran) == 6


def test_a_mutation_runs_as_who_the_client_was_when_it_asked(fresh: Core) -> None:
    slow = {"code": "const end = performance.now() + 100; while (performance.now() < end);"}
    calls = [
        {"type": "Mutation", "requestId": n, "udfPath": "p:m", "args": [slow if n == 0 else WHO]} for n in range(3)
    ]
    with Frames(fresh) as socket:
        socket.send(*calls[:2], admin(fresh, impersonating=ANN), calls[2])
        answers = {n: socket.until(lambda message, n=n: message.get("requestId") == n)["result"] for n in (1, 2)}
    assert answers == {1: None, 2: "ann"}


def test_only_a_plain_admin_reaches_into_a_component(fresh: Core) -> None:
    with Frames(fresh) as socket:
        socket.subscribe(0, "inner:say", componentPath="part")
        [refused] = socket.updates()
        assert refused["errorMessage"].endswith("Could not find public function for 'inner:say'.")
        socket.send(admin(fresh))
        [allowed] = socket.updates()
        assert allowed["value"] == "part"
        socket.send(admin(fresh, 1, impersonating=ANN))
        [refused] = socket.updates()
        assert refused["type"] == "QueryFailed"


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_changed_log_line_is_a_change_and_an_equal_error_is_none(fresh: Core) -> None:
    with Frames(fresh) as socket:
        socket.subscribe(0, "p:q", {"code": "console.log((await ctx.db.query('t').collect()).length); return 0"})
        assert socket.updates()[0]["logLines"] == ["[LOG] 0"]
        socket.call("Mutation", 0, "p:m", INSERT)
        [change] = socket.updates()
        assert (change["value"], change["logLines"]) == (0, ["[LOG] 1"])
        socket.modify(
            {"type": "Remove", "queryId": 0},
            {
                "type": "Add",
                "queryId": 1,
                "udfPath": "p:q",
                "args": [{"code": "await ctx.db.query('t').collect(); throw new Error('always')"}],
            },
        )
        [removed, failed] = socket.updates()
        assert (removed, failed["type"]) == ({"type": "QueryRemoved", "queryId": 0}, "QueryFailed")
        socket.call("Mutation", 1, "p:m", INSERT)
        assert socket.transition()["modifications"] == []


def test_a_query_is_named_anew_under_the_same_number(fresh: Core) -> None:
    with Frames(fresh) as socket:
        for n in range(20):
            socket.subscribe(0, "p:q", {"code": f"return {n}"})
            if n < 19:
                socket.modify({"type": "Remove", "queryId": 0})
        value = None
        while value != 19:
            value = [change.get("value") for change in socket.updates() if change["queryId"] == 0][-1]


def test_subscriptions_and_their_journal_go_on_after_a_reconnect(fresh: Core) -> None:
    page = {"code": "return (await ctx.db.query('t').paginate({ numItems: 2, cursor: null })).page.map((d) => d.n)"}
    fresh.control("insert", table="t", documents=[{"n": n} for n in (1, 2, 3)])
    with Frames(fresh) as first:
        first.subscribe(0, "p:q", page)
        [before] = first.updates()
        assert before["value"] == [1, 2]
        observed = first.call(
            "Mutation", 0, "p:m", {"code": "await ctx.db.delete((await ctx.db.query('t').first())._id)"}
        )["ts"]
    with Frames(fresh, connectionCount=1, maxObservedTimestamp=observed) as second:
        second.subscribe(0, "p:q", page, journal=before["journal"])
        transition = second.transition()
        assert transition["startVersion"] == {"querySet": 0, "identity": 0, "ts": base64.b64encode(bytes(8)).decode()}
        assert transition["modifications"][0]["value"] == [2]
        assert as_number(transition["endVersion"]["ts"]) >= as_number(observed)


def as_number(ts: str) -> int:
    return int.from_bytes(base64.b64decode(ts), "little")


def test_a_mutation_sent_again_after_a_push_or_a_new_variable_is_not_run_again(fresh: Core, bundler: Bundler) -> None:
    with Frames(fresh, sessionId="again") as socket:
        first = socket.call("Mutation", 0, "p:m", INSERT)
    bundler.push(fresh, FILES)
    fresh.control("env.set", variables={"COLOR": "red"})
    with Frames(fresh, sessionId="again", connectionCount=1) as socket:
        second = socket.call("Mutation", 0, "p:m", INSERT)
        assert second == first
        assert as_number(socket.transition()["endVersion"]["ts"]) >= as_number(first["ts"])
    assert len(fresh.control("list", table="t")["documents"]) == 1
    fresh.control("reset")
    with Frames(fresh, sessionId="again", connectionCount=2) as socket:
        assert socket.call("Mutation", 0, "p:m", INSERT)["result"] != first["result"]


def test_a_mutation_in_flight_when_the_connection_is_cut_is_run_once(fresh: Core) -> None:
    slow = {
        "code": "const end = performance.now() + 300; while (performance.now() < end); return await ctx.db.insert('t', {})"
    }
    with Frames(fresh, sessionId="cut") as socket:
        socket.send({"type": "Mutation", "requestId": 4, "udfPath": "p:m", "args": [slow]})
    with Frames(fresh, sessionId="cut", connectionCount=1) as socket:
        answer = socket.call("Mutation", 4, "p:m", slow)
    assert answer["success"]
    fresh.control("idle")
    assert [row["_id"] for row in fresh.control("list", table="t")["documents"]] == [answer["result"]]


def test_strangers_who_do_not_say_who_they_are_are_not_taken_for_each_other(fresh: Core) -> None:
    results = []
    for _ in range(2):
        with Frames(fresh, type="Event") as socket:
            results.append(socket.call("Mutation", 0, "p:m", INSERT)["result"])
    assert results[0] != results[1]


def test_the_skew_of_the_clients_clock_is_told(fresh: Core) -> None:
    fresh.control("clock.start", time=1_700_000_000_000)
    with Frames(fresh, clientTs=1_700_000_004_000) as socket:
        socket.modify()
        assert socket.transition()["clientClockSkew"] == 4000
    with Frames(fresh) as socket:
        socket.modify()
        assert "clientClockSkew" not in socket.transition()


# ── size and speed ──────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = {"code": "return 'ä€😀'.repeat(700000)"}


@pytest.mark.parametrize("version", ["1.27.5", "1.48.0", "2.0.0"])
def test_a_large_transition_comes_in_chunks(fresh: Core, version: str) -> None:
    with Frames(fresh, f"/api/{version}/sync") as socket:
        socket.subscribe(0, "p:q", LARGE)
        parts = [socket.receive()]
        while len(parts) < parts[0]["totalParts"]:
            parts.append(socket.receive())
    text = "".join(part["chunk"] for part in parts)
    assert [part["partNumber"] for part in parts] == [0, 1]
    assert {part["transitionId"] for part in parts} == {str(len(text.encode()))}
    assert all(len(part["chunk"].encode()) <= 5_000_000 for part in parts)
    transition = json.loads(text)
    assert transition["type"] == "Transition"
    assert transition["modifications"][0]["value"] == "ä€😀" * 700_000


@pytest.mark.parametrize("path", ["/api/sync", "/api/1.27.4/sync", "/api/odd/sync"])
def test_a_client_that_knows_no_chunks_gets_none(fresh: Core, path: str) -> None:
    with Frames(fresh, path) as socket:
        socket.subscribe(0, "p:q", LARGE)
        assert len(socket.updates()[0]["value"]) == 2_100_000


def wait_for_calls(app: Core, path: str, count: int) -> None:
    deadline = time.monotonic() + 120
    while sum(entry["function"] == path for entry in app.control("logs")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_client_that_never_reads_its_answers_is_cut_off(fresh: Core) -> None:
    """What waits for it is bounded; the others are served; when it reads at last, it finds the reason."""
    with Frames(fresh) as deaf:
        calls = [
            {"type": "Action", "requestId": n, "udfPath": "p:a", "args": [{"code": "return 'x'.repeat(15e6)"}]}
            for n in range(9)
        ]
        deaf.send(*calls)
        with Frames(fresh, sessionId="other") as other:
            assert other.call("Mutation", 0, "p:m", INSERT)["success"]
            wait_for_calls(fresh, "p:a", 9)
            assert other.call("Mutation", 1, "p:m", INSERT)["success"]
        messages, closed = deaf.rest()
    assert (closed.code, closed.reason) == (1013, "ClientTooSlow: too many answers wait to be read")
    answered = sum(message["type"] == "ActionResponse" for message in messages)
    assert 4 <= answered < 9
    assert len(fresh.control("list", table="t")["documents"]) == 2


def test_changes_that_a_slow_client_has_not_read_share_a_transition(fresh: Core) -> None:
    with Frames(fresh) as slow:
        slow.subscribe(0, "p:q", {"code": "return String((await ctx.db.query('t').collect()).length).padEnd(6e6)"})
        for _ in range(25):
            fresh.run("p:m", INSERT)
            fresh.control("idle")
        seen = [0]
        while seen[-1] < 25:
            seen.append(int(slow.updates()[0]["value"]))
    assert seen == sorted(seen)
    assert len(seen) < 20


def test_a_quiet_connection_is_kept_alive(quiet: Frames) -> None:
    """A ping frame every five seconds, and a message after fifteen seconds without one."""
    message = quiet.until(lambda found: found["type"] == "Ping")
    assert message == {"type": "Ping"}
    assert quiet.pings >= 2
    assert "Could not find public function" in quiet.call("Mutation", 0, "p:m")["result"]
