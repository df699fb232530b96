# ruff: noqa: E501 - programs in tables stay on one line
"""The commands of the real CLI against the engine: codegen, run, env, data, function-spec, logs, deploy; each with bad input."""

import json
import os
import shutil
from pathlib import Path

import pytest

from .support.cli import running_cli
from .support.core import Core
from .support.project import cli_push, run_cli, write_project

FILES = {
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ notes: defineTable({ text: v.string(), n: v.optional(v.int64()) }).index("by_text", ["text"]) });
    """,
    "notes.ts": """
        import { query, mutation, action, internalQuery } from "./_generated/server";
        import { components } from "./_generated/api";
        import { v, ConvexError } from "convex/values";
        export const list = query({ args: {}, handler: async (ctx) => (await ctx.db.query("notes").collect()).map((n) => n.text) });
        export const add = mutation({ args: { text: v.string(), n: v.optional(v.int64()) }, handler: async (ctx, args) => { console.log("adding", args.text); await ctx.db.insert("notes", args); return args.text; } });
        export const hidden = internalQuery({ args: {}, returns: v.string(), handler: async () => "secret" });
        export const me = query({ args: {}, handler: async (ctx) => (await ctx.auth.getUserIdentity())?.name ?? null });
        export const refuse = action({ args: {}, handler: async () => { throw new ConvexError({ why: "no" }); } });
        export const put = mutation({ args: {}, handler: (ctx) => ctx.runMutation(components.shelf.items.put, { n: 1 }) });
        export default query({ args: {}, handler: async () => "the default" });
    """,
    "http.ts": 'import { httpRouter } from "convex/server"; import { httpAction } from "./_generated/server"; const http = httpRouter(); http.route({ path: "/x", method: "GET", handler: httpAction(async () => new Response("x")) }); export default http;',
    "convex.config.ts": 'import { defineApp } from "convex/server"; import shelf from "./shelf/convex.config"; const app = defineApp(); app.use(shelf); export default app;',
    "shelf/convex.config.ts": 'import { defineComponent } from "convex/server"; export default defineComponent("shelf");',
    "shelf/schema.ts": 'import { defineSchema, defineTable } from "convex/server"; import { v } from "convex/values"; export default defineSchema({ items: defineTable({ n: v.number() }) });',
    "shelf/items.ts": """
        import { mutation, query, internalQuery } from "./_generated/server";
        import { v } from "convex/values";
        export const put = mutation({ args: { n: v.number() }, handler: async (ctx, args) => { await ctx.db.insert("items", args); } });
        export const all = query({ args: {}, handler: async (ctx) => (await ctx.db.query("items").collect()).map((i) => i.n) });
        export const inner = internalQuery({ args: {}, handler: async () => "inside" });
    """,
}
BROKEN = 'import { query } from "./_generated/server"; export const f = query({ handler: async () => 1 }); throw new Error("at import");'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, core: Core) -> Path:
    path = tmp_path_factory.mktemp("project")
    pushed = cli_push(core, path, FILES)
    assert pushed.code == 0, pushed.output
    return path


@pytest.fixture
def app(core: Core, folder: Path) -> Core:
    core.control("reset")
    return core


def ok(core: Core, folder: Path, *command: str) -> str:
    done = run_cli(core, folder, *command)
    assert done.code == 0, done.output
    return done.output


def refused(core: Core, folder: Path, *command: str) -> str:
    done = run_cli(core, folder, *command)
    assert done.code == 1, done.output
    return done.output


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A project of one's own to change."""
    target = tmp_path / "copy"
    shutil.copytree(folder, target, symlinks=True)
    return target


def test_codegen_writes_what_the_engine_analysed(app: Core, copy: Path) -> None:
    shutil.rmtree(copy / "convex" / "_generated")
    shutil.rmtree(copy / "convex" / "shelf" / "_generated")
    ok(app, copy, "codegen", "--typecheck", "disable")
    written = {path.name for path in (copy / "convex" / "_generated").iterdir()}
    assert {"api.js", "api.d.ts", "dataModel.d.ts", "server.js", "server.d.ts"} <= written
    assert "shelf" in (copy / "convex" / "_generated" / "api.d.ts").read_text()
    component = (copy / "convex" / "shelf" / "_generated" / "component.ts").read_text()
    assert "put: FunctionReference" in component
    assert "inner" not in component


def test_codegen_of_broken_code(app: Core, copy: Path) -> None:
    (copy / "convex" / "broken.ts").write_text(BROKEN)
    assert "Failed to analyze broken.js: Uncaught Error: at import" in refused(
        app, copy, "codegen", "--typecheck", "disable"
    )
    assert app.run("notes:list") == []


def test_run(app: Core, folder: Path) -> None:
    assert '"hi"' in ok(app, folder, "run", "notes:add", "{text: 'hi', n: {$integer: 'BQAAAAAAAAA='}}")
    assert json.loads(ok(app, folder, "run", "api.notes.list")) == ["hi"]
    assert ok(app, folder, "run", "notes").strip() == '"the default"'
    assert ok(app, folder, "run", "notes:hidden").strip() == '"secret"'
    assert ok(app, folder, "run", "notes:me", "--identity", "{name: 'Ann'}").strip() == '"Ann"'
    assert ok(app, folder, "run", "items:put", "{n: 4}", "--component", "shelf").strip() == ""
    assert json.loads(ok(app, folder, "run", "items:all", "--component", "shelf")) == [4]
    assert ok(app, folder, "run", "items:inner", "--component", "shelf").strip() == '"inside"'


def test_run_of_what_is_not_there(app: Core, folder: Path) -> None:
    missing = refused(app, folder, "run", "notes:none")
    assert "Could not find function for 'notes:none'. Did you forget to run `npx convex dev`?" in missing
    assert "• notes:add" in missing
    assert "• items:put" in refused(app, folder, "run", "notes:list", "--component", "shelf")
    assert "Could not find function" in refused(app, folder, "run", "items:all", "--component", "none")
    assert "ArgumentValidationError" in refused(app, folder, "run", "notes:add", "{}")
    assert "Failed to parse arguments as JSON" in refused(app, folder, "run", "notes:add", "{")
    assert 'Uncaught ConvexError: {"why":"no"}' in refused(app, folder, "run", "notes:refuse")


def test_run_watches(app: Core, folder: Path) -> None:
    with running_cli(app, folder, "run", "notes:list", "--watch") as watching:
        watching.wait_for("[]")
        app.run("notes:add", {"text": "first"})
        watching.wait_for('"first"')
        app.run("notes:add", {"text": "second"})
        watching.wait_for('"second"')
        assert watching.interrupt() == 0
    with running_cli(app, folder, "run", "items:all", "--component", "shelf", "--watch") as watching:
        watching.wait_for("[]")
        app.run("notes:put")
        watching.wait_for("1")
        watching.interrupt()
    assert "Could not find" in refused(app, folder, "run", "notes:none", "--watch")


def test_run_pushes_first(copy: Path) -> None:
    core = Core()
    try:
        (copy / "convex" / "more.ts").write_text(
            'import { query } from "./_generated/server"; export const f = query({ handler: async () => "pushed" });'
        )
        assert '"pushed"' in ok(core, copy, "run", "more:f", "--push", "--typecheck", "disable")
        (copy / "convex" / "more.ts").write_text(BROKEN)
        assert "at import" in refused(core, copy, "run", "more:f", "--push", "--typecheck", "disable")
        assert core.run("more:f") == "pushed"
    finally:
        core.close()


def test_env(app: Core, folder: Path) -> None:
    assert "No environment variables set" in ok(app, folder, "env", "list")
    ok(app, folder, "env", "set", "COLOR", "dark blue")
    ok(app, folder, "env", "set", "SIZE=5")
    (folder / "vars.env").write_text("ONE=1\nTWO='2 2'\n")
    ok(app, folder, "env", "set", "--from-file", "vars.env")
    try:
        assert app.control("env.list") == {"COLOR": "dark blue", "SIZE": "5", "ONE": "1", "TWO": "2 2"}
        assert ok(app, folder, "env", "get", "COLOR").strip() == "dark blue"
        listed = ok(app, folder, "env", "list", "--include-values").splitlines()
        assert [line.split("=")[0] for line in listed if "=" in line] == ["COLOR", "ONE", "SIZE", "TWO"]
        ok(app, folder, "env", "remove", "COLOR")
        ok(app, folder, "env", "remove", "NEVER_THERE")
        assert "COLOR" not in app.control("env.list")
        assert 'Environment variable "COLOR" not found' in run_cli(app, folder, "env", "get", "COLOR").output
        assert "EnvironmentVariableNameInvalid" in refused(app, folder, "env", "set", "1BAD", "x")
        assert "EnvVarNameForbidden" in refused(app, folder, "env", "set", "CONVEX_SITE_URL", "x")
        assert "already exist" in refused(app, folder, "env", "set", "--from-file", str(changed(folder)))
    finally:
        app.control("env.set", variables=dict.fromkeys(("COLOR", "SIZE", "ONE", "TWO")))


def changed(folder: Path) -> Path:
    (folder / "other.env").write_text("ONE=other\n")
    return folder / "other.env"


def test_data(app: Core, folder: Path) -> None:
    assert "There are no documents in this table." in ok(app, folder, "data", "notes")
    for n in range(5):
        app.run("notes:add", {"text": f"t{n}", "n": {"$integer": "BQAAAAAAAAA="}})
    app.run("notes:put")
    assert ok(app, folder, "data").split() == ["notes"]
    assert ok(app, folder, "data", "--component", "shelf").split() == ["items"]

    def texts(*options: str) -> list[str]:
        lines = ok(app, folder, "data", "notes", "--format", "jsonLines", *options).splitlines()
        return [line.split('"text": "')[1][:2] for line in lines if line.startswith("{")]

    assert texts() == ["t4", "t3", "t2", "t1", "t0"]
    assert texts("--order", "asc") == ["t0", "t1", "t2", "t3", "t4"]
    assert texts("--limit", "2") == ["t4", "t3"]
    table = ok(app, folder, "data", "notes", "--limit", "2")
    assert "| 5n " in table
    assert "Showing the 2 most recently created documents" in table
    assert '"n": 1' in ok(app, folder, "data", "items", "--component", "shelf", "--format", "json")
    assert "There are no documents in this table." in ok(app, folder, "data", "none")
    assert "There are no documents in this table." in ok(app, folder, "data", "_storage")
    refused(app, folder, "data", "notes", "--limit", "none")


def test_function_spec(app: Core, folder: Path) -> None:
    expected = {"url": app.url, "functions": app.control("functionSpec")["functions"]}
    assert {"functionType": "HttpAction", "method": "GET", "path": "/x"} in expected["functions"]
    assert json.loads(ok(app, folder, "function-spec")) == expected
    assert "Wrote function spec to function_spec_" in ok(app, folder, "function-spec", "--file")
    (written,) = folder.glob("function_spec_*.json")
    assert json.loads(written.read_text()) == expected


def test_logs(app: Core, folder: Path) -> None:
    app.run("notes:add", {"text": "before"})
    app.run("notes:list")
    app.fails("notes:refuse")
    with running_cli(app, folder, "logs", "--history", "--success") as logs:
        logs.wait_for("[CONVEX M(notes.js:add)] [LOG] 'adding' 'before'")
        logs.wait_for("[CONVEX Q(notes.js:list)] Function executed in")
        logs.wait_for('[CONVEX A(notes.js:refuse)] Uncaught ConvexError: {"why":"no"}')
        app.run("notes:add", {"text": "while watching"})
        logs.wait_for("'adding' 'while watching'")
    with running_cli(app, folder, "logs", "--history", "1") as logs:
        logs.wait_for("'while watching'")
        app.run("notes:list")
        app.run("notes:add", {"text": "last"})
        logs.wait_for("'last'")
        assert "before" not in logs.output
        assert "Function executed" not in logs.output
    with running_cli(app, folder, "logs", "--history", "--jsonl") as logs:
        logs.wait_for('"identifier":"notes.js:refuse"')
    key, app.key = app.key, "wrong|key"
    try:
        assert "The provided deploy key was invalid" in refused(app, folder, "logs")
    finally:
        app.key = key


def test_deploy(copy: Path) -> None:
    core = Core()
    command = ("deploy", "--typecheck", "disable")
    try:
        dry = ok(core, copy, *command, "--dry-run", "--cmd", "touch made-by-cmd")
        assert "Would have deployed Convex functions" in dry
        assert not (copy / "made-by-cmd").exists()
        assert core.control("functionSpec")["functions"] == []
        ok(core, copy, *command, "--cmd", "echo $CONVEX_URL > made-by-cmd", "--cmd-url-env-var-name", "CONVEX_URL")
        assert (copy / "made-by-cmd").read_text().strip() == core.url
        assert core.run("notes:add", {"text": "kept"}) == "kept"
        assert "made-by-cmd" in os.listdir(copy)
        (copy / "convex" / "schema.ts").write_text(FILES["schema.ts"].replace("text: v.string()", "text: v.number()"))
        (copy / "convex" / "notes.ts").write_text(
            'import { query } from "./_generated/server"; export const list = query({ handler: async () => "new" });'
        )
        assert "does not match the schema" in refused(core, copy, *command)
        assert core.run("notes:list") == ["kept"]
        refused(core, copy, *command, "--cmd", "exit 3")
    finally:
        core.close()


def test_deploy_of_broken_code_and_with_a_wrong_key(app: Core, copy: Path) -> None:
    (copy / "convex" / "broken.ts").write_text(BROKEN)
    assert "Uncaught Error: at import" in refused(app, copy, "deploy", "--typecheck", "disable")
    key, app.key = app.key, "wrong|key"
    try:
        assert "The provided deploy key was invalid for deployment" in refused(
            app, copy, "deploy", "--typecheck", "disable"
        )
    finally:
        app.key = key


def test_an_older_cli(app: Core, tmp_path: Path) -> None:
    write_project(tmp_path, {}, "1.31.2")
    app.run("notes:add", {"text": "old"})
    assert json.loads(ok(app, tmp_path, "run", "notes:list")) == ["old"]
    assert '"old"' in ok(app, tmp_path, "data", "notes")
    assert json.loads(ok(app, tmp_path, "function-spec"))["url"] == app.url
    assert "Could not find function" in refused(app, tmp_path, "run", "notes:none")
    with running_cli(app, tmp_path, "logs", "--history", "5") as logs:
        logs.wait_for("'adding' 'old'")
