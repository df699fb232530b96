# ruff: noqa: E501 - programs in tables stay on one line
"""`convex import` and `convex export` of the real CLI: every format and mode, files, components, a round trip, bad files."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support.core import Core, request
from .support.programs import PROGRAMS
from .support.project import Bundler, CliResult, run_cli, write_project

FILES = {
    "p.ts": PROGRAMS,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({
            typed: defineTable({ text: v.string(), n: v.optional(v.number()), other: v.optional(v.id("typed")) }).index("by_text", ["text"]),
            free: defineTable(v.any()),
        }, { strictTableNameTypes: false });
    """,
    "convex.config.ts": 'import { defineApp } from "convex/server"; import shelf from "./shelf/convex.config"; const app = defineApp(); app.use(shelf); export default app;',
    "shelf/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("shelf");',
    "shelf/f.ts": 'import { mutation } from "./_generated/server"; export const add = mutation({ args: {}, handler: (ctx) => ctx.db.insert("inner", { big: 5n }) }); export const url = mutation({ args: {}, handler: (ctx) => ctx.storage.generateUploadUrl() });',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which the CLI needs only that it is one."""
    path = tmp_path_factory.mktemp("project")
    write_project(path, {})
    return path


@pytest.fixture
def other(bundler: Bundler) -> Iterator[Core]:
    """A second engine with the same functions."""
    core = Core()
    bundler.push(core, FILES)
    yield core
    core.close()


def put(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def archive(folder: Path, entries: dict[str, str | bytes]) -> str:
    with zipfile.ZipFile(folder / "made.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries.items():
            made.writestr(name, content)
    return "made.zip"


def documents(core: Core, table: str, component: str = "") -> list[dict[str, Any]]:
    return core.control("list", table=table, component=component)["documents"]


def plain(core: Core, table: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in documents(core, table)]


def imported(core: Core, folder: Path, *options: str) -> CliResult:
    done = run_cli(core, folder, "import", *options)
    assert done.code == 0, done.output
    return done


FORMATS = {"a.csv": "csv", "a.jsonl": "jsonLines", "a.json": "jsonArray"}


def uploaded(core: Core, content: bytes, kind: str, table: str | None, mode: str) -> dict[str, Any]:
    """The last state of an import that is made and confirmed as the CLI does it."""
    admin = {"Authorization": f"Convex {core.key}"}
    token = request(f"{core.url}/api/import/start_upload", b"", admin).json()["uploadToken"]
    part = request(f"{core.url}/api/import/upload_part?uploadToken={token}&partNumber=1", content, admin).json()
    wanted = {"mode": mode, "format": kind, **({} if table is None else {"tableName": table})}
    body = {"import": wanted, "uploadToken": token, "partTokens": [part]}
    identifier = core.post("/api/import/finish_upload", body, core.key).json()["importId"]

    def state() -> dict[str, Any]:
        return core.run("_system/cli/queryImport", {"importId": identifier}, identity="admin")["state"]

    if state()["state"] == "waiting_for_confirmation":
        assert core.post("/api/perform_import", {"importId": identifier}, core.key).status == 200
    return state()


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        (
            "a.csv",
            'text,n\nplain,1.5\n"with, comma ""q""",2\n"two\nlines",-3e2\n',
            [{"text": "plain", "n": 1.5}, {"text": 'with, comma "q"', "n": 2}, {"text": "two\nlines", "n": -300}],
        ),
        ("a.jsonl", '{"text": "a", "n": 1}\n\n{"text": "b"}\n', [{"text": "a", "n": 1}, {"text": "b"}]),
        ("a.json", '[{"text": "a"}, {"text": "b", "n": 2}]', [{"text": "a"}, {"text": "b", "n": 2}]),
    ],
    ids=["csv", "jsonLines", "jsonArray"],
)
def test_each_format_of_a_table(fresh: Core, folder: Path, name: str, text: str, rows: list[dict[str, Any]]) -> None:
    done = imported(fresh, folder, "--table", "typed", put(folder, name, text))
    assert f'Added {len(rows)} documents to table "typed".' in done.output
    assert plain(fresh, "typed") == rows
    first = fresh.run(
        "p:q",
        {
            "code": 'return (await ctx.db.query("typed").withIndex("by_text", (q) => q.eq("text", args)).unique())._id',
            "args": rows[0]["text"],
        },
    )
    assert first == documents(fresh, "typed")[0]["_id"]


def test_ids_and_times_are_kept(fresh: Core, folder: Path) -> None:
    identifier = fresh.control("insert", table="typed", documents=[{"text": "a"}])["ids"][0]
    (row,) = documents(fresh, "typed")
    fresh.control("clear", table="typed")
    imported(
        fresh,
        folder,
        "--table",
        "typed",
        put(folder, "a.jsonl", json.dumps({**row, "text": "again", "other": identifier})),
    )
    assert documents(fresh, "typed") == [{**row, "text": "again", "other": identifier}]


def test_a_table_that_is_not_in_the_schema(fresh: Core, folder: Path) -> None:
    imported(fresh, folder, "--table", "fresh_one", put(folder, "a.jsonl", '{"x": {"$integer": "BQAAAAAAAAA="}}'))
    assert plain(fresh, "fresh_one") == [{"x": {"$integer": "BQAAAAAAAAA="}}]


def test_modes(fresh: Core, folder: Path) -> None:
    name = put(folder, "a.jsonl", '{"text": "new"}')
    fresh.control("insert", table="typed", documents=[{"text": "old"}])
    fresh.control("insert", table="loose", documents=[{"x": 1}])
    fresh.control("insert", table="free", documents=[{"x": 1}])
    refused = run_cli(fresh, folder, "import", "--table", "typed", name)
    assert refused.code == 1
    assert (
        'Table "typed" already has 1 documents: use --append to add to them or --replace to replace them'
        in refused.output
    )
    imported(fresh, folder, "--table", "typed", "--append", name)
    assert [row["text"] for row in plain(fresh, "typed")] == ["old", "new"]
    asked = run_cli(fresh, folder, "import", "--table", "typed", "--replace", name)
    assert asked.code == 1
    assert "typed | 1      | 2 of 2 |" in asked.output
    assert len(documents(fresh, "typed")) == 2
    imported(fresh, folder, "--table", "typed", "--replace", "-y", name)
    assert plain(fresh, "typed") == [{"text": "new"}]
    assert len(documents(fresh, "loose")) == 1
    done = imported(
        fresh, folder, "--replace-all", "-y", archive(folder, {"typed/documents.jsonl": '{"text": "only"}\n'})
    )
    assert "Added 1 documents" in done.output
    assert (plain(fresh, "typed"), documents(fresh, "loose"), documents(fresh, "free")) == ([{"text": "only"}], [], [])
    tables = run_cli(fresh, folder, "data").output.split()
    assert ("loose" in tables, "free" in tables) == (False, True)


def test_subscribed_queries_and_later_writes_see_an_import(fresh: Core, folder: Path) -> None:
    imported(fresh, folder, "--table", "typed", put(folder, "a.jsonl", '{"text": "b"}'))
    fresh.run("p:m", {"code": 'await ctx.db.insert("typed", { text: "a" })'})
    assert fresh.run(
        "p:q", {"code": 'return (await ctx.db.query("typed").withIndex("by_text").collect()).map((d) => d.text)'}
    ) == ["a", "b"]


def test_a_table_of_a_component(fresh: Core, folder: Path) -> None:
    imported(fresh, folder, "--component", "shelf", "--table", "inner", put(folder, "a.jsonl", '{"n": 1}'))
    assert [row["n"] for row in documents(fresh, "inner", "shelf")] == [1]
    assert documents(fresh, "inner") == []
    refused = run_cli(fresh, folder, "import", "--component", "none", "--table", "inner", "a.jsonl")
    assert refused.code == 1
    assert 'There is no component "none"' in refused.output


def fill(core: Core) -> None:
    """Every kind of value, references, a component, files."""
    core.run(
        "p:m",
        {
            "code": """
        const first = await ctx.db.insert("typed", { text: "grüße \\n\\"q\\"" });
        await ctx.db.insert("typed", { text: "", n: -0, other: first });
        await ctx.db.insert("free", { big: 2n ** 62n, bytes: new Uint8Array([0, 255]).buffer, odd: [NaN, Infinity, -0, 1.5], deep: { list: [{ i: 1n }, { s: "1" }], none: null }, looks: "5" });
        await ctx.db.insert("loose", { to: first });
        await ctx.db.delete(await ctx.db.insert("vacant", {}));
    """
        },
    )
    core.run("f:add", component="shelf", identity="admin")
    for component, body in (("", b"\x00file"), ("shelf", b"inner file")):
        path = "f:url" if component else "p:m"
        args = {} if component else {"code": "return await ctx.storage.generateUploadUrl()"}
        url = core.run(path, args, component=component, identity="admin")
        assert request(url, body, {"Content-Type": "a/b"}).status == 200


def everything(core: Core) -> dict[str, Any]:
    tables = {name: documents(core, name) for name in ("typed", "free", "loose", "vacant", "_storage")}
    return {**tables, "inner": documents(core, "inner", "shelf"), "inner files": documents(core, "_storage", "shelf")}


def test_a_round_trip_into_a_fresh_engine(fresh: Core, other: Core, folder: Path) -> None:
    fill(fresh)
    before = everything(fresh)
    exported = run_cli(fresh, folder, "export", "--include-file-storage", "--path", "whole.zip")
    assert exported.code == 0, exported.output
    assert "Downloaded snapshot export to whole.zip" in exported.output
    assert everything(fresh) == before
    imported(other, folder, "whole.zip")
    assert everything(other) == before
    for core in (fresh, other):
        identifier = before["_storage"][0]["_id"]
        url = core.run("p:q", {"code": "return await ctx.storage.getUrl(args)", "args": identifier})
        assert request(url).body == b"\x00file"
    urls = [
        core.run("p:q", {"code": "return await ctx.storage.getUrl(args)", "args": identifier}).split("/")[-1]
        for core in (fresh, other)
    ]
    assert urls[0] == urls[1]
    assert (
        other.run("p:q", {"code": 'return (await ctx.db.get((await ctx.db.query("loose").first()).to)).text'})
        == before["typed"][0]["text"]
    )
    again = run_cli(other, folder, "import", "whole.zip")
    assert again.code == 1
    assert "already has" in again.output
    imported(other, folder, "--replace", "-y", "whole.zip")
    assert everything(other) == before


def test_an_export_as_others_read_it(fresh: Core, folder: Path, tmp_path: Path) -> None:
    fill(fresh)
    exported = run_cli(fresh, folder, "export", "--path", str(tmp_path))
    assert exported.code == 0, exported.output
    (found,) = tmp_path.glob("snapshot_*.zip")
    with zipfile.ZipFile(found) as opened:
        assert opened.testzip() is None
        names = set(opened.namelist())
        assert {
            "_tables/documents.jsonl",
            "typed/documents.jsonl",
            "free/generated_schema.jsonl",
            "vacant/documents.jsonl",
            "_components/shelf/inner/documents.jsonl",
        } <= names
        assert not any("_storage" in name for name in names)
        free = json.loads(opened.read("free/documents.jsonl"))
        assert (free["big"], free["bytes"], free["odd"]) == (str(2**62), "AP8=", ["NaN", "Infinity", 0, 1.5])
    refused = run_cli(fresh, folder, "export", "--path", str(found))
    assert refused.code == 1
    assert "already exists" in refused.output


def test_numbers_of_tables_follow_their_ids(fresh: Core, other: Core, folder: Path) -> None:
    """The other engine has given the numbers of two tables to one another, and a third one holds data."""
    for core, order in ((fresh, ("one", "two")), (other, ("two", "one"))):
        for table in order:
            core.control("insert", table=table, documents=[{"name": table}])
    before = [documents(fresh, "one"), documents(fresh, "two")]
    assert run_cli(fresh, folder, "export", "--path", "swapped.zip").code == 0
    imported(other, folder, "--replace", "-y", "swapped.zip")
    assert [documents(other, "one"), documents(other, "two")] == before
    lines = "".join(json.dumps(row) + "\n" for row in before[0])
    refused = run_cli(other, folder, "import", "--table", "three", put(folder, "one.jsonl", lines))
    assert refused.code == 1
    assert 'The ids of table "three" conflict with those of the existing table "one"' in refused.output
    assert [documents(other, "one"), documents(other, "three")] == [before[0], []]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text":\n', "Line 2 of the file is not valid JSON"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "is not an object"),
        ("a.jsonl", '{"text": "a", "_id": "nonsense"}', "is not a valid _id"),
        ("a.jsonl", '{"text": "a", "_creationTime": "today"}', "is not a valid _creationTime"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": 5}\n',
            'Failed to insert or update a document in table "typed" because it does not match the schema',
        ),
        ("a.jsonl", '{"text": "a", "$no": 1}', "starts with '$'"),
        ("a.jsonl", '{"text": "%s"}' % ("x" * 1_100_000), "Value is too large"),
        ("a.json", '{"text": "a"}', "The file is not a JSON array of objects"),
        ("a.json", "[", "The file is not valid JSON"),
        ("a.csv", "", "The CSV file has no header row"),
        ("a.csv", "text,n\nx\n", "CSV row 1 has 1 fields, but the header has 2"),
        ("a.csv", 'text\n"x\n', "CSV row 1 has a quote out of place"),
        ("a.csv", "text,text\nx,y\n", 'The CSV header names "text" twice'),
    ],
)
def test_bad_files_change_nothing(fresh: Core, name: str, text: str, error: str) -> None:
    fresh.control("insert", table="typed", documents=[{"text": "old"}])
    before = documents(fresh, "typed")
    state = uploaded(fresh, text.encode(), FORMATS[name], "typed", "replace")
    assert state["state"] == "failed"
    assert error in state["error_message"]
    assert documents(fresh, "typed") == before


def test_the_cli_tells_of_bad_files(fresh: Core, folder: Path) -> None:
    for text, error in (
        ('{"text":', "Line 1 of the file is not valid JSON"),
        ('{"text": 5}', "does not match the schema"),
    ):
        failed = run_cli(fresh, folder, "import", "--table", "typed", put(folder, "bad.jsonl", text))
        assert failed.code == 1
        assert 'Importing data from "bad.jsonl" to table "typed" failed' in failed.output
        assert error in failed.output


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"README.md": "hello"}, "The ZIP file has no tables"),
        ({"_components/none/t/documents.jsonl": "{}"}, 'There is no component "none"'),
        ({"bad-name/documents.jsonl": "{}"}, 'Invalid table name "bad-name"'),
        ({"_storage/nonsense": "x"}, "the name of a stored file must begin with its _id"),
        ({"_storage/documents.jsonl": '{"_id": "kg2"}'}, "_storage: the file of kg2 is missing"),
        ({"typed/documents.jsonl": '{"text": 1}'}, "does not match the schema"),
    ],
)
def test_bad_archives(fresh: Core, tmp_path: Path, entries: dict[str, str | bytes], error: str) -> None:
    state = uploaded(fresh, (tmp_path / archive(tmp_path, entries)).read_bytes(), "zip", None, "requireEmpty")
    assert state["state"] == "failed"
    assert error in state["error_message"]


def test_what_is_no_archive_or_a_damaged_one(fresh: Core, folder: Path) -> None:
    whole = folder / archive(folder, {"typed/documents.jsonl": '{"text": "a"}\n' * 1000})
    good = whole.read_bytes()
    middle = 60  # within the packed data
    damaged = {
        "not one": b"just text",
        "cut": good[: len(good) // 2],
        "changed": good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :],
    }
    for kind, content in damaged.items():
        state = uploaded(fresh, content, "zip", None, "requireEmpty")
        assert (kind, state["state"]) == (kind, "failed")
        assert "Not a valid ZIP file" in state["error_message"]
    whole.write_bytes(damaged["cut"])
    failed = run_cli(fresh, folder, "import", "made.zip")
    assert failed.code == 1
    assert "Not a valid ZIP file" in failed.output
    assert documents(fresh, "typed") == []


def test_what_the_cli_refuses_itself(fresh: Core, folder: Path) -> None:
    name = put(folder, "a.jsonl", "{}")
    for options, error in (
        ((name,), "The `--table` option is required for format jsonLines"),
        (("--table", "t", "none.jsonl"), "does not exist"),
        (("--table", "t", put(folder, "plain", "x")), "No input file format inferred"),
    ):
        failed = run_cli(fresh, folder, "import", *options)
        assert failed.code == 1
        assert error in failed.output


def test_only_administrators_import_and_export(fresh: Core) -> None:
    for path in (
        "/api/import/start_upload",
        "/api/import/upload_part",
        "/api/import/finish_upload",
        "/api/perform_import",
        "/api/cancel_import",
        "/api/export/request/zip",
    ):
        answer = fresh.post(path, {})
        assert (answer.status, answer.json()["code"]) == (403, "BadDeployKey")
    assert request(f"{fresh.url}/api/export/zip/1").status == 403


def test_bad_requests(fresh: Core) -> None:
    def post(path: str, **body: Any) -> tuple[int, str]:
        answer = fresh.post(path, body, fresh.key)
        return answer.status, answer.json()["code"]

    assert post("/api/import/upload_part?uploadToken=x&partNumber=1") == (400, "UploadNotFound")
    assert post("/api/import/finish_upload", uploadToken="x", **{"import": {}}) == (400, "UploadNotFound")
    token = fresh.post("/api/import/start_upload", {}, fresh.key).json()["uploadToken"]
    assert post(f"/api/import/upload_part?uploadToken={token}&partNumber=none") == (400, "BadQueryArgs")
    assert post("/api/import/finish_upload", uploadToken=token, **{"import": {"mode": "odd"}}) == (400, "BadJsonBody")
    assert post("/api/perform_import", importId="x") == (400, "ImportNotFound")


def test_a_large_import_in_several_parts(fresh: Core, folder: Path) -> None:
    """More documents than one function may write, in more than one part of the upload."""
    count = 20_000
    rows = "".join(json.dumps({"text": f"{n:05}" + "x" * 400, "n": n}) + "\n" for n in range(count))
    assert len(rows) > 5 * 1024 * 1024
    done = imported(fresh, folder, "--table", "typed", put(folder, "large.jsonl", rows))
    assert f"Added {count} documents" in done.output
    found = fresh.run(
        "p:q", {"code": 'return (await ctx.db.query("typed").withIndex("by_text").order("desc").first()).n'}
    )
    assert found == count - 1


@pytest.mark.parametrize("version", ["1.31.2"])
def test_an_older_cli(fresh: Core, tmp_path: Path, version: str) -> None:
    write_project(tmp_path, {}, version)
    imported(fresh, tmp_path, "--table", "typed", put(tmp_path, "a.jsonl", '{"text": "a"}'))
    exported = run_cli(fresh, tmp_path, "export", "--path", "out.zip")
    assert exported.code == 0, exported.output
    imported(fresh, tmp_path, "--replace", "-y", "out.zip")
    assert plain(fresh, "typed") == [{"text": "a"}]
