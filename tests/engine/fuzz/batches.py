# ruff: noqa: E501 - programs stay on one line
"""Batches of hostile input against one core, each followed by an ordinary client."""

import asyncio
import http.client
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import websockets

from ..support.core import Core
from ..support.programs import PROGRAMS
from ..support.project import Bundler
from ..support.toolchain import toolchain
from .inputs import Inputs

FILES = {
    "p.ts": PROGRAMS,
    "http.ts": """
        import { httpRouter } from "convex/server";
        import { httpAction } from "./_generated/server";
        const http = httpRouter();
        http.route({ pathPrefix: "/", method: "POST", handler: httpAction(async (_, request) => new Response(await request.text())) });
        export default http;
    """,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ rows: defineTable(v.any()).index("by_n", ["n"]).searchIndex("by_text", { searchField: "text" }) });
    """,
}
HANG_S = 45.0
HTTP_INPUTS, SOCKETS, PIPE_INPUTS = 120, 20, 12
PATHS = [
    *(
        "/version",
        "/api/query",
        "/api/mutation",
        "/api/action",
        "/api/function",
        "/api/query_batch",
        "/api/query_ts",
        "/api/query_at_ts",
    ),
    *(
        "/api/deploy2/start_push",
        "/api/deploy2/wait_for_schema",
        "/api/deploy2/evaluate_schema",
        "/api/get_config_hashes",
    ),
    *(
        "/api/storage/upload?token=x",
        "/api/storage/x",
        "/api/run/p/q",
        "/http/x",
        "/api/sync",
        "/api/1.48.0/sync",
        "/api/cancel_job",
    ),
    *(
        "/api/update_environment_variables",
        "/api/list_environment_variables",
        "/api/check_admin_key",
        "/%00",
        "/..",
        "/api/query?path=%zz",
    ),
]
CALLS = ["/api/query", "/api/mutation", "/api/action", "/api/function"]
PROGRAM = "const rows = await ctx.db.query('rows').take(2); await Promise.all(rows.map((row) => ctx.db.get(row._id))); console.log(rows.length); return rows.length"


class Failure(Exception):  # noqa: N818 - a finding, not a defect of the tests
    """The core crashed, hung or stopped serving."""


class Target:
    """A core whose runner mangles its frames on demand."""

    def __init__(self, folder: Path, bundler: Bundler) -> None:
        script = folder / "runner.cjs"
        mangler = Path(__file__).with_name("mangler.js").read_text()
        script.write_text(mangler + (toolchain().core.with_name("runner.cjs")).read_text())
        self.core = Core("--runner-script", str(script))
        self.host = urlsplit(self.core.url).netloc
        self.body = bundler.body(FILES)
        bundler.push(self.core, FILES)
        self.core.control("insert", table="rows", documents=[{"n": 1, "text": "a"}, {"n": 2}, {"n": 3}])

    def served(self) -> None:
        """What an ordinary client relies on, over HTTP, WebSocket and the control channel."""
        if self.core.lines.process.poll() is not None:
            raise Failure(f"the core ended with {self.core.lines.process.returncode}")
        answer = self.core.post("/api/query", {"path": "p:q", "args": {"code": "return 41 + 1"}})
        assert (answer.status, answer.json()["value"]) == (200, 42), answer.text
        written = self.core.run("p:m", {"code": "return typeof (await ctx.db.insert('rows', { n: 9 }))"})
        assert written == "string", written
        assert self.core.run("p:a", {"code": "return 7"}) == 7
        assert asyncio.run(self._subscribed()) == 1
        self.core.control("clear", table="rows")
        self.core.control("insert", table="rows", documents=[{"n": 1, "text": "a"}, {"n": 2}, {"n": 3}])

    async def _subscribed(self) -> object:
        add = {"type": "Add", "queryId": 0, "udfPath": "p:q", "args": [{"code": "return 1"}]}
        async with asyncio.timeout(HANG_S), websockets.connect(f"ws://{self.host}/api/sync") as socket:
            await socket.send(json.dumps(CONNECT))
            await socket.send(
                json.dumps({"type": "ModifyQuerySet", "baseVersion": 0, "newVersion": 1, "modifications": [add]})
            )
            while not (found := json.loads(await socket.recv()).get("modifications")):
                pass
            return found[0].get("value")


CONNECT = {
    "type": "Connect",
    "sessionId": "5f0c1f3e-0000-4000-8000-000000000000",
    "connectionCount": 0,
    "lastCloseReason": None,
}


def http_batch(target: Target, inputs: Inputs) -> int:
    """Requests with odd paths, methods, headers, encodings and bodies; a 500 is a defect."""
    chance = inputs.chance
    for _ in range(HTTP_INPUTS):
        path = chance.choice(PATHS if chance.random() < 0.5 else CALLS)
        valid = (
            target.body
            if "start_push" in path
            else {"path": chance.choice(["p:q", "p:m", "p:a"]), "args": {"code": PROGRAM}, "format": "json"}
        )
        if "start_push" in path and chance.random() < 0.7:
            path = "/api/query"
        body = inputs.text(inputs.mutated({"adminKey": target.core.key, **valid}))
        headers = {
            "Content-Type": chance.choice(["application/json"] * 6 + ["text/plain", "", "application/json; charset=x"])
        }
        if chance.random() < 0.1:
            headers["Content-Encoding"] = chance.choice(["br", "gzip", "deflate", "odd", "constructor"])
        if chance.random() < 0.3:
            headers["Authorization"] = chance.choice(
                [
                    "Convex",
                    f"Convex {target.core.key}",
                    f"Convex {target.core.key}:e30=",
                    "Bearer x",
                    "Bearer a.b.c",
                    "\xff",
                ]
            )
        connection = http.client.HTTPConnection(target.host, timeout=HANG_S)
        try:
            connection.request(chance.choice(["POST"] * 8 + ["GET", "PUT", "OPTIONS", "DELETE"]), path, body, headers)
            if chance.random() > 0.05:
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 500:
                    raise Failure(f"500 for {path} {body[:2000]!r}: {text!r}")
        except TimeoutError:
            raise Failure(f"no answer to {path} {body[:2000]!r}") from None
        except (http.client.HTTPException, ConnectionError):
            pass
        finally:
            connection.close()
    return HTTP_INPUTS


def socket_batch(target: Target, inputs: Inputs) -> int:
    """Connections that send mutated messages, some of which never read."""
    chance = inputs.chance
    call = {"requestId": 0, "udfPath": "p:m", "args": [{"code": PROGRAM}]}
    add = {"type": "Add", "queryId": 0, "udfPath": "p:q", "args": [{"code": PROGRAM}], "journal": None}
    valid = [
        {"type": "ModifyQuerySet", "baseVersion": 0, "newVersion": 1, "modifications": [add]},
        {
            "type": "ModifyQuerySet",
            "baseVersion": 1,
            "newVersion": 2,
            "modifications": [{"type": "Remove", "queryId": 0}],
        },
        {"type": "Mutation", **call},
        {"type": "Action", **call, "udfPath": "p:a", "requestId": 1},
        {"type": "Authenticate", "tokenType": "Admin", "value": target.core.key, "baseVersion": 0},
        {"type": "Authenticate", "tokenType": "User", "value": "a.b.c", "baseVersion": 0},
        {"type": "Event", "eventType": "x", "event": None},
    ]

    async def one() -> int:
        sent = 0
        with suppress(websockets.exceptions.WebSocketException, ConnectionError, TimeoutError):
            async with websockets.connect(
                f"ws://{target.host}/api/sync", open_timeout=HANG_S, close_timeout=1
            ) as socket:
                for message in [CONNECT, *chance.sample(valid, chance.randrange(1, len(valid)))]:
                    text = inputs.text(inputs.mutated(message))
                    await socket.send(text if chance.random() < 0.1 else text.decode(errors="replace"))
                    sent += 1
                async with asyncio.timeout(chance.choice([0, 0.02, 0.1])):
                    while True:
                        await socket.recv()
        return sent

    async def all_of_them() -> int:
        return sum([await one() for _ in range(SOCKETS)])

    return asyncio.run(all_of_them())


def pipe_batch(target: Target, inputs: Inputs) -> int:
    """Calls during which the runner sends garbage, huge, truncated, repeated and forged frames."""
    for _ in range(PIPE_INPUTS):
        mark = f"/* FUZZ{inputs.chance.randrange(1, 2**31)}. */"
        answer = target.core.lines.begin(
            op="call",
            params={"path": inputs.chance.choice(["p:q", "p:m", "p:a"]), "args": {"code": mark + program(inputs)}},
        )
        answer()
    return PIPE_INPUTS


def program(inputs: Inputs) -> str:
    return inputs.chance.choice(["return 1", "console.log('x'); return 2", "throw new Error('x')", PROGRAM])


BATCHES = {"http": http_batch, "socket": socket_batch, "pipe": pipe_batch}


def fuzz(seconds: float, seed: int, say: Callable[[str], None] = lambda _: None) -> int:
    """Batches until the time is over, on a fresh core every now and then; the number of inputs."""
    until = time.monotonic() + seconds
    total, number = 0, seed
    bundler = Bundler()
    try:
        while time.monotonic() < until:
            with tempfile.TemporaryDirectory() as name:
                target = Target(Path(name), bundler)
                try:
                    for _ in range(30):
                        for kind, batch in BATCHES.items():
                            total += _checked(kind, batch, target, number)
                        number += 1
                        if time.monotonic() >= until:
                            break
                finally:
                    target.core.lines.kill()
            say(f"fuzz: {total} inputs, next seed {number}")
    finally:
        bundler.close()
    return total


def _checked(kind: str, batch: Callable[[Target, Inputs], int], target: Target, seed: int) -> int:
    """Any trouble names the seed that repeats it."""
    try:
        count = batch(target, Inputs(seed))
        target.served()
    except Exception as error:
        raise Failure(f"{kind} batch of seed {seed}: {type(error).__name__}: {error}") from error
    return count
