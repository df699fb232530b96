# ruff: noqa: E501 - programs in tables stay on one line
"""What a data folder brings back after SIGKILL, out of the log and out of a compacted one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support.core import request
from .support.durable import DurableCore, mutation_over_socket, wait_for
from .support.programs import PROGRAMS
from .support.project import Bundler
from .test_auth import Issuer

FILES = {
    "p.ts": PROGRAMS
    + """
        import { createFunctionHandle } from "convex/server";
        export const handle = mutation({ args: {}, handler: async () => await createFunctionHandle(internal.p.innerM) });
        export const byHandle = mutation({ args: { handle: v.string() }, handler: async (ctx, { handle }) => await ctx.runMutation(handle as any, { code: "return 'handled'" }) });
    """,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          notes: defineTable({ text: v.string(), rank: v.optional(v.number()) }).index("by_rank", ["rank"]).searchIndex("search_text", { searchField: "text" }),
          anything: defineTable(v.any()),
        });
    """,
    "jobs.ts": """
        import { internalAction, internalMutation } from "./_generated/server";
        import { internal } from "./_generated/api";
        import { v } from "convex/values";
        export const note = internalMutation({ args: { text: v.string() }, handler: (ctx, { text }) => ctx.db.insert("notes", { text }) });
        export const slow = internalAction({ args: { text: v.string() }, handler: async (ctx, { text }) => {
          await ctx.runMutation(internal.jobs.note, { text }); await new Promise((r) => setTimeout(r, 3_600_000)); } });
    """,
    "crons.ts": """
        import { cronJobs } from "convex/server";
        import { internal } from "./_generated/api";
        const crons = cronJobs();
        crons.interval("often", { hours: 5 }, internal.jobs.note, { text: "cron" });
        crons.interval("acting", { hours: 7 }, internal.jobs.slow, { text: "acting cron" });
        crons.monthly("seldom", { day: 31, hourUTC: 0, minuteUTC: 30 }, internal.jobs.note, { text: "monthly" });
        export default crons;
    """,
    "convex.config.ts": 'import { defineApp } from "convex/server"; import part from "./part/convex.config"; const app = defineApp(); app.use(part); export default app;',
    "part/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("part");',
    "part/lib.ts": """
        import { mutation } from "./_generated/server";
        export const add = mutation({ args: {}, handler: async (ctx) => { await ctx.db.insert("rows", { of: "part" }); return (await ctx.db.query("rows").collect()).length; } });
    """,
}
VALUES = "await ctx.db.insert('anything', { none: null, big: 9007199254740993n, float: 0.1 + 0.2, minus: -0, nan: NaN, far: -Infinity, yes: true, text: 'grüße \\u0000 \\ud83d\\ude00', bytes: new Uint8Array([0, 255]).buffer, deep: { a: [[], {}, [1n]] } })"
CONTENT = bytes(range(256)) * 40


class Life:
    """A core before its death, what it said, and the core after it."""

    def __init__(self, core: DurableCore, bundler: Bundler, issuer: Issuer) -> None:
        auth = f'export default {{ providers: [{{ domain: "{issuer.url}", applicationID: "app" }}] }};'
        bundler.push(core, {**FILES, "auth.config.ts": auth})
        core.control("env.set", variables={"MODE": "kept", "GONE": "x"})
        core.control("env.set", variables={"GONE": None})
        self.said: dict[str, Any] = {}
        self.core = core
        core.run("p:m", {"code": VALUES})
        for rank in range(5):
            core.run("p:m", {"code": f"await ctx.db.insert('notes', {{ text: 'n{rank}', rank: {9 - rank} }})"})
        doomed = core.run("p:m", {"code": "return await ctx.db.insert('notes', { text: 'doomed', rank: 100 })"})
        core.run("p:m", {"code": f"await ctx.db.delete('{doomed}')"})
        core.run("p:m", {"code": "return await ctx.runMutation(t.components.part.lib.add, {})"})
        self.prepare_files()
        self.prepare_jobs()
        say = self.said
        say["page"] = core.run("p:q", {"code": PAGE, "args": {"cursor": None}})
        say["handle"] = core.run("p:handle")
        say["once"] = mutation_over_socket(core, "session", 7, "p:m", {"code": ONCE})
        say["failed"] = mutation_over_socket(core, "session", 8, "p:m", {"code": "throw new Error('no')"})
        for name in ("crons", "functionSpec", "schema", "components", "env.list"):
            say[name] = core.control(name)
        say["functionSpec"].pop("url")
        say["documents"] = self.documents()
        say["runs"] = [run for run in core.control("cronRuns") if run["name"] == "often"]
        say["ready"] = core.ready
        self.core = core.again()

    def documents(self) -> dict[str, list[Any]]:
        return {
            table: self.core.control("list", table=table)["documents"] for table in ("anything", "notes", "_storage")
        }

    def prepare_files(self) -> None:
        token = self.core.run("p:m", {"code": "return await ctx.storage.generateUploadUrl()"})
        uploaded = request(token, CONTENT, {"Content-Type": "image/x-own"}).json()
        kept = self.core.run("p:a", {"code": "return await ctx.storage.store(new Blob(['from an action']))"})
        gone = self.core.run("p:a", {"code": "return await ctx.storage.store(new Blob(['gone']))"})
        self.core.run("p:m", {"code": f"await ctx.storage.delete('{gone}')"})
        urls = {
            file: self.core.run("p:q", {"code": f"return await ctx.storage.getUrl('{file}')"})
            for file in (uploaded["storageId"], kept)
        }
        self.said |= {"token": token, "urls": urls}

    def prepare_jobs(self) -> None:
        run = "return await ctx.scheduler."
        self.said["later"] = self.core.run(
            "p:m", {"code": run + "runAfter(86400000, t.internal.jobs.note, { text: 'later' })"}
        )
        self.said["acting"] = self.core.run(
            "p:m", {"code": run + "runAfter(0, t.internal.jobs.slow, { text: 'acting job' })"}
        )
        wait_for(lambda: {"acting job", "acting cron", "cron"} <= self.texts())
        self.said["soon"] = self.core.run(
            "p:m", {"code": run + "runAfter(1500, t.internal.jobs.note, { text: 'soon' })"}
        )

    def texts(self) -> set[str]:
        return {note["text"] for note in self.core.control("list", table="notes")["documents"]}

    def state(self, id: str) -> Any:
        return next(job for job in self.core.control("scheduled") if job["_id"] == id)["state"]


PAGE = "return await ctx.db.query('notes').withIndex('by_rank', (q) => q.gt('rank', 0)).paginate({ numItems: 2, cursor: args.cursor })"
ONCE = "console.log('a line'); await ctx.db.insert('notes', { text: 'once' }); return { big: 5n, text: 'answer' }"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    running = Issuer(tmp_path_factory.mktemp("issuer"))
    yield running
    running.lines.close()


@pytest.fixture(scope="module", params=["log", "snapshot"])
def life(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, bundler: Bundler, issuer: Issuer
) -> Iterator[Life]:
    folder = tmp_path_factory.mktemp("data") / "folder"
    options = [] if request.param == "log" else ["--compact-bytes=1"]
    found = Life(DurableCore(folder, *options), bundler, issuer)
    assert (found.core.log.name > "log-000001") == (request.param == "snapshot")
    yield found
    found.core.close()


def test_documents_with_their_ids_and_creation_times(life: Life) -> None:
    now = life.documents()
    before = life.said["documents"]
    assert now["anything"] == before["anything"]
    assert now["_storage"] == before["_storage"]
    assert [note for note in now["notes"] if note["text"] != "soon"] == before["notes"]


def test_tables_keep_their_numbers_and_new_documents_come_later(life: Life) -> None:
    [old] = life.said["documents"]["anything"]
    code = f"const id = await ctx.db.insert('anything', {{}}); const both = [await ctx.db.get('{old['_id']}'), await ctx.db.get(id)]; await ctx.db.delete(id); return both"
    first, second = life.core.run("p:m", {"code": code})
    assert first == old
    assert second["_creationTime"] > max(note["_creationTime"] for note in life.said["documents"]["notes"])
    code = "await ctx.db.insert('anything', {}); throw new Error((await ctx.db.query('anything').collect()).length)"
    assert "Error: 2" in life.core.fails("p:m", {"code": code}).detail


def test_indexes_search_and_schema(life: Life) -> None:
    code = (
        "return (await ctx.db.query('notes').withIndex('by_rank', (q) => q.gt('rank', 0)).collect()).map((n) => n.text)"
    )
    assert life.core.run("p:q", {"code": code}) == ["n4", "n3", "n2", "n1", "n0"]
    code = "return (await ctx.db.query('notes').withSearchIndex('search_text', (q) => q.search('text', 'n3')).collect()).map((n) => n.text)"
    assert life.core.run("p:q", {"code": code}) == ["n3"]
    error = life.core.fails("p:m", {"code": "await ctx.db.insert('notes', { text: 5 })"})
    assert "does not match the schema" in error.detail


def test_files_their_urls_and_tokens_for_uploads(life: Life) -> None:
    here = lambda url: url.replace(life.said["ready"]["url"], life.core.url)  # noqa: E731
    uploaded, stored = (request(here(url)) for url in life.said["urls"].values())
    assert (uploaded.body, uploaded.headers["Content-Type"]) == (CONTENT, "image/x-own")
    assert stored.text == "from an action"
    assert len(list((life.core.folder / "files").iterdir())) == 2
    again = request(here(life.said["token"]), b"late").json()["storageId"]
    assert life.core.run("p:a", {"code": f"return await (await ctx.storage.get('{again}')).text()"}) == "late"
    life.core.run("p:m", {"code": f"await ctx.storage.delete('{again}')"})
    wait_for(lambda: len(list((life.core.folder / "files").iterdir())) == 2)


def test_jobs_that_waited_run_when_they_are_due_and_once(life: Life) -> None:
    wait_for(lambda: life.state(life.said["soon"])["kind"] == "success")
    assert [note["text"] for note in life.documents()["notes"]].count("soon") == 1
    assert life.state(life.said["later"]) == {"kind": "pending"}


def test_a_job_whose_action_was_running_has_failed(life: Life) -> None:
    wait_for(lambda: life.state(life.said["acting"])["kind"] != "inProgress")
    assert life.state(life.said["acting"]) == {"kind": "failed", "error": "Transient error while executing action"}


def test_crons_go_on_as_planned(life: Life) -> None:
    plans = lambda jobs: {job["name"]: job["nextRun"] for job in jobs}  # noqa: E731
    before, now = plans(life.said["crons"]), plans(life.core.control("crons"))
    assert (now["often"], now["seldom"]) == (before["often"], before["seldom"])
    runs = life.core.control("cronRuns")
    assert [run for run in runs if run["name"] == "often"] == life.said["runs"]
    assert len(life.said["runs"]) == 1
    [acting] = [run for run in runs if run["name"] == "acting"]
    assert acting["status"] == {"type": "err", "error": "Transient error while executing action"}
    assert now["acting"] == acting["scheduledFor"] + 7 * 3_600_000


def test_the_deployment_with_its_environment(life: Life) -> None:
    spec = life.core.control("functionSpec")
    spec.pop("url")
    assert spec == life.said["functionSpec"]
    for name in ("schema", "components", "env.list"):
        assert life.core.control(name) == life.said[name]
    assert life.core.run("p:q", {"code": "return [process.env.MODE, process.env.GONE ?? null]"}) == ["kept", None]
    assert life.core.run("p:m", {"code": "return await ctx.runMutation(t.components.part.lib.add, {})"}) == 2


def test_keys_names_cursors_and_handles_stay_valid(life: Life) -> None:
    for name in ("adminKey", "instanceName"):
        assert life.core.ready[name] == life.said["ready"][name]
    page = life.core.run("p:q", {"code": PAGE, "args": {"cursor": life.said["page"]["continueCursor"]}})
    assert [note["text"] for note in page["page"]] == ["n2", "n1"]
    assert life.core.run("p:byHandle", {"handle": life.said["handle"]}) == "handled"


def test_tokens_of_the_auth_config(life: Life, issuer: Issuer) -> None:
    life.core.control("allowFetch", origins=[issuer.url])
    asked = {"path": "p:q", "args": {"code": "return (await ctx.auth.getUserIdentity()).subject"}}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {issuer.token()}"}
    assert request(f"{life.core.url}/api/query", json.dumps(asked).encode(), headers).json()["value"] == "ann"


def test_a_mutation_that_is_sent_again_is_answered_and_not_run(life: Life) -> None:
    count = lambda: [note["text"] for note in life.documents()["notes"]].count("once")  # noqa: E731
    again = mutation_over_socket(life.core, "session", 7, "p:m", {"code": ONCE})
    assert {key: again[key] for key in ("success", "result", "logLines")} == {
        key: life.said["once"][key] for key in ("success", "result", "logLines")
    }
    assert count() == 1
    assert mutation_over_socket(life.core, "session", 8, "p:m", {"code": "return 'now'"})["result"] == "now"
    assert mutation_over_socket(life.core, "other", 7, "p:m", {"code": "return 'other'"})["result"] == "other"


def test_jobs_are_scheduled_while_new_tables_are_on_their_way_to_disk(bundler: Bundler, tmp_path: Path) -> None:
    """A new table conflicts with everybody until it is seen."""
    core = DurableCore(tmp_path)
    try:
        bundler.push(core, {"p.ts": PROGRAMS})
        code = """for (let i = 0; i < 12; i++) await Promise.all([
            ctx.runMutation(t.internal.p.innerM, { code: `await ctx.db.insert(args, {})`, args: `t${args}_${i}` }),
            ...[1, 2, 3].map(() => ctx.scheduler.runAfter(0, t.internal.p.innerM, { code: "" })),
        ]);"""
        calls = [core.lines.begin(op="call", params={"path": "p:a", "args": {"code": code, "args": n}}) for n in (1, 2)]
        assert [call()["ok"].get("error") for call in calls] == [None, None]
        jobs = lambda: [job["state"]["kind"] for job in core.control("scheduled")]  # noqa: E731
        wait_for(lambda: jobs() == ["success"] * 72)
    finally:
        core.close()
