# ruff: noqa: E501 - programs in tables stay on one line
"""Hostile and unlucky input: frames, floods, deaths. The others are served."""

import asyncio
import base64
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from .support.core import ControlError, Core, request
from .support.programs import PROGRAMS

websockets = pytest.importorskip("websockets")

FILES = {
    "p.ts": PROGRAMS,
    "q.ts": """
        import { query } from "./_generated/server";
        export const page = query({ args: {}, handler: (ctx) => ctx.db.query("rows").withIndex("by_n").paginate({ numItems: 2, cursor: null }) });
    """,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ rows: defineTable({ n: v.number() }).index("by_n", ["n"]) });
    """,
}
ZERO = base64.b64encode(bytes(8)).decode()


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *descendants(child))]


def command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def core_pid(core: Core) -> int:
    """The process that runs the core; the `node` on the path may be a launcher that waits for the real one."""
    family = [core.lines.process.pid, *descendants(core.lines.process.pid)]
    return [pid for pid in family if any(part.endswith("core.mjs") for part in command(pid))][-1]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(is_alive(pid) for pid in pids):
        time.sleep(0.05)
    return [pid for pid in pids if is_alive(pid)]


@pytest.mark.parametrize("ending", ["stdin", "shutdown", "kill", "kill in a loop"])
def test_nothing_is_left_running(bundler, ending: str) -> None:
    core = Core()
    bundler.push(
        core,
        {
            **FILES,
            "n.ts": '"use node"; import { action } from "./_generated/server"; export const f = action({ args: {}, handler: async () => 1 });',
        },
    )
    assert core.run("n:f") == 1
    pids = [core_pid(core), *descendants(core_pid(core))]
    assert sum(any(part.endswith("runner.cjs") for part in command(pid)) for pid in pids) >= 2
    if ending == "stdin":
        assert core.close() == 0
    elif ending == "shutdown":
        core.control("shutdown")
        assert core.lines.process.wait(20) == 0
    else:
        if ending == "kill in a loop":
            core.lines.process.stdin.write(
                json.dumps({"id": 900, "op": "call", "params": {"path": "p:a", "args": {"code": "for (;;);"}}}) + "\n"
            )
            core.lines.process.stdin.flush()
            time.sleep(0.3)
        os.kill(core_pid(core), signal.SIGKILL)
        core.lines.process.wait(20)
    assert wait_until_gone(pids) == []
    core.close()


def test_a_runner_that_dies_is_replaced(fresh: Core) -> None:
    fresh.control("insert", table="t", documents=[{}])
    fresh.run("p:q", {"code": "return 1"})
    runners = [pid for pid in children(core_pid(fresh)) if any(part.endswith("runner.cjs") for part in command(pid))]
    assert runners
    for pid in runners:
        os.kill(pid, signal.SIGKILL)
    assert fresh.run("p:q", {"code": "return (await ctx.db.query('t').collect()).length"}) == 1
    assert fresh.run("p:a", {"code": "return 2"}) == 2


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        '"text"',
        '{"type": "Nonsense"}',
        '{"type": "ModifyQuerySet"}',
        '{"type": "ModifyQuerySet", "baseVersion": 5, "newVersion": 6, "modifications": []}',
        '{"type": "Mutation", "requestId": -1}',
        '{"type": "Authenticate", "tokenType": "Admin", "value": "wrong", "baseVersion": 0}',
        b"\x00\x01",
    ],
)
def test_a_bad_frame_ends_that_connection_only(fresh: Core, frame: str | bytes) -> None:
    async def talk() -> list[dict]:
        async with websockets.connect(fresh.url.replace("http", "ws") + "/api/sync") as socket:
            await socket.send(
                json.dumps({"type": "Connect", "sessionId": "s", "connectionCount": 0, "lastCloseReason": None})
            )
            await socket.send(frame)
            answers = []
            try:
                async with asyncio.timeout(20):
                    while True:
                        answers.append(json.loads(await socket.recv()))
            except websockets.exceptions.ConnectionClosed:
                return answers

    answers = asyncio.run(talk())
    assert all(answer["type"] in ("FatalError", "AuthError") for answer in answers)
    assert fresh.run("p:q", {"code": "return 1"}) == 1


def test_a_mutation_sent_twice_runs_once(fresh: Core) -> None:
    async def talk() -> list[dict]:
        responses = []
        for _ in range(2):
            async with websockets.connect(fresh.url.replace("http", "ws") + "/api/sync") as socket:
                await socket.send(
                    json.dumps({"type": "Connect", "sessionId": "same", "connectionCount": 0, "lastCloseReason": None})
                )
                await socket.send(
                    json.dumps(
                        {
                            "type": "Mutation",
                            "requestId": 0,
                            "udfPath": "p:m",
                            "args": [{"code": "return await ctx.db.insert('t', {})"}],
                        }
                    )
                )
                while True:
                    message = json.loads(await socket.recv())
                    if message["type"] == "MutationResponse":
                        responses.append(message)
                        break
        return responses

    first, second = asyncio.run(talk())
    assert first["result"] == second["result"]
    assert first["ts"] == second["ts"]
    assert len(fresh.control("list", table="t")["documents"]) == 1


def test_versions_of_transitions_follow_each_other(fresh: Core) -> None:
    async def talk() -> list[dict]:
        async with websockets.connect(fresh.url.replace("http", "ws") + "/api/sync") as socket:

            async def until(kind: str) -> dict:
                async with asyncio.timeout(20):
                    while (message := json.loads(await socket.recv()))["type"] != kind:
                        pass
                return message

            await socket.send(
                json.dumps({"type": "Connect", "sessionId": "v", "connectionCount": 0, "lastCloseReason": None})
            )
            add = {
                "type": "Add",
                "queryId": 0,
                "udfPath": "p:q",
                "args": [{"code": "return (await ctx.db.query('t').collect()).length"}],
            }
            await socket.send(
                json.dumps({"type": "ModifyQuerySet", "baseVersion": 0, "newVersion": 1, "modifications": [add]})
            )
            found = [await until("Transition")]
            await socket.send(
                json.dumps(
                    {
                        "type": "Mutation",
                        "requestId": 0,
                        "udfPath": "p:m",
                        "args": [{"code": "await ctx.db.insert('t', {})"}],
                    }
                )
            )
            await until("MutationResponse")
            found.append(await until("Transition"))
            await socket.send(
                json.dumps(
                    {
                        "type": "Mutation",
                        "requestId": 1,
                        "udfPath": "p:m",
                        "args": [{"code": "await ctx.db.insert('other', {})"}],
                    }
                )
            )
            await until("MutationResponse")
            found.append(await until("Transition"))
            return found

    first, second, third = asyncio.run(talk())
    assert first["startVersion"] == {"querySet": 0, "identity": 0, "ts": ZERO}
    assert second["startVersion"] == first["endVersion"]
    assert [change["value"] for change in second["modifications"]] == [1]
    assert third["startVersion"] == second["endVersion"]
    assert third["modifications"] == []


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"op": "nonsense"}',
        '{"id": 1, "op": "call", "params": {}}',
        '{"id": 1, "op": "insert", "params": {"table": 5}}',
    ],
)
def test_bad_lines_on_the_control_channel_are_answered(fresh: Core, line: str) -> None:
    fresh.lines.process.stdin.write(line + "\n")
    fresh.lines.process.stdin.flush()
    assert fresh.run("p:q", {"code": "return 1"}) == 1


def test_inserts_by_the_control_channel_obey_the_rules(fresh: Core) -> None:
    with pytest.raises(ControlError) as refused:
        fresh.control("insert", table="t", documents=[{"a": 1}, {"_x": 1}])
    assert refused.value.code == "InvalidDocumentError"
    assert fresh.control("list", table="t")["documents"] == []


def test_submitted_code_finds_no_environment_files_or_processes(bundler, core: Core) -> None:
    bundler.push(
        core,
        {
            **FILES,
            "n.ts": """
        "use node"; import { action } from "./_generated/server"; import fs from "node:fs"; import child from "node:child_process";
        const attempt = (f) => { try { f(); return "done"; } catch (e) { return e.code ?? e.message; } };
        export const f = action({ args: {}, handler: async () => [attempt(() => fs.readFileSync("/etc/passwd")), attempt(() => fs.writeFileSync("/tmp/engine-escape", "")), attempt(() => child.execSync("true")), Object.keys(process.env).sort().join()] });
    """,
        },
    )
    read, write, execute, names = core.run("n:f")
    assert (read, write, execute) == ("ERR_ACCESS_DENIED",) * 3
    assert names == "CONVEX_CLOUD_URL,CONVEX_SITE_URL,LANG,PATH,TZ"


def test_random_requests_never_take_the_core_down(fresh: Core) -> None:
    """A seeded short run of what `make fuzz` does for longer."""
    chance = random.Random(7)
    paths = [
        "/api/query",
        "/api/mutation",
        "/api/function",
        "/api/deploy2/start_push",
        "/api/deploy2/finish_push",
        "/api/deploy2/wait_for_schema",
        "/api/update_environment_variables",
        "/api/storage/upload?token=x",
        "/api/get_config_hashes",
        "/api/run/a/b",
        "/http/x",
        "/api/sync",
    ]

    def value(depth: int = 0) -> object:
        kinds = [
            None,
            True,
            -1,
            1e308,
            "",
            "p:q",
            "\ud800",
            "$",
            {"$integer": "x"},
            {"$bytes": 5},
            {"$float": "AAAAAAAAAAA="},
        ]
        if depth < 3 and chance.random() < 0.4:
            return {
                chance.choice(
                    ["path", "args", "adminKey", "appDefinition", "schemaChange", "code", "$x", "__proto__"]
                ): value(depth + 1)
                for _ in range(3)
            }
        return [value(depth + 1)] if depth < 3 and chance.random() < 0.2 else chance.choice(kinds)

    for _ in range(150):
        body = json.dumps(
            {"adminKey": fresh.key, **({"path": "p:q", "args": value()} if chance.random() < 0.5 else {}), "x": value()}
        )
        if chance.random() < 0.2:
            body = body[: chance.randrange(len(body))]
        headers = {"Content-Type": "application/json"}
        if chance.random() < 0.2:
            headers["Content-Encoding"] = chance.choice(["br", "gzip", "odd"])
        answer = request(fresh.url + chance.choice(paths), body.encode(), headers)
        assert answer.status != 500, (answer.text, body)
    assert fresh.run("p:q", {"code": "return 1"}) == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("const e = new Error('x'); e[Symbol.for('ConvexError')] = true; e.data = '{'; throw e", "Uncaught Error: x"),
        ("throw { toString() { throw new Error('no') } }", "Uncaught"),
        ("Object.defineProperty(Error.prototype, 'stack', { get() { throw 1 } }); throw new Error('x')", "Uncaught"),
        ("Convex.syscall('1.0/queryStream', '{')", "Received invalid json"),
        ("await Convex.asyncSyscall('1.0/get', '[]')", ""),
        ("await Convex.asyncSyscall('1.0/nothing', '{}')", "Unknown async operation 1.0/nothing"),
        ("Convex.syscall('1.0/nothing', '{}')", "Unknown operation 1.0/nothing"),
        ("await Convex.asyncSyscall('1.0/queryStreamNext', '{\"queryId\": 99}')", "queryStreamNext"),
        ('await Convex.asyncSyscall(\'1.0/insert\', \'{"table": "t", "value": {}}\')', "in a query"),
        (
            "await Promise.all(Array.from({ length: 5000 }, () => ctx.db.query('t').first())); throw new Error('end')",
            "Uncaught Error: end",
        ),
        (
            "const p = console.log.constructor('return process')(); if (!p.pid) throw new Error('contained'); p.kill(p.pid, 'SIGKILL'); await null",
            "",
        ),
    ],
)
def test_hostile_functions_only_hurt_themselves(fresh: Core, code: str, text: str) -> None:
    assert text in fresh.fails("p:q", {"code": code}).message
    assert fresh.run("p:q", {"code": "return 1"}) == 1


def test_a_subscribed_page_keeps_its_end(fresh: Core) -> None:
    """A page that runs again ends where it ended before, so pages never overlap or leave gaps."""

    async def talk() -> list[list[int]]:
        async with websockets.connect(fresh.url.replace("http", "ws") + "/api/sync") as socket:

            async def next_page() -> list[int]:
                async with asyncio.timeout(20):
                    while True:
                        message = json.loads(await socket.recv())
                        for change in message.get("modifications", []):
                            return [row["n"] for row in change["value"]["page"]]

            await socket.send(
                json.dumps({"type": "Connect", "sessionId": "p", "connectionCount": 0, "lastCloseReason": None})
            )
            add = {"type": "Add", "queryId": 0, "udfPath": "q:page", "args": [{}]}
            await socket.send(
                json.dumps({"type": "ModifyQuerySet", "baseVersion": 0, "newVersion": 1, "modifications": [add]})
            )
            pages = [await next_page()]
            fresh.control("insert", table="rows", documents=[{"n": 15}])
            pages.append(await next_page())
            fresh.control("insert", table="rows", documents=[{"n": 99}])
            fresh.control("insert", table="rows", documents=[{"n": 5}])
            pages.append(await next_page())
            return pages

    fresh.control("insert", table="rows", documents=[{"n": 10}, {"n": 20}, {"n": 30}])
    assert asyncio.run(talk()) == [[10, 20], [10, 15, 20], [5, 10, 15, 20]]


def test_work_begun_before_a_reset_never_reaches_the_data_after_it(fresh: Core) -> None:
    fresh.control("insert", table="busy", documents=[{}])
    code = "if (await ctx.db.query('busy').first()) for (;;); await ctx.db.insert('t', {})"
    calls = [fresh.lines.begin(op="call", params={"path": "p:m", "args": {"code": code}}) for _ in range(3)]
    fresh.control("reset")
    messages = [answer()["ok"]["error"]["message"] for answer in calls]
    assert all(message.endswith("The deployment was reset.") for message in messages)
    assert fresh.control("list", table="t")["documents"] == []


def frames(app: Core, *sent: dict, until: str) -> list[dict]:
    """What the server sends up to a message of the wanted type."""

    async def talk() -> list[dict]:
        async with websockets.connect(app.url.replace("http", "ws") + "/api/sync", max_size=None) as socket:
            for message in sent:
                await socket.send(json.dumps(message))
            found: list[dict] = []
            async with asyncio.timeout(20):
                while not found or found[-1]["type"] != until:
                    found.append(json.loads(await socket.recv()))
            return found

    return asyncio.run(talk())


def test_a_frame_that_is_no_json_is_named(fresh: Core) -> None:
    [error] = frames(fresh, "text", until="FatalError")
    assert error["error"].startswith("Received Invalid JSON on websocket:")


def test_a_wrong_base_version_is_named(fresh: Core) -> None:
    change = {"type": "ModifyQuerySet", "baseVersion": 5, "newVersion": 6, "modifications": []}
    [error] = frames(fresh, change, until="FatalError")
    assert error["error"] == "Base version 5 passed up doesn't match the current version 0"


def test_a_wrong_key_gets_an_auth_error(fresh: Core) -> None:
    wrong = {"type": "Authenticate", "tokenType": "Admin", "value": "wrong", "baseVersion": 0}
    [error] = frames(fresh, wrong, until="AuthError")
    assert (error["baseVersion"], error["authUpdateAttempted"]) == (0, True)


def test_failed_mutations_run_again_when_sent_again(fresh: Core) -> None:
    connect = {"type": "Connect", "sessionId": "again", "connectionCount": 0, "lastCloseReason": None}
    code = "if ((await ctx.db.query('t').first()) === null) throw new Error('not yet'); return 1"
    call = {"type": "Mutation", "requestId": 3, "udfPath": "p:m", "args": [{"code": code}]}
    assert frames(fresh, connect, call, until="MutationResponse")[-1]["success"] is False
    fresh.control("insert", table="t", documents=[{}])
    assert frames(fresh, connect, call, until="MutationResponse")[-1]["success"] is True


def test_mutations_of_a_socket_run_in_their_order(fresh: Core) -> None:
    code = "await ctx.db.insert('t', { n: args })"
    calls = [
        {"type": "Mutation", "requestId": n, "udfPath": "p:m", "args": [{"code": code, "args": n}]} for n in range(20)
    ]
    last = {"type": "Action", "requestId": 99, "udfPath": "p:a", "args": [{"code": "return 1"}]}
    connect = {"type": "Connect", "sessionId": "order", "connectionCount": 0, "lastCloseReason": None}

    async def talk() -> list[int]:
        async with websockets.connect(fresh.url.replace("http", "ws") + "/api/sync") as socket:
            for message in (connect, *calls, last):
                await socket.send(json.dumps(message))
            answered: list[int] = []
            async with asyncio.timeout(20):
                while len(answered) < 20:
                    message = json.loads(await socket.recv())
                    if message["type"] == "MutationResponse":
                        answered.append(message["requestId"])
            return answered

    assert asyncio.run(talk()) == list(range(20))
    assert [row["n"] for row in fresh.control("list", table="t")["documents"]] == list(range(20))


def test_a_client_that_never_reads_does_not_hold_up_the_others(fresh: Core) -> None:
    """It asks for far more than a socket buffers; the others are answered and the core stays alive."""
    import socket as sockets

    host, port = fresh.url.removeprefix("http://").split(":")
    with sockets.create_connection((host, int(port))) as deaf:
        key = base64.b64encode(bytes(16)).decode()
        deaf.sendall(
            f"GET /api/sync HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        for n in range(40):
            call = {"type": "Action", "requestId": n, "udfPath": "p:a", "args": [{"code": "return 'x'.repeat(1e6)"}]}
            payload = json.dumps(call).encode()
            deaf.sendall(bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload)
        assert fresh.run("p:q", {"code": "return 1"}) == 1
        assert fresh.run("p:a", {"code": "return 2"}) == 2
    assert fresh.run("p:q", {"code": "return 3"}) == 3
