# ruff: noqa: E501 - programs in tables stay on one line
"""The JavaScript clients through trouble: connections that are cut, tokens that end, data that changes meanwhile."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core
from .support.issuer import Issuer
from .support.programs import PROGRAMS
from .support.project import Bundler, run_node

SETUP = """
import { connect, createServer } from "node:net";
import { ConvexClient, ConvexHttpClient } from "convex/browser";
import { anyApi as api } from "convex/server";
const { URL_ } = process.env;
const port = Number(new URL(URL_).port);
const until = async (what, test) => { for (let i = 0; !test(); i++) { if (i > 6000) throw new Error("waited too long for " + what); await new Promise((r) => setTimeout(r, 10)); } };
const live = new Set();
/** A way to the core that can be cut; `onData(direction, bytes, pair)` may cut it in the middle of a conversation. */
let onData = () => false;
let cuts = 0;
const cut = (pair) => { cuts += 1; for (const socket of pair) socket.destroy(); live.delete(pair); };
const proxy = createServer((near) => {
  const far = connect(port, "127.0.0.1");
  const pair = [near, far];
  live.add(pair);
  const pass = (from, to, direction) => from.on("data", (bytes) => { if (onData(direction, bytes, pair)) cut(pair); else to.write(bytes); });
  pass(near, far, "up"); pass(far, near, "down");
  for (const [socket, other] of [[near, far], [far, near]]) { socket.on("error", () => other.destroy()); socket.on("close", () => other.destroy()); }
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
const client = new ConvexClient(`http://127.0.0.1:${proxy.address().port}`, { logger: false });
const finish = async (value) => { console.log(JSON.stringify(value)); await client.close(); proxy.close(); process.exit(0); };
"""


@pytest.fixture(scope="module")
def app(core: Core, bundler: Bundler, issuer: Issuer) -> Core:
    config = f"""export default {{ providers: [{{ domain: "{issuer.url}", applicationID: "app" }}] }};"""
    bundler.push(core, {"p.ts": PROGRAMS, "auth.config.ts": config})
    return core


def javascript(app: Core, folder: Path, body: str, **environment: str) -> Any:
    return json.loads(run_node(SETUP + body, folder, URL_=app.url, **environment).splitlines()[-1])


def test_mutations_over_a_connection_that_is_cut_again_and_again_run_once_each(fresh: Core, tmp_path: Path) -> None:
    """Cut when answers are on their way, in the middle of a request, and again before the answers arrive."""
    told, fell = javascript(
        fresh,
        tmp_path,
        """
        onData = (direction, bytes, pair) => {
          if (direction === "down") return (cuts === 0 || cuts === 2) && bytes.includes("MutationResponse");
          pair.sent = (pair.sent ?? 0) + bytes.length;
          if (cuts !== 1 || pair.sent < 2000) return false;
          pair[1].write(bytes.subarray(0, bytes.length / 2));
          return true;
        };
        const told = await Promise.all(Array.from({ length: 30 }, (_, n) => client.mutation(api.p.m, { code: "return await ctx.db.insert('t', { n: args })", args: n })));
        await finish([told, cuts]);
    """,
    )
    assert fell == 3
    rows = fresh.control("list", table="t")["documents"]
    assert [row["n"] for row in rows] == list(range(30))
    assert told == [row["_id"] for row in rows]


def test_subscriptions_go_on_after_the_connection_was_cut(fresh: Core, tmp_path: Path) -> None:
    seen = javascript(
        fresh,
        tmp_path,
        """
        const seen = [];
        client.onUpdate(api.p.q, { code: "return (await ctx.db.query('t').collect()).length" }, (value) => seen.push(value));
        await until("the first value", () => seen.length === 1);
        for (const pair of [...live]) cut(pair);
        const other = new ConvexHttpClient(URL_);
        await other.mutation(api.p.m, { code: "await ctx.db.insert('t', {})" });
        await until("what changed meanwhile", () => seen.at(-1) === 1);
        await other.mutation(api.p.m, { code: "await ctx.db.insert('t', {})" });
        await until("what changes later", () => seen.at(-1) === 2);
        await finish(seen);
    """,
    )
    assert seen == [0, 1, 2]


def test_consistent_queries_of_the_http_client_read_one_state(fresh: Core, tmp_path: Path) -> None:
    found = javascript(
        fresh,
        tmp_path,
        """
        const http = new ConvexHttpClient(URL_);
        const count = { code: "return (await ctx.db.query('t').collect()).length" };
        const seen = [];
        for (let i = 0; i < 3; i++) {
          seen.push([await http.consistentQuery(api.p.q, count), await http.query(api.p.q, count)]);
          await http.mutation(api.p.m, { code: "await ctx.db.insert('t', {})" });
        }
        await finish(seen);
    """,
    )
    assert found == [[0, 0], [0, 1], [0, 2]]


def test_an_action_in_flight_fails_and_is_not_run_again(fresh: Core, tmp_path: Path) -> None:
    message = javascript(
        fresh,
        tmp_path,
        """
        const seen = [];
        client.onUpdate(api.p.q, { code: "return (await ctx.db.query('t').collect()).length" }, (value) => seen.push(value));
        await until("the connection", () => seen.length === 1);
        const code = "await ctx.runMutation(t.internal.p.innerM, { code: 'await ctx.db.insert(\\"t\\", {})' }); await new Promise((r) => setTimeout(r, 1000)); await ctx.runMutation(t.internal.p.innerM, { code: 'await ctx.db.insert(\\"t\\", {})' })";
        const failed = client.action(api.p.a, { code }).catch((error) => error.message);
        await until("its first write", () => seen.at(-1) === 1);
        for (const pair of [...live]) cut(pair);
        const message = await failed;
        await until("its second write", () => seen.at(-1) === 2);
        await finish(message);
    """,
    )
    assert "Connection lost while action was in flight" in message
    fresh.control("idle")
    assert len(fresh.control("list", table="t")["documents"]) == 2


def test_a_client_whose_token_has_ended_gets_a_new_one_and_goes_on(fresh: Core, issuer: Issuer, tmp_path: Path) -> None:
    """An ended token is noticed at the next request; the client fetches another and the request is made with it."""
    start = 1_700_000_000
    fresh.control("clock.start", time=start * 1000)
    fresh.control("allowFetch", origins=[issuer.url])
    tokens = [issuer.token(sub=name, iat=start, exp=start + seconds) for name, seconds in (("old", 60), ("new", 7200))]
    moved = tmp_path / "moved"

    def move() -> None:
        waiting = tmp_path / "waiting"
        deadline = time.monotonic() + 60
        while not waiting.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        fresh.control("clock.advance", ms=61_000)
        moved.touch()

    mover = threading.Thread(target=move)
    mover.start()
    found = javascript(
        fresh,
        tmp_path,
        """
        import { existsSync, writeFileSync } from "node:fs";
        const tokens = JSON.parse(process.env.TOKENS);
        const asked = [];
        let current = 0;
        client.setAuth(async ({ forceRefreshToken }) => { asked.push(forceRefreshToken); return tokens[current]; });
        const who = "return (await ctx.auth.getUserIdentity())?.subject ?? null";
        const before = await client.mutation(api.p.m, { code: who });
        writeFileSync("waiting", "");
        await until("the clock", () => existsSync("moved"));
        current = 1;
        const after = await client.mutation(api.p.m, { code: who });
        await finish([before, after, asked.at(-1)]);
    """,
        TOKENS=json.dumps(tokens),
    )
    mover.join()
    assert found == ["old", "new", True]
