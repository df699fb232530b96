# ruff: noqa: E501 - programs in tables stay on one line
"""Actions in Node's runtime: what they may import, see, use up and leave behind; and how long any action may take."""

import json
from pathlib import Path

import pytest

from pytest_convex_evals.backends.embedded import _runners
from pytest_convex_evals.engine.setup import ensure_toolchain
from tests.support.cages import ISOLATING, cage_of

from .support.core import Core
from .support.programs import PROGRAMS
from .support.project import Bundler, run_cli, write_project
from .support.toolchain import toolchain

FILES = {
    "p.ts": PROGRAMS,
    "n.ts": """
        "use node";
        import { action, internalAction } from "./_generated/server";
        import { v, ConvexError } from "convex/values";
        import { api, internal } from "./_generated/api";
        import { createHash } from "node:crypto";
        import { readFileSync } from "fs";
        import path from "path";
        const compile = (code) => new Function("ctx", "args", "t", `return (async () => { ${code} })()`);
        export const a = action({ args: { code: v.string(), args: v.optional(v.any()) }, handler: (ctx, { code, args }) => compile(code)(ctx, args, { ConvexError, api, internal, createHash, readFileSync, path }) });
        export const typed = action({ args: { n: v.number() }, returns: v.string(), handler: async (_, { n }) => (n > 1 ? n : "small") as string });
        export const meta = action({ args: {}, handler: async () => [import.meta.url.startsWith("file:///"), typeof import.meta.dirname, typeof import.meta.filename] });
        let calls = 0;
        export const counted = internalAction({ args: {}, handler: async () => ++calls });
    """,
}


def run(core: Core, code: str, args: object = None) -> object:
    return core.run("n:a", {"code": code, "args": args})


def fails(core: Core, code: str) -> str:
    return core.fails("n:a", {"code": code}).detail


def test_nodes_own_modules_and_globals(fresh: Core) -> None:
    code = 'return [t.createHash("sha256").update("x").digest("hex").slice(0, 8), t.path.join("a", "b"), Buffer.from("hi").toString("base64"), typeof require, typeof setImmediate, typeof __dirname, require("node:os").EOL]'
    assert run(fresh, code) == ["2d711642", "a/b", "aGk=", "function", "function", "string", "\n"]


def test_names_of_both_kinds_of_modules(fresh: Core) -> None:
    assert fresh.run("n:meta") == [True, "string", "string"]
    assert run(fresh, "return [typeof module, exports === module.exports, typeof __filename]") == [
        "object",
        True,
        "string",
    ]


def test_a_thousand_operations_may_be_pending(fresh: Core) -> None:
    code = "const id = await ctx.storage.store(new Blob(['x'])); const all = await Promise.allSettled(Array.from({ length: 1200 }, () => ctx.storage.getUrl(id))); const no = all.filter((one) => one.status === 'rejected'); return [no.length, [...new Set(no.map((one) => one.reason.message))]]"
    assert run(fresh, code) == [200, ["Too many concurrent operations."]]


def test_functions_documents_and_errors(fresh: Core) -> None:
    code = """
        const id = await ctx.runMutation(t.api.p.m, { code: 'return await ctx.db.insert("t", { n: 1 })' });
        const found = await ctx.runQuery(t.api.p.q, { code: 'return (await ctx.db.get(args)).n', args: id });
        const inner = await ctx.runAction(t.api.p.a, { code: 'return typeof Buffer' });
        let caught;
        try { await ctx.runMutation(t.api.p.m, { code: 'throw new t.ConvexError({ why: 1 })' }); } catch (e) { caught = e.data; }
        return [found, inner, caught];
    """
    assert run(fresh, code) == [1, "undefined", {"why": 1}]
    refused = fresh.fails("n:a", {"code": "throw new t.ConvexError({ code: 7 })"})
    assert refused.data == {"code": 7}
    assert "ArgumentValidationError" in fresh.fails("n:typed", {"n": "x"}).message
    assert "ReturnsValidationError" in fresh.fails("n:typed", {"n": 2}).message
    assert fresh.run("n:typed", {"n": 1}) == "small"


def test_variables_and_state(fresh: Core) -> None:
    assert [fresh.run("n:counted", identity="admin") for _ in range(3)] == [1, 2, 3]
    fresh.control("env.set", variables={"SECRET": "s1"})
    try:
        assert run(
            fresh,
            "return [process.env.SECRET, process.env.TZ, process.env.HOME ?? null, Object.keys(process.env).includes('SECRET')]",
        ) == ["s1", "UTC", None, True]
        assert fresh.run("n:counted", identity="admin") == 1
    finally:
        fresh.control("env.set", variables={"SECRET": None})
    assert run(fresh, "return process.env.SECRET ?? null") is None


def test_log_lines_are_nodes(fresh: Core) -> None:
    answer = fresh.call(
        "n:a",
        {
            "code": 'console.log("a", 1, { b: { c: { d: { e: 1 } } } }); console.error(new Map([[1, 2]])); console.warn("it\'s")'
        },
    )
    assert answer["logLines"] == [
        "[LOG] 'a' 1 { b: { c: { d: [Object] } } }",
        "[ERROR] Map(1) { 1 => 2 }",
        '[WARN] "it\'s"',
    ]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (
            "void Promise.reject(new Error('lost')); await new Promise((done) => setTimeout(done, 200))",
            "Uncaught Error: lost",
        ),
        (
            "setTimeout(() => { throw new TypeError('late'); }, 1); await new Promise((done) => setTimeout(done, 500))",
            "Uncaught TypeError: late",
        ),
        ("process.exit(3)", "Uncaught Error: process.exit() called"),
        ("require('child_process').execSync('id')", "Uncaught Error: Access to this API has been restricted"),
        ("return t.readFileSync('/etc/passwd', 'utf8')", "Uncaught Error: Access to this API has been restricted"),
        ("require('no-such-package')", "Uncaught Error: Cannot find module 'no-such-package'"),
        ("throw null", "Uncaught null"),
    ],
)
def test_what_fails_an_action(fresh: Core, code: str, error: str) -> None:
    assert fails(fresh, code).startswith(error)
    assert run(fresh, "return 1") == 1


@pytest.mark.parametrize("level", ISOLATING)
def test_a_cage_of_its_own_has_a_folder_for_temporary_files(bundler: Bundler, level: str) -> None:
    core = Core("--cage", json.dumps(_runners(cage_of(level), ensure_toolchain(), None)))
    code = """
        const fs = require("fs/promises"), os = require("os"), tried = (work) => work.then(() => "did", (error) => error.code);
        const file = t.path.join(await fs.mkdtemp(t.path.join(os.tmpdir(), "mine-")), "a.txt");
        await fs.writeFile(file, "kept for a while");
        const read = await fs.readFile(file, "utf8"), listed = await fs.readdir(os.tmpdir());
        await fs.rm(t.path.dirname(file), { recursive: true });
        return [read, listed.length, await tried(fs.writeFile("/elsewhere", "")), await tried(fs.symlink("/etc", "/tmp/link")), await tried(fs.readdir("/"))];
    """
    try:
        bundler.push(core, FILES)
        assert run(core, code) == ["kept for a while", 1, *["ERR_ACCESS_DENIED"] * 3]
    finally:
        core.close()


def test_memory_is_limited_and_others_go_on(fresh: Core) -> None:
    code = "const kept = []; for (;;) { kept.push(new Array(100_000).fill(kept.length)); if (kept.length % 50 === 0) await null; }"
    assert fails(fresh, code) == "JavaScript execution ran out of memory (maximum memory usage: 512 MB)"
    assert run(fresh, "return 1") == 1
    assert fresh.run("p:q", {"code": "return 2"}) == 2


def test_an_action_that_never_yields_is_ended(bundler: Bundler) -> None:
    """Processor time without a yield, shortened here, so that the process can be used again."""
    core = Core("--action-seconds", "1")
    try:
        bundler.push(core, FILES)
        assert core.fails("n:a", {"code": "for (;;);"}).detail == "Function execution timed out (maximum duration: 1s)"
        assert core.run("n:a", {"code": "return 1"}) == 1
    finally:
        core.close()


def test_an_action_may_take_thirty_minutes(fresh: Core) -> None:
    fresh.control("clock.start", time=1_700_000_000_000)
    try:
        minutes = "await new Promise((done) => setTimeout(done, args * 60_000)); return 'done'"
        within = fresh.lines.begin(op="call", params={"path": "p:a", "args": {"code": minutes, "args": 29.9}})
        beyond = fresh.lines.begin(op="call", params={"path": "p:a", "args": {"code": minutes, "args": 31}})
        fresh.control("clock.advance", ms=32 * 60_000)
        assert within()["ok"]["value"] == "done"
        assert beyond()["ok"]["error"]["message"].endswith("Function execution timed out (maximum duration: 1800s)")
    finally:
        fresh.control("reset")


def packages(folder: Path) -> Path:
    """A node_modules with three small packages and the convex package."""
    modules = folder / "node_modules"
    texts = {
        "plain": ("commonjs", "module.exports = (x) => x * 2; module.exports.where = __dirname;"),
        "modern": ("module", "export default 7; export const named = 'n';"),
        "stateful": ("commonjs", "let n = 0; exports.next = () => ++n;"),
        "broken": ("commonjs", "throw new Error('at its import');"),
    }
    for name, (kind, main) in texts.items():
        (modules / name).mkdir(parents=True)
        (modules / name / "package.json").write_text(
            json.dumps({"name": name, "version": "1.0.0", "type": kind, "main": "index.js"})
        )
        (modules / name / "index.js").write_text(main)
    (modules / "convex").symlink_to(toolchain().modules / "convex")
    return modules


def outside(folder: Path, source: str, listed: list[str]) -> Path:
    modules = packages(folder)
    write_project(folder, {"n.ts": '"use node";\nimport { action } from "./_generated/server";\n' + source})
    names = ["plain", "modern", "stateful", "broken"]
    (folder / "package.json").write_text(
        json.dumps({"dependencies": {"convex": "1.48.0", **dict.fromkeys(names, "1.0.0")}})
    )
    (folder / "convex.json").write_text(json.dumps({"node": {"externalPackages": listed}}))
    return modules


def test_packages_that_are_not_bundled(tmp_path: Path) -> None:
    source = """
        import twice from "plain";
        import seven, { named } from "modern";
        import { next } from "stateful";
        export const f = action({ args: {}, handler: async () => [twice(4), seven, named, next(), (await import("plain")).default(5), twice.where.endsWith("node_modules/plain")] });
    """
    modules = outside(tmp_path, source, ["*"])
    core = Core()
    try:
        core.control("packages", folder=str(modules))
        pushed = run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable")
        assert pushed.code == 0, pushed.output
        assert core.run("n:f") == [8, 7, "n", 1, 10, True]
        assert core.run("n:f")[3] == 2
    finally:
        core.close()


def test_packages_that_cannot_be_had(tmp_path: Path) -> None:
    modules = outside(
        tmp_path, 'import x from "broken";\nexport const f = action({ args: {}, handler: async () => x });', ["broken"]
    )
    core = Core()
    try:
        refused = run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable")
        assert refused.code == 1
        assert "InvalidExternalModules" in refused.output
        assert "No packages are installed for broken" in refused.output
        core.control("packages", folder=str(modules))
        failed = run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable")
        assert failed.code == 1
        assert "Failed to analyze n.js: " in failed.output
        assert "at its import" in failed.output
        (tmp_path / "convex.json").write_text(json.dumps({"node": {"externalPackages": "broken"}}))
        assert run_cli(core, tmp_path, "dev", "--once", "--typecheck", "disable").code == 1
    finally:
        core.close()
