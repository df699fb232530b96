# ruff: noqa: E501 - programs in tables stay on one line
"""The real CLI, the real JavaScript clients and the real Python client against the engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .support.core import Core
from .support.project import cli_push, run_cli, run_node, write_project
from .support.toolchain import toolchain

FILES = {
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ notes: defineTable({ text: v.string(), n: v.optional(v.int64()) }).index("by_text", ["text"]) });
    """,
    "notes.ts": """
        import { query, mutation, action, internalQuery } from "./_generated/server";
        import { api } from "./_generated/api";
        import { v, ConvexError } from "convex/values";
        export const list = query({ args: {}, handler: async (ctx) => (await ctx.db.query("notes").collect()).map((n) => n.text) });
        export const add = mutation({ args: { text: v.string() }, returns: v.id("notes"), handler: (ctx, args) => ctx.db.insert("notes", args) });
        export const twice = action({ args: { text: v.string() }, handler: async (ctx, { text }): Promise<string[]> => {
          await ctx.runMutation(api.notes.add, { text }); await ctx.runMutation(api.notes.add, { text });
          return await ctx.runQuery(api.notes.list, {}); } });
        export const big = query({ args: {}, handler: async () => 5n });
        export const refuse = mutation({ args: {}, handler: async () => { throw new ConvexError({ why: "no" }); } });
        export const long = query({ args: { n: v.number() }, handler: async (_, { n }) => "x".repeat(n) });
        export const hidden = internalQuery({ args: {}, handler: async () => "secret" });
        export const me = query({ args: {}, handler: async (ctx) => await ctx.auth.getUserIdentity() });
    """,
}


@pytest.fixture(scope="module")
def folder(core: Core, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    pushed = cli_push(core, folder, FILES)
    assert pushed.code == 0, pushed.output
    return folder


@pytest.fixture
def app(core: Core, folder: Path) -> Core:
    core.control("reset")
    return core


def javascript(app: Core, folder: Path, body: str) -> object:
    script = f"""
        import {{ ConvexHttpClient, ConvexClient }} from "convex/browser";
        import {{ anyApi as api }} from "convex/server";
        const {{ URL_, KEY }} = process.env;
        const show = (value) => console.log(JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${{item}}n` : item)));
        {body}
    """
    return json.loads(run_node(script, folder, URL_=app.url, KEY=app.key))


def test_the_push_writes_generated_code(folder: Path, app: Core) -> None:
    assert "notes" in (folder / "convex/_generated/api.d.ts").read_text()
    assert [function["identifier"] for function in app.control("functionSpec")["functions"]] == [
        f"notes.js:{name}" for name in ("list", "add", "twice", "big", "refuse", "long", "hidden", "me")
    ]


def test_a_second_push_of_the_same_code_keeps_data(folder: Path, app: Core) -> None:
    app.run("notes:add", {"text": "kept"})
    again = cli_push(app, folder, FILES)
    assert again.code == 0, again.output
    assert app.run("notes:list") == ["kept"]


def test_a_push_that_stored_data_contradicts_fails_and_changes_nothing(folder: Path, app: Core) -> None:
    app.run("notes:add", {"text": "a"})
    changed = {
        **FILES,
        "schema.ts": FILES["schema.ts"].replace("text: v.string()", "text: v.string(), must: v.number()"),
    }
    refused = cli_push(app, folder, changed)
    cli_push(app, folder, FILES)
    assert refused.code == 1
    assert "Object is missing the required field `must`" in refused.output
    assert app.run("notes:add", {"text": "b"})


def test_the_http_client(folder: Path, app: Core) -> None:
    found = javascript(
        app,
        folder,
        """
        const client = new ConvexHttpClient(URL_);
        await client.mutation(api.notes.add, { text: "one" });
        const after = await client.action(api.notes.twice, { text: "two" });
        const failure = await client.mutation(api.notes.refuse, {}).catch((e) => [e.name, e.data, e.message]);
        const hidden = await client.query(api.notes.hidden, {}).catch((e) => e.message);
        client.setAdminAuth(KEY);
        show([after, await client.query(api.notes.big, {}), failure, hidden, await client.query(api.notes.hidden, {})]);
    """,
    )
    assert found[0] == ["one", "two", "two"]
    assert found[1] == "5n"
    assert found[2][:2] == ["ConvexError", {"why": "no"}]
    assert "Uncaught ConvexError" in found[2][2]
    assert found[3].endswith("Could not find public function for 'notes:hidden'.")
    assert found[4] == "secret"


def test_acting_as_an_identity_over_http_and_websocket(folder: Path, app: Core) -> None:
    found = javascript(
        app,
        folder,
        """
        const http = new ConvexHttpClient(URL_); http.setAdminAuth(KEY, { issuer: "https://i", subject: "s", name: "Ann" });
        const socket = new ConvexClient(URL_); socket.client.setAdminAuth(KEY, { issuer: "https://i", subject: "t" });
        show([await http.query(api.notes.me, {}), await socket.query(api.notes.me, {})]);
        await socket.close();
    """,
    )
    assert found[0] == {"issuer": "https://i", "subject": "s", "name": "Ann", "tokenIdentifier": "https://i|s"}
    assert found[1]["tokenIdentifier"] == "https://i|t"


def test_subscriptions_update_exactly_when_their_data_changes(folder: Path, app: Core) -> None:
    found = javascript(
        app,
        folder,
        """
        const client = new ConvexClient(URL_);
        const seen = [];
        const arrived = () => new Promise((resolve) => { const timer = setInterval(() => { if (seen.at(-1)?.length === 3) { clearInterval(timer); resolve(); } }, 5); });
        client.onUpdate(api.notes.list, {}, (value) => seen.push(value));
        await client.query(api.notes.big, {});
        await client.mutation(api.notes.add, { text: "x" });
        await client.mutation(api.notes.refuse, {}).catch(() => null);
        await client.action(api.notes.twice, { text: "y" });
        await arrived();
        show([seen[0], seen[1], seen[seen.length - 1], await client.query(api.notes.list, {})]);
        await client.close();
    """,
    )
    assert found == [[], ["x"], ["x", "y", "y"], ["x", "y", "y"]]


def test_many_clients_see_each_other(folder: Path, app: Core) -> None:
    found = javascript(
        app,
        folder,
        """
        const clients = Array.from({ length: 4 }, () => new ConvexClient(URL_));
        await Promise.all(clients.flatMap((client, i) => Array.from({ length: 10 }, (_, k) => client.mutation(api.notes.add, { text: `${i}-${k}` }))));
        show((await clients[0].query(api.notes.list, {})).length);
        for (const client of clients) await client.close();
    """,
    )
    assert found == 40


def test_large_results_arrive_in_chunks(folder: Path, app: Core) -> None:
    size = 6_000_000
    app.run("notes:add", {"text": "x"})
    found = javascript(
        app,
        folder,
        f"""
        const client = new ConvexClient(URL_);
        show((await client.query(api.notes.long, {{ n: {size} }})).length);
        await client.close();
    """,
    )
    assert found == size


def test_function_spec_run_env_and_data_of_the_cli(folder: Path, app: Core) -> None:
    spec = run_cli(app, folder, "function-spec")
    assert json.loads(spec.output[spec.output.index("{") :])["functions"] == app.control("functionSpec")["functions"]
    assert run_cli(app, folder, "run", "notes:hidden").output.strip().endswith('"secret"')
    assert run_cli(app, folder, "run", "notes:add", '{"text": "cli"}').code == 0
    assert "cli" in run_cli(app, folder, "data", "notes").output
    identity = '{"issuer": "https://i", "subject": "s", "name": "Ann"}'
    assert '"Ann"' in run_cli(app, folder, "run", "notes:me", "--identity", identity).output
    assert run_cli(app, folder, "env", "set", "COLOR", "red").code == 0
    assert run_cli(app, folder, "env", "get", "COLOR").output.strip() == "red"
    assert app.control("env.list") == {"COLOR": "red"}


def test_a_syntax_error_and_a_server_refusal_end_the_push_with_one(app: Core, tmp_path: Path) -> None:
    refused = cli_push(app, tmp_path, {"a.ts": 'export const x = 1; throw new Error("at import");'})
    assert refused.code == 1
    assert "Failed to analyze a.js: Uncaught Error: at import" in refused.output


def test_the_python_client(folder: Path, app: Core) -> None:
    script = """
import json, sys
from convex import ConvexClient, ConvexError, ConvexInt64
from convex.http_client import ConvexHttpClient
url, key = sys.argv[1:]
client = ConvexClient(url)
client.mutation("notes:add", {"text": "py"})
found = [client.query("notes:list"), client.action("notes:twice", {"text": "z"}), client.query("notes:big").value]
try:
    client.mutation("notes:refuse")
except ConvexError as error:
    found.append(error.data)
try:
    client.query("notes:hidden")
except Exception as error:
    found.append("Could not find public function" in str(error))
client.set_admin_auth(key)
found.append(client.query("notes:hidden"))
found.append(ConvexHttpClient(url).query("notes:list"))
print(json.dumps(found))
"""
    finished = subprocess.run(
        [sys.executable, "-c", script, app.url, app.key], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == [["py"], ["py", "z", "z"], 5, {"why": "no"}, True, "secret", ["py", "z", "z"]]


def test_packages_outside_the_bundle(tmp_path: Path) -> None:
    packages = tmp_path / "node_modules"
    for name, main in {
        "plain": "module.exports = (x) => x * 2;",
        "modern": "export default 7; export const named = 'n';",
    }.items():
        (packages / name).mkdir(parents=True)
        kind = "module" if name == "modern" else "commonjs"
        (packages / name / "package.json").write_text(
            json.dumps({"name": name, "version": "1.0.0", "type": kind, "main": "index.js"})
        )
        (packages / name / "index.js").write_text(main)
    (packages / "convex").symlink_to(toolchain().modules / "convex")
    files = {
        "n.ts": """
            "use node";
            import { action } from "./_generated/server";
            import twice from "plain";
            import seven, { named } from "modern";
            export const f = action({ args: {}, handler: async () => [twice(4), seven, named] });
        """
    }
    write_project(tmp_path, files)
    (tmp_path / "package.json").write_text(
        json.dumps({"dependencies": {"convex": "1.48.0", "plain": "1.0.0", "modern": "1.0.0"}})
    )
    (tmp_path / "convex.json").write_text(json.dumps({"node": {"externalPackages": ["*"]}}))
    core = Core()
    try:
        refused = run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable")
        assert refused.code == 1
        assert "No packages are installed for" in refused.output
        core.control("packages", folder=str(packages))
        assert run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable").code == 0
        assert core.run("n:f") == [8, 7, "n"]
    finally:
        core.close()


@pytest.mark.parametrize("version", ["1.31.2", "1.41.0", "1.48.0"])
def test_each_version_of_the_cli_pushes(version: str, tmp_path: Path) -> None:
    """The project's own convex package bundles, pushes and runs in the functions."""
    core = Core()
    try:
        pushed = cli_push(core, tmp_path, FILES, version)
        assert pushed.code == 0, pushed.output
        assert core.run("notes:twice", {"text": "a"}) == ["a", "a"]
        assert core.control("functionSpec")["functions"][1]["identifier"] == "notes.js:add"
        refused = cli_push(core, tmp_path, {"bad.ts": 'export const x = 1; throw new Error("at import");'}, version)
        assert refused.code == 1
        assert "Failed to analyze bad.js: Uncaught Error: at import" in refused.output
        assert core.run("notes:list") == ["a", "a"]
    finally:
        core.close()
