"""@convex-dev/presence: heartbeats keep users online, and the clock takes them off."""

from typing import Any

import pytest

from .support.core import Core

PROJECT = "presence"
START = 1_800_000_000_000


@pytest.fixture
def timed(fresh: Core) -> Core:
    fresh.control("clock.start", time=START)
    return fresh


def beat(app: Core, room: str, user: str, session: str, interval: int = 10_000) -> dict[str, str]:
    return app.run(
        "p:m", {"code": f"return await t.presence.heartbeat(ctx, '{room}', '{user}', '{session}', {interval})"}
    )


def ask(app: Core, call: str) -> Any:
    return app.run("p:q", {"code": f"return await t.presence.{call}"})


def online(app: Core, room: str) -> dict[str, bool]:
    return {row["userId"]: row["online"] for row in ask(app, f"listRoom(ctx, '{room}')")}


def test_a_room_lists_who_is_there(timed: Core) -> None:
    token = beat(timed, "r", "ann", "s1")["roomToken"]
    assert beat(timed, "r", "bob", "s2")["roomToken"] == token
    beat(timed, "other", "ann", "s3")
    listed = ask(timed, f"list(ctx, '{token}')")
    assert sorted((row["userId"], row["online"], row["lastDisconnected"]) for row in listed) == [
        ("ann", True, 0),
        ("bob", True, 0),
    ]
    assert len(ask(timed, f"list(ctx, '{token}', 1)")) == 1
    assert ask(timed, "list(ctx, 'no such token')") == []
    assert sorted(row["roomId"] for row in ask(timed, "listUser(ctx, 'ann')")) == ["other", "r"]


def test_missed_heartbeats_end_a_session(timed: Core) -> None:
    beat(timed, "r", "ann", "s1")
    beat(timed, "r", "bob", "s2")
    timed.control("clock.advance", ms=20_000)
    beat(timed, "r", "ann", "s1")
    timed.control("clock.advance", ms=4_000)
    assert online(timed, "r") == {"ann": True, "bob": True}
    timed.control("clock.advance", ms=3_000)
    assert online(timed, "r") == {"ann": True, "bob": False}
    [bob] = [row for row in ask(timed, "listRoom(ctx, 'r')") if row["userId"] == "bob"]
    assert START + 25_000 <= bob["lastDisconnected"] <= START + 27_000
    timed.control("clock.advance", ms=60_000)
    assert online(timed, "r") == {"ann": False, "bob": False}
    assert ask(timed, "listRoom(ctx, 'r', true)") == []


def test_the_interval_decides_how_long(timed: Core) -> None:
    beat(timed, "r", "ann", "s1", 1_000)
    beat(timed, "r", "bob", "s2", 60_000)
    timed.control("clock.advance", ms=10_000)
    assert online(timed, "r") == {"ann": False, "bob": True}
    timed.control("clock.advance", ms=141_000)
    assert online(timed, "r") == {"ann": False, "bob": False}


def test_a_user_is_online_while_one_session_is(timed: Core) -> None:
    first = beat(timed, "r", "ann", "s1")["sessionToken"]
    second = beat(timed, "r", "ann", "s2")["sessionToken"]
    timed.run("p:m", {"code": f"await t.presence.disconnect(ctx, '{first}')"})
    assert online(timed, "r") == {"ann": True}
    timed.run("p:m", {"code": f"await t.presence.disconnect(ctx, '{second}')"})
    assert online(timed, "r") == {"ann": False}
    beat(timed, "r", "ann", "s3")
    assert online(timed, "r") == {"ann": True}


def test_a_session_belongs_to_one_user_and_room(timed: Core) -> None:
    beat(timed, "r", "ann", "s1")
    code = "await t.presence.heartbeat(ctx, 'r', 'bob', 's1', 1000)"
    assert "sessionId s1 must be unique for a given room/user" in timed.fails("p:m", {"code": code}).message


def test_data_of_a_user_and_removal(timed: Core) -> None:
    token = beat(timed, "r", "ann", "s1")["roomToken"]
    timed.run("p:m", {"code": "await t.presence.updateRoomUser(ctx, 'r', 'ann', { typing: true })"})
    assert ask(timed, f"list(ctx, '{token}')")[0]["data"] == {"typing": True}
    beat(timed, "r", "bob", "s2")
    timed.run("p:m", {"code": "await t.presence.removeRoomUser(ctx, 'r', 'ann')"})
    assert online(timed, "r") == {"bob": True}
    timed.run("p:m", {"code": "await t.presence.removeRoom(ctx, 'r')"})
    assert online(timed, "r") == {}
