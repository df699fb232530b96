# ruff: noqa: E501 - programs in tables stay on one line
"""System functions and endpoints that dashboards, graders and the CLI use beyond documents: files, jobs, crons, components."""

import base64
import json
from typing import Any

import pytest

from .support.core import Core, Response, request
from .support.programs import PROGRAMS
from .support.sockets import Frames

FILES = {
    "p.ts": PROGRAMS,
    "work.ts": """
        import { internalMutation, internalAction } from "./_generated/server";
        import { v } from "convex/values";
        export const tick = internalMutation({ args: { n: v.optional(v.number()) }, handler: async (ctx, args) => { console.log("tick"); return args.n ?? null; } });
        export const other = internalAction({ args: {}, handler: async () => { throw new Error("broken"); } });
    """,
    "crons.ts": """
        import { cronJobs } from "convex/server";
        import { internal } from "./_generated/api";
        const crons = cronJobs();
        crons.interval("often", { minutes: 1 }, internal.work.tick, { n: 7 });
        crons.daily("daily", { hourUTC: 4, minuteUTC: 30 }, internal.work.other);
        crons.cron("expression", "0 12 * * 1", internal.work.tick, {});
        export default crons;
    """,
    "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ path: "/a", method: "GET", handler: httpAction(async () => new Response()) }); export default http;',
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
          rows: defineTable({ n: v.number(), s: v.optional(v.string()), e: v.optional(v.array(v.float64())) }).index("by_n", ["n"])
            .searchIndex("text", { searchField: "s", filterFields: ["n"] }).vectorIndex("near", { vectorField: "e", dimensions: 3 }),
          loose: defineTable(v.any()),
        });
    """,
    "convex.config.ts": 'import { defineApp } from "convex/server"; import part from "./part/convex.config"; const app = defineApp(); app.use(part); export default app;',
    "part/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("part");',
    "part/inner.ts": """
        import { mutation, internalMutation } from "./_generated/server";
        import { internal } from "./_generated/api";
        export const later = internalMutation({ args: {}, handler: async () => null });
        export const plan = mutation({ args: {}, handler: async (ctx) => await ctx.scheduler.runAfter(60_000, internal.inner.later, {}) });
        export const add = mutation({ args: {}, handler: async (ctx) => await ctx.db.insert("inside", { a: 1 }) });
    """,
}
START = 1_700_000_000_000
FIRST = {"numItems": 10, "cursor": None}


def system(app: Core, path: str, /, **args: Any) -> Any:
    return app.run(f"_system/{path}", args, identity="admin")


def write(app: Core, path: str, /, **args: Any) -> Any:
    return app.run(f"_system/{path}", args, identity="admin", kind="Mutation")


def integer(value: dict[str, str]) -> int:
    return int.from_bytes(base64.b64decode(value["$integer"]), "little", signed=True)


def part_id(app: Core) -> str:
    found: str = next(one["id"] for one in system(app, "frontend/components:list") if one["path"] == "part")
    return found


def schedule(app: Core, name: str, delay: float, args: dict[str, Any] | None = None) -> str:
    code = f"return await ctx.scheduler.runAfter({delay}, t.internal.work.{name}, args)"
    identifier: str = app.run("p:m", {"code": code, "args": args or {}})
    return identifier


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("frontend/getById", {}, "Uncaught Error: Object is missing the required field `id`."),
        ("frontend/getById", {"id": 5}, "Uncaught Error: Value does not match validator.\nPath: .id"),
        ("frontend/tableSize", {"tableName": "rows", "odd": 1}, "Uncaught Error: Object contains extra field `odd`"),
        (
            "cli/tableData",
            {"table": "rows", "order": "up", "paginationOpts": FIRST},
            "Uncaught Error: Value does not match validator.\nPath: .order",
        ),
        ("cli/tableData", {"table": "rows"}, "Uncaught Error: Object is missing the required field `paginationOpts`."),
        ("frontend/getSchemas", {"componentId": "none"}, "Uncaught Error: Component none not found"),
        ("frontend/paginatedTableDocuments", {"table": "rows", "paginationOpts": FIRST, "filters": "e30"}, None),
        (
            "frontend/paginatedTableDocuments",
            {"table": "rows", "paginationOpts": FIRST, "filters": "!"},
            "Uncaught Error: Invalid filters:",
        ),
        (
            "frontend/addDocument",
            {"table": "rows", "documents": []},
            "Trying to execute _system/frontend/addDocument.js:default as Query, but it is defined as Mutation.",
        ),
        ("frontend/nothing", {}, "Could not find public function for '_system/frontend/nothing'."),
    ],
)
def test_arguments_of_system_functions_are_checked(
    fresh: Core, name: str, args: dict[str, Any], text: str | None
) -> None:
    if text is None:
        assert system(fresh, name, **args)["page"] == []
    else:
        assert fresh.fails(f"_system/{name}", args, identity="admin").detail.startswith(text)


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_table_data_comes_in_pages_of_either_order_and_shows_system_tables(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"n": n} for n in range(5)])
    seen, cursor = [], None
    for _ in range(3):
        page = system(
            fresh, "cli/tableData", table="rows", order="asc", paginationOpts={"numItems": 2, "cursor": cursor}
        )
        seen += [row["n"] for row in page["page"]]
        cursor = page["continueCursor"]
    assert (seen, page["isDone"]) == ([0, 1, 2, 3, 4], True)
    assert [
        row["n"] for row in system(fresh, "cli/tableData", table="rows", order="desc", paginationOpts=FIRST)["page"]
    ] == [4, 3, 2, 1, 0]
    assert system(fresh, "cli/tableData", table="nothing", order="asc", paginationOpts=FIRST)["page"] == []
    job = schedule(fresh, "tick", 60_000)
    [row] = system(fresh, "cli/tableData", table="_scheduled_functions", order="asc", paginationOpts=FIRST)["page"]
    assert (row["_id"], row["name"], row["state"]) == (job, "work.js:tick", {"kind": "pending"})
    upload(fresh, b"x")
    [row] = system(fresh, "cli/tableData", table="_storage", order="asc", paginationOpts=FIRST)["page"]
    assert row["size"] == 1


def test_documents_are_filtered(fresh: Core) -> None:
    fresh.control("insert", table="rows", documents=[{"n": n} for n in range(6)])

    def found(order: str, *clauses: dict[str, Any]) -> list[float]:
        filters = base64.b64encode(json.dumps({"clauses": clauses, "order": order}).encode()).decode()
        page = system(fresh, "frontend/paginatedTableDocuments", table="rows", paginationOpts=FIRST, filters=filters)
        return [row["n"] for row in page["page"]]

    assert found("asc", {"op": "gte", "field": "n", "value": 2}, {"op": "neq", "field": "n", "value": 4}) == [2, 3, 5]
    assert found("desc", {"op": "eq", "field": "s", "value": None, "enabled": False}) == [5, 4, 3, 2, 1, 0]
    plain = system(fresh, "frontend/paginatedTableDocuments", table="rows", paginationOpts=FIRST, filters=None)
    assert [row["n"] for row in plain["page"]] == [5, 4, 3, 2, 1, 0]


def test_a_listing_stops_before_it_reads_too_much(fresh: Core) -> None:
    fresh.control("insert", table="loose", documents=[{"text": "x" * 1_000_000} for _ in range(20)])
    rows = system(fresh, "frontend/listTableScan", table="loose", limit=100)
    assert 10 < len(rows) < 20


def test_a_new_table_obeys_the_schema(fresh: Core) -> None:
    assert write(fresh, "frontend/createTable", table="fresh") is None
    assert {"name": "fresh"} in system(fresh, "cli/tables", paginationOpts=FIRST)["page"]
    error = fresh.fails("_system/frontend/createTable", {"table": "rows"}, identity="admin", kind="Mutation")
    assert "Object is missing the required field `n`" in error.message


def test_documents_by_id_and_tables_by_size(fresh: Core) -> None:
    [row] = fresh.control("insert", table="rows", documents=[{"n": 1}])["ids"]
    file = upload(fresh, b"abc")
    listed = system(
        fresh,
        "frontend/listById",
        ids=[{"id": row, "tableName": "rows"}, {"id": file, "tableName": "_file_storage"}],
    )
    assert (listed[0]["n"], listed[1]["size"]) == (1, 3)
    assert system(fresh, "frontend/tableSize", tableName="_file_storage") == 1
    assert system(fresh, "cli/tableSize", tableName="rows") == 1
    assert system(fresh, "frontend/tableSize:sizeOfAllTables") == 1
    gone = {"id": row, "document": {"n": 2}}
    fresh.run("p:m", {"code": "await ctx.db.delete(args)", "args": row})
    assert write(fresh, "frontend/replaceDocument", **gone) == {"success": False, "error": "Document does not exist."}
    fresh.control("insert", table="rows", documents=[{"n": 1, "s": "a"}, {"n": 2, "s": "b"}])
    assert write(fresh, "frontend/patchDocumentsFields", table="rows", fields={"n": 5}) == {"success": True}
    assert [row["n"] for row in fresh.control("list", table="rows")["documents"]] == [5, 5]
    many = [{"id": row, "tableName": "rows"}] * 4097
    assert write(fresh, "frontend/deleteDocuments", toDelete=many)["success"] is False


def test_a_watched_table_changes_its_number(fresh: Core) -> None:
    """What `convex data --watch` looks at."""
    with Frames(fresh) as socket:
        socket.send({"type": "Authenticate", "baseVersion": 0, "tokenType": "Admin", "value": fresh.key})
        socket.subscribe(0, "_system/cli/queryTable", {"tableName": "rows"})
        first = socket.updates()[0]["value"]
        fresh.control("insert", table="rows", documents=[{"n": 1}])
        assert socket.updates()[0]["value"] != first


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def upload(app: Core, body: bytes) -> str:
    url = write(app, "frontend/fileStorageV2:generateUploadUrl")
    identifier: str = request(url, body, {"Content-Type": "text/x-mine"}).json()["storageId"]
    return identifier


def test_files(fresh: Core) -> None:
    first, second, third = (upload(fresh, b"x" * n) for n in (1, 2, 3))
    assert system(fresh, "frontend/fileStorageV2:numFiles") == 3
    file = system(fresh, "frontend/fileStorageV2:getFile", storageId=second)
    assert (file["_id"], file["size"], file["contentType"]) == (second, 2, "text/x-mine")
    assert request(file["url"]).body == b"xx"
    page = system(fresh, "frontend/fileStorageV2:fileMetadata", paginationOpts={"numItems": 2, "cursor": None})
    assert ([row["size"] for row in page["page"]], page["isDone"]) == ([3, 2], False)
    rest = system(
        fresh, "frontend/fileStorageV2:fileMetadata", paginationOpts={"numItems": 2, "cursor": page["continueCursor"]}
    )
    assert ([row["size"] for row in rest["page"]], rest["isDone"]) == ([1], True)
    filters = {"minCreationTime": file["_creationTime"], "order": "asc"}
    later = system(fresh, "frontend/fileStorageV2:fileMetadata", paginationOpts=FIRST, filters=filters)
    assert [row["_id"] for row in later["page"]] == [second, third]
    write(fresh, "frontend/fileStorageV2:deleteFile", storageId=first)
    write(fresh, "frontend/fileStorageV2:deleteFiles", storageIds=[second, third])
    assert system(fresh, "frontend/fileStorageV2:numFiles") == 0
    assert system(fresh, "frontend/fileStorageV2:getFile", storageId=second) is None
    assert request(file["url"]).status == 404


# ── scheduled functions ─────────────────────────────────────────────────────────────────────────────────────────────


def test_scheduled_functions_that_are_due_come_in_pages(fresh: Core) -> None:
    fresh.control("clock.start", time=START)
    late = schedule(fresh, "tick", 3000, {"n": 3})
    soon = schedule(fresh, "tick", 1000, {"n": 1})
    other = schedule(fresh, "other", 2000)
    page = system(fresh, "frontend/paginatedScheduledJobs", paginationOpts={"numItems": 2, "cursor": None})
    assert ([row["_id"] for row in page["page"]], page["isDone"]) == ([soon, other], False)
    first = page["page"][0]
    assert (first["udfPath"], first["state"], first["component"]) == ("work.js:tick", {"type": "pending"}, "")
    assert json.loads(base64.b64decode(first["udfArgs"]["$bytes"])) == [{"n": 1}]
    assert integer(first["nextTs"]) == (START + 1000) * 1_000_000
    rest = system(
        fresh, "frontend/paginatedScheduledJobs", paginationOpts={"numItems": 2, "cursor": page["continueCursor"]}
    )
    assert ([row["_id"] for row in rest["page"]], rest["isDone"]) == ([late], True)
    named = system(fresh, "frontend/paginatedScheduledJobs", paginationOpts=FIRST, udfPath="work:other")
    assert [row["_id"] for row in named["page"]] == [other]
    fresh.control("clock.advance", ms=1500)
    left = system(fresh, "frontend/paginatedScheduledJobs", paginationOpts=FIRST)["page"]
    assert [row["_id"] for row in left] == [other, late]


def states(app: Core) -> dict[str, str]:
    return {row["_id"]: row["state"]["kind"] for row in app.control("scheduled")}


def cancel(app: Core, path: str = "/api/cancel_all_jobs", **body: Any) -> Response:
    answer = app.post(path, body, app.key)
    assert (answer.status, answer.json()) == (200, None)
    return answer


def test_scheduled_functions_are_cancelled_by_filter(fresh: Core) -> None:
    fresh.control("clock.start", time=START)
    one, two, three = (schedule(fresh, "tick", delay) for delay in (1000, 2000, 3000))
    other = schedule(fresh, "other", 2000)
    inside = fresh.run("inner:plan", component="part", identity="admin")
    everything = {one, two, three, other, inside}

    def cancelled() -> set[str]:
        found = states(fresh)
        assert set(found) == everything
        return {identifier for identifier, kind in found.items() if kind == "canceled"}

    cancel(fresh, udfPath="work:nothing")
    cancel(fresh, udfPath="work:tick", componentPath="part")
    assert cancelled() == set()
    cancel(fresh, udfPath="work:tick", startNextTs=(START + 2000) * 1_000_000, endNextTs=(START + 3000) * 1_000_000)
    assert cancelled() == {two}
    cancel(fresh, udfPath="work.js:other")
    assert cancelled() == {two, other}
    cancel(fresh, "/api/cancel_job", id=one)
    assert cancelled() == {two, other, one}
    cancel(fresh)
    assert cancelled() == everything - {inside}
    cancel(fresh, componentId=part_id(fresh))
    assert cancelled() == everything


def test_a_job_of_another_table_is_not_cancelled(fresh: Core) -> None:
    [row] = fresh.control("insert", table="rows", documents=[{"n": 1}])["ids"]
    answer = fresh.post("/api/cancel_job", {"id": row}, fresh.key)
    assert answer.status == 400
    assert answer.json()["message"].startswith("Invalid scheduled function ID.")


# ── crons ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cron_jobs_with_their_schedules_and_runs(fresh: Core) -> None:
    fresh.control("clock.start", time=START)
    jobs = {job["name"]: job for job in system(fresh, "frontend/listCronJobs")}
    assert set(jobs) == {"often", "daily", "expression"}
    often = jobs["often"]["cronSpec"]
    assert (often["udfPath"], integer(often["cronSchedule"]["seconds"])) == ("work.js:tick", 60)
    assert json.loads(base64.b64decode(often["udfArgs"]["$bytes"])) == [{"n": 7}]
    daily = jobs["daily"]["cronSpec"]["cronSchedule"]
    assert (daily["type"], integer(daily["hourUTC"]), integer(daily["minuteUTC"])) == ("daily", 4, 30)
    assert jobs["expression"]["cronSpec"]["cronSchedule"] == {"type": "cron", "cronExpr": "0 12 * * 1"}
    assert (jobs["daily"]["lastRun"], jobs["daily"]["nextRun"]["state"]) == (None, {"type": "pending"})
    assert START < integer(jobs["daily"]["nextRun"]["nextTs"]) / 1_000_000 <= START + 86_400_000
    fresh.control("clock.advance", ms=8 * 60_000)
    jobs = {job["name"]: job for job in system(fresh, "frontend/listCronJobs")}
    last = jobs["often"]["lastRun"]
    assert (last["status"]["type"], json.loads(last["status"]["result"]["value"])) == ("success", 7)
    assert (last["logLines"]["logLines"], integer(last["ts"])) == (["[LOG] 'tick'"], (START + 480_000) * 1_000_000)
    assert integer(jobs["often"]["nextRun"]["prevTs"]) == (START + 480_000) * 1_000_000
    runs = system(fresh, "frontend/listCronJobRuns")
    assert [integer(run["ts"]) // 1_000_000 - START for run in runs] == [240_000, 300_000, 360_000, 420_000, 480_000]
    fresh.control("clock.advance", ms=86_400_000)
    [failed] = [run for run in system(fresh, "frontend/listCronJobRuns") if run["name"] == "daily"]
    assert failed["status"]["type"] == "err"
    assert "Uncaught Error: broken" in failed["status"]["error"]


# ── the deployment ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_components_and_what_they_hold(fresh: Core) -> None:
    root, part = system(fresh, "frontend/components:list")
    assert (root["path"], "name" in root, root["state"]) == ("", False, "active")
    assert (part["path"], part["name"], part["httpPrefix"]) == ("part", "part", None)
    fresh.run("inner:add", component="part", identity="admin")
    inside = {"componentId": part["id"]}
    assert system(fresh, "cli/tables", paginationOpts=FIRST, **inside)["page"] == [{"name": "inside"}]
    assert [row["a"] for row in system(fresh, "frontend/listTableScan", table="inside", limit=5, **inside)] == [1]
    assert system(fresh, "frontend/listTableScan", table="inside", limit=5) == []
    assert [
        row["a"]
        for row in fresh.run(
            "_system/frontend/listTableScan", {"table": "inside", "limit": 5}, identity="admin", component="part"
        )
    ] == [1]
    assert system(fresh, "frontend/getSchemas", **inside) == {}


def test_modules_with_routes_and_crons(fresh: Core) -> None:
    modules = dict(system(fresh, "frontend/modules:list"))
    assert {"p.js", "work.js", "crons.js", "http.js"} <= set(modules)
    assert [one["name"] for one in modules["work.js"]["functions"]] == ["tick", "other"]
    assert modules["work.js"]["functions"][0]["visibility"] == {"kind": "internal"}
    assert [(one["name"], one["udfType"]) for one in modules["http.js"]["functions"]] == [("GET /a", "HttpAction")]
    assert [name for name, _ in modules["crons.js"]["cronSpecs"]] == ["daily", "expression", "often"]
    assert "cronSpecs" not in modules["work.js"]
    everywhere = dict(system(fresh, "frontend/modules:listForAllComponents"))
    assert [path for path, _ in everywhere[part_id(fresh)]] == ["inner.js"]
    validator = json.loads(system(fresh, "frontend/modules:argsValidator", function="work:tick"))
    assert validator["value"]["n"] == {"fieldType": {"type": "number"}, "optional": True}
    assert system(fresh, "frontend/modules:argsValidator", function="work:none") is None


def test_variables_addresses_and_state(fresh: Core) -> None:
    fresh.control("env.set", variables={"B": "2", "A": "1"})
    assert system(fresh, "frontend/listEnvironmentVariables") == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "2"},
    ]
    assert system(fresh, "cli/queryEnvironmentVariables:get", name="A") == {"name": "A", "value": "1"}
    assert system(fresh, "cli/queryEnvironmentVariables:get", name="none") is None
    listed = request(f"{fresh.url}/api/list_environment_variables", headers={"Authorization": f"Convex {fresh.key}"})
    assert listed.json() == {"environmentVariables": {"A": "1", "B": "2"}}
    assert system(fresh, "cli/convexUrl:cloudUrl") == system(fresh, "frontend/convexCloudUrl") == fresh.url
    assert system(fresh, "cli/convexUrl:siteUrl") == system(fresh, "frontend/convexSiteUrl") == fresh.site
    assert system(fresh, "frontend/deploymentState:deploymentState") == {"state": "running"}
    assert system(fresh, "frontend/getVersion") == "1.48.0"
    assert system(fresh, "frontend/getSchemas:schemaValidationProgress") is None


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────


def get(app: Core, path: str) -> Any:
    answer = request(app.url + path, headers={"Authorization": f"Convex {app.key}"})
    assert answer.status == 200, answer.text
    return answer.json()


def test_shapes_of_tables(fresh: Core) -> None:
    [row] = fresh.control("insert", table="rows", documents=[{"n": 1}])["ids"]
    documents = [
        {"a": 1, "b": {"$integer": "AQAAAAAAAAA="}, "r": row},
        {"a": "x", "l": [None, True]},
        {"a": 2, "l": []},
    ]
    fresh.control("insert", table="loose", documents=documents)
    shapes = get(fresh, "/api/shapes2")
    fields = {field["fieldName"]: (field["optional"], field["shape"]) for field in shapes["loose"]["fields"]}
    number = {"type": "Float64", "float64Range": {"hasSpecialValues": False}}
    assert fields["_id"] == (False, {"type": "Id", "tableName": "loose"})
    assert fields["a"] == (False, {"type": "Union", "shapes": [number, {"type": "String"}]})
    assert fields["b"] == (True, {"type": "Int64"})
    assert fields["r"] == (True, {"type": "Id", "tableName": "rows"})
    assert fields["l"] == (
        True,
        {"type": "Array", "shape": {"type": "Union", "shapes": [{"type": "Null"}, {"type": "Boolean"}]}},
    )
    fresh.control("clear")
    assert get(fresh, "/api/shapes2")["rows"] == {"type": "Never"}
    assert get(fresh, f"/api/shapes2?component={part_id(fresh)}") == {}


def test_indexes_of_tables(fresh: Core) -> None:
    found = {index["name"]: index for index in get(fresh, "/api/get_indexes")["indexes"]}
    assert found["by_n"] == {
        "table": "rows",
        "name": "by_n",
        "fields": ["n", "_creationTime"],
        "staged": False,
        "backfill": {"state": "done"},
    }
    assert found["text"]["fields"] == {"searchField": "s", "filterFields": ["n"]}
    assert found["near"]["fields"] == {"vectorField": "e", "dimensions": 3, "filterFields": []}
    assert get(fresh, f"/api/get_indexes?component_id={part_id(fresh)}") == {"indexes": []}


def test_tables_are_deleted_unless_the_schema_has_them(fresh: Core) -> None:
    fresh.control("insert", table="extra", documents=[{}])
    refused = fresh.post("/api/delete_tables", {"tableNames": ["extra", "rows"]}, fresh.key)
    assert (refused.status, refused.json()["message"]) == (
        400,
        'Failed to delete table "rows" because it appears in the schema',
    )
    assert len(fresh.control("list", table="extra")["documents"]) == 1
    with Frames(fresh) as socket:
        socket.subscribe(0, "p:q", {"code": "return (await ctx.db.query('extra').collect()).length"})
        assert socket.updates()[0]["value"] == 1
        assert fresh.post("/api/delete_tables", {"tableNames": ["extra"], "componentId": None}, fresh.key).status == 200
        assert socket.updates()[0]["value"] == 0
    assert {"name": "extra"} not in system(fresh, "cli/tables", paginationOpts=FIRST)["page"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/shapes2"),
        ("GET", "/api/get_indexes"),
        ("POST", "/api/delete_tables"),
        ("POST", "/api/cancel_job"),
        ("POST", "/api/cancel_all_jobs"),
    ],
)
def test_only_an_administrator_uses_them(fresh: Core, method: str, path: str) -> None:
    body = b"{}" if method == "POST" else None
    for headers in ({}, {"Authorization": "Convex wrong"}):
        answer = request(fresh.url + path, body, {"Content-Type": "application/json", **headers}, method)
        assert (answer.status, answer.json()["code"]) == (403, "BadDeployKey")
