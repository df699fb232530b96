"""The toolchain worker's reading of sources, its Python face, and the graders that stand on both."""

from __future__ import annotations

import importlib.util
import inspect
import json
import random
import subprocess
import tomllib
from pathlib import Path

import pytest

from pytest_convex_evals.engine.setup import ensure_toolchain
from pytest_convex_evals.grading.sources import UNDEFINED, FunctionRef, OneOf, Sources, Unknown

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "sources_cases"
EVALS = sorted((ROOT / "evals" / "007-components").glob("*-choose_*"))
GRADED = [one for one in EVALS if (CASES / one.name).is_dir()]


def worker_command() -> list[str]:
    """Node and the bundled worker."""
    toolchain = ensure_toolchain()
    return [str(toolchain.node), str(toolchain.script("toolchain"))]


class Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(worker_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
        self.ready = json.loads(self.process.stdout.readline())

    def send(self, line: str) -> dict:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the worker died"
        return json.loads(answer)

    def read(self, files: dict[str, str]) -> Sources:
        answer = self.send(json.dumps({"id": 1, "op": "sources", "params": {"files": files}}))
        return Sources.from_facts(answer["ok"])

    def close(self) -> bytes:
        self.process.stdin.close()
        with self.process.stdout as rest:
            left = rest.read()
        assert self.process.wait(10) == 0
        return left


@pytest.fixture(scope="module")
def worker():
    one = Worker()
    yield one
    assert one.close() == b""


@pytest.fixture
def read(worker):
    return worker.read


def files_in(*folders: Path, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The files of the first folder, with those of the others laid over them."""
    found: dict[str, str] = {}
    for folder in folders:
        texts = {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}
        found |= {path: text for path, text in texts.items() if path not in without}
        without = ()
    found.pop("expect.toml", None)
    return found


def failures(folder: Path, sources: Sources, files: dict[str, str]) -> dict[str, str]:
    """Which checks of a grader fail, and what they say."""
    spec = importlib.util.spec_from_file_location(f"grader_{folder.name}", folder / "grader.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failed = {}
    for name, check in vars(module).items():
        if not name.startswith("test_"):
            continue
        given = {"sources": sources, "files": files}
        try:
            check(**{key: given[key] for key in inspect.signature(check).parameters})
        except Exception as error:  # noqa: BLE001
            failed[name] = repr(error)
    return failed


# The protocol


def test_the_first_line_says_ready(worker):
    assert worker.ready["ready"]["typescript"].startswith("5.")
    assert worker.ready["ready"]["node"].startswith("v24.")


def test_mistakes_of_the_caller_are_answered_with_a_code(worker):
    assert worker.send("{nonsense")["error"]["code"] == "bad_request"
    assert worker.send("7")["error"]["code"] == "bad_request"
    assert worker.send('{"id": 4, "op": "sources", "params": {"files": {"a.ts": 3}}}') == {
        "id": 4,
        "error": {"code": "bad_request", "message": "the text of a.ts is not a string"},
    }
    unknown = worker.send('{"id": "x", "op": "toString"}')
    assert (unknown["id"], unknown["error"]["code"]) == ("x", "unknown_method")


# What is read

SERVER = 'import { query, mutation, action, internalAction, internalMutation } from "./_generated/server";\n'
BOARD = 'import { Board } from "@x/board";\nimport { components, internal, api } from "./_generated/api";\n'


def ranked(handler: str, before: str = "") -> str:
    """A file with a function x:rank."""
    return f"{SERVER}{BOARD}{before}\nexport const rank = query({{ handler: {handler} }});\n"


WAYS = tomllib.loads((CASES / "reached.toml").read_text())


@pytest.mark.parametrize("way", WAYS)
def test_a_method_is_found_through(way, read):
    files = {f"convex/{name}.ts": text for name, text in WAYS[way].get("files", {}).items()}
    sources = read(files | {"convex/x.ts": ranked(WAYS[way]["handler"], WAYS[way].get("before", ""))})
    found = sources.calls(package="@x/board", reachable_from="x:rank")
    assert {one.method for one in found if one.origin.instance} == {"count"}


DEAD = tomllib.loads((CASES / "dead.toml").read_text())


@pytest.mark.parametrize("way", DEAD)
def test_dead_code_is_listed_and_reached_from_nowhere(way, read):
    sources = read({"convex/x.ts": ranked(**DEAD[way])})
    (call,) = sources.calls(package="@x/board", method="count")
    assert "x:rank" not in call.reached_from
    assert not call.live
    assert "never run" in repr(call)


def test_mutual_recursion_is_reached_from_both_ends(read):
    sources = read(
        {
            "convex/x.ts": SERVER + 'import { a, b } from "p";'
            "const f = (n) => { a(); return g(n); }; const g = (n) => { b(); return f(n); };"
            + "export const one = query(async () => f(1)); export const two = query(async () => g(1));"
        }
    )
    for path in ("x:one", "x:two"):
        assert {one.origin.export for one in sources.calls(package="p", reachable_from=path)} == {"a", "b"}


VALUES = {
    "60 * 60 * 1000 / 2 - 1 + 0": 1_799_999,
    "{ a: [1, 'x', null, true, -2], b: { ...base, c: 3 } }": {"a": [1, "x", None, True, -2], "b": {"c": 3, "d": 4}},
    "`n${base.d}` + 'm'": "n4m",
    "undefined": UNDEFINED,
    "10n": 10,
    "Kind.B": "b",
    "far.LIMIT": 20,
    "shared": 20,
    "internal.jobs.run": FunctionRef("jobs:run"),
    "{ '$': 1 }": {"$": 1},
    "MINUTE * 2": 120_000,
    "twice(4)": 8,
}


@pytest.mark.parametrize("text", VALUES)
def test_constant_arguments_are_plain_values(text, read):
    before = 'import { f } from "p"; import { MINUTE } from "@convex-dev/rate-limiter"; import { shared } from "./y";'
    before += (
        'import * as far from "./y"; const base = { c: 1, d: 4 }; enum Kind { A, B = "b" }; const twice = (n) => n * 2;'
    )
    sources = read(
        {
            "convex/x.ts": f"{SERVER}{BOARD}{before} export const q = query(async (ctx, args) => f({text}));",
            "convex/y.ts": "export const LIMIT = 20; export { LIMIT as shared };",
        }
    )
    (call,) = sources.calls(package="p")
    assert call.arg(0, default=UNDEFINED) == VALUES[text]


def test_other_arguments_say_where_they_come_from(read):
    text = (
        "f(args.user, `u:${args.user}`, args.x ? 1 : 2, { ...args, k: 1 }, (await ctx.auth.getUserIdentity()).subject)"
    )
    sources = read(
        {"convex/x.ts": f'{SERVER}import {{ f }} from "p"; export const q = query(async (ctx, args) => {text});'}
    )
    (call,) = sources.calls(package="p")
    user, mixed, either, partial, subject = call.args
    assert (user.source, user.member) == ("args", "user")
    assert isinstance(mixed, Unknown)
    assert sources.comes_from(mixed, "args.user")
    assert not sources.comes_from(mixed, "args.use")
    assert either == OneOf((1, 2))
    assert sources.possible(either) == (1, 2)
    assert partial["k"] == 1
    assert "and more" in repr(partial)
    assert sources.comes_from(subject, "ctx.auth.getUserIdentity()")


def test_one_helper_has_the_values_of_each_of_its_callers(read):
    sources = read(
        {
            "convex/x.ts": SERVER + 'import { f } from "p"; const help = (name) => f(name);'
            "export const a = query(async () => help('a')); export const b = mutation(async () => help('b'));"
        }
    )
    assert {
        path: [one.arg(0) for one in sources.calls(package="p", reachable_from=path)] for path in ("x:a", "x:b")
    } == {
        "x:a": ["a"],
        "x:b": ["b"],
    }


def test_functions_are_known_by_any_spelling_of_their_builder(read):
    sources = read(
        {
            "convex/a/b.ts": 'import { internalQuery as q, httpAction } from "../_generated/server.js";'
            "export const one = q({ args: {}, handler: async () => 1 });"
            "export const hook = httpAction(async () => null);"
            "export default q(async () => 2);",
            "convex/c.ts": 'import * as s from "./_generated/server"; import { mutationGeneric } from "convex/server";'
            'import { v } from "convex/values";'
            "export const two = s.action({ args: v.object({ n: v.number() }), handler });"
            "export const three = mutationGeneric({ args: { x: v.id('t'), y: v.string() }, handler: () => {} });"
            "async function handler() {}",
            "convex/d.ts": 'import { customMutation } from "convex-helpers/server/customFunctions";'
            'import { mine } from "./mine";'
            "export const four = mine({ args: {}, handler: async (ctx) => 1 });",
            "convex/mine.ts": 'import { customMutation } from "convex-helpers/server/customFunctions";'
            'import { internalMutation } from "./_generated/server";'
            "export const mine = customMutation(internalMutation, {});",
            "convex/d.test.ts": 'import { query } from "./_generated/server"; export const no = query(async () => 1);',
            "src/e.ts": 'import { query } from "../convex/_generated/server"; export const no = query(async () => 1);',
        }
    )
    found = {one.path: (one.kind, one.visibility, one.args) for one in sources.functions.values()}
    assert found == {
        "a/b:one": ("query", "internal", ()),
        "a/b:hook": ("httpAction", "public", None),
        "a/b:default": ("query", "internal", None),
        "c:two": ("action", "public", ("n",)),
        "c:three": ("mutation", "public", ("x", "y")),
        "d:four": ("mutation", "internal", ()),
    }
    assert sources.functions["d:four"].wrapped
    assert sources.files["convex/c.ts"].has_functions


def test_functions_that_packages_make_are_functions(read):
    sources = read(
        {
            "convex/x.ts": 'import { Workpool } from "@convex-dev/workpool";'
            'import { RateLimiter } from "@convex-dev/rate-limiter";'
            'import { components } from "./_generated/api";'
            'const pool = new Workpool(components.w, {}); import { f } from "p";'
            "export const done = pool.defineOnComplete({ handler: async (ctx) => f(ctx) });"
            'export const { getRateLimit, getServerTime } = new RateLimiter(components.r).hookAPI("x");'
        }
    )
    assert {one.path: (one.kind, one.visibility) for one in sources.functions.values()} == {
        "x:done": ("mutation", "internal"),
        "x:getRateLimit": ("query", "public"),
        "x:getServerTime": ("mutation", "public"),
    }
    assert sources.calls(package="p", reachable_from="x:done")


def test_crons_and_routes_are_ways_in(read):
    sources = read(
        {
            "convex/crons.ts": 'import { cronJobs as jobs } from "convex/server";'
            'import { internal } from "./_generated/api";'
            "const c = jobs(); c.daily('nightly', { hourUTC: 1, minuteUTC: 0 }, internal.x.go); export default c;",
            "convex/http.ts": 'import { httpRouter } from "convex/server";'
            'import { hook } from "./x"; const http = httpRouter();'
            "http.route({ path: '/in', method: 'POST', handler: hook }); export default http;",
            "convex/x.ts": SERVER + 'import { httpAction } from "./_generated/server"; import { a, b } from "p";'
            "export const go = internalMutation({ handler: async () => a() });"
            "export const hook = httpAction(async () => b());",
        }
    )
    (a,) = sources.calls(package="p", export="a")
    (b,) = sources.calls(package="p", export="b")
    assert (a.live, a.reached_from) == (True, {"x:go", "cron:nightly"})
    assert (b.live, b.reached_from) == (True, {"x:hook", "http:POST /in"})


def test_an_internal_function_that_nothing_leads_to_is_not_live(read):
    sources = read(
        {"convex/x.ts": f'{SERVER}import {{ a }} from "p"; export const go = internalMutation(async () => a());'}
    )
    (a,) = sources.calls(package="p")
    assert (a.live, a.reached_from) == (False, {"x:go"})


def test_triggers_are_reached_through_the_builder_they_wrap(read):
    wired = {
        "convex/f.ts": BOARD + 'import { Triggers } from "convex-helpers/server/triggers";'
        'import { customCtx, customMutation } from "convex-helpers/server/customFunctions";'
        'import { mutation as raw } from "./_generated/server"; export const b = new Board(components.b);'
        'const triggers = new Triggers(); for (const t of ["a"]) triggers.register(t, b.trigger());'
        "export const mutation = customMutation(raw, customCtx(triggers.wrapDB));",
        "convex/x.ts": 'import { mutation } from "./f";'
        'export const go = mutation({ handler: async (ctx) => ctx.db.insert("a", {}) });',
        "convex/y.ts": SERVER
        + 'import { b } from "./f"; export const no = mutation({ handler: async (ctx) => b.count(ctx) });',
    }
    sources = read(wired)
    assert sources.calls(package="@x/board", method="trigger", reachable_from="x:go")
    assert not sources.calls(package="@x/board", method="trigger", reachable_from="y:no")


def test_installed_components(read):
    config = 'import { defineApp as make } from "convex/server"; import one from "@x/one/convex.config";'
    config += 'import { default as two } from "@x/two/convex.config.js"; import lost from "@x/lost/convex.config";'
    config += 'import ours from "./ours/convex.config"; const app = make(); const other = make(); app.use(one);'
    config += 'for (const name of ["a", "b"]) app.use(two, { name }); app.use(ours); other.use(lost);'
    config += "export default app;"
    ours = 'import { defineComponent } from "convex/server"; export default defineComponent("ours");'
    sources = read({"convex/convex.config.ts": config, "convex/ours/convex.config.ts": ours})
    assert [one.name for one in sources.installed("@x/one")] == [None]
    assert [one.name for one in sources.installed("@x/two")] == ["a", "b"]
    assert not sources.installed("@x/lost")
    assert [one.module for one in sources.installed("")] == ["convex/ours/convex.config.ts"]


def test_results_are_followed_to_what_they_decide(read):
    sources = read(
        {
            "convex/x.ts": SERVER + 'import { asked, thrown, given, lost, kept, pushed } from "p";'
            "export const q = query(async (ctx) => { if (!(await asked()).ok) throw new Error(await thrown());"
            "await ctx.db.insert('t', { x: given() }); await lost();"
            "const all = []; for (const i of [1]) all.push(pushed(i));"
            "let n = 0; n += await kept(); return { n, all }; });"
        }
    )
    flows = {one.origin.export: one.flows for one in sources.calls(package="p")}
    assert flows["asked"] == {"condition"}
    assert "throw" in flows["thrown"]
    assert flows["given"] == {"argument"}
    assert flows["lost"] == set()
    assert {one.origin.export for one in sources.calls(package="p", returned_by="x:q")} == {"kept", "pushed"}


def test_package_json_is_read_with_leniency(read):
    sources = read(
        {"package.json": '{ // ours\n "dependencies": {"a": "1", "b": 2,}, "devDependencies": {"c": "^3"}, }'}
    )
    assert sources.dependencies == {"a": "1", "c": "^3"}
    for broken in ("", "[]", "nonsense", '{"dependencies": []}', "null"):
        assert read({"package.json": broken}).dependencies == {}


def test_syntax_errors_are_listed_and_do_not_hide_the_rest(read):
    sources = read(
        {"convex/x.ts": f"{SERVER}export const q = query({{ args: {{}} handler: async () => 1 }});\nconst = ;"}
    )
    assert sources.functions["x:q"].kind == "query"
    assert sources.files["convex/x.ts"].errors[0].startswith("2: ")


def test_a_missing_function_is_named_together_with_those_there_are(read):
    sources = read({"convex/x.ts": f"{SERVER}export const q = query(async () => 1);"})
    with pytest.raises(LookupError, match="there is no Convex function x:p; the submission has: x:q"):
        sources.functions["x:p"]
    assert repr(sources.functions["x:q"]) == "<public query x:q at convex/x.ts:2>"


def test_a_search_that_finds_nothing_says_what_came_near(read):
    sources = read({"convex/x.ts": ranked("async () => 1", "const b = new Board(); const help = () => b.count();")})
    found = sources.calls(package="@x/board", method={"count", "sum"}, returned_by="x:rank")
    assert found == ()
    assert repr(found) == "<no call of @x/board count/sum returned by x:rank; only at convex/x.ts:4, never run>"
    assert repr(sources.installed("@x/board")) == "<no component of @x/board is installed>"


# What must not take the worker down

BAD = {
    "deep parentheses": "const a = " + "(" * 50_000 + "1" + ")" * 50_000,
    "deep arrays": "const a = " + "[" * 20_000,
    "a long sum": "const a = " + "+".join(["'x'"] * 20_000),
    "a megabyte": "export const a = [" + "1," * 500_000 + "];",
    "noise": "".join(chr(33 + (i * 7919) % 90) for i in range(200_000)),
    "doubling lists": "const a0=['x'];" + "".join(f"const a{i + 1}=[...a{i},...a{i}];" for i in range(60)) + "f(a60)",
    "doubling text": "const a0='xx';" + "".join(f"const a{i + 1}=a{i}+a{i};" for i in range(60)) + "f(a60)",
    "doubling calls": "function f0(n){g(n)}"
    + "".join(f"function f{i + 1}(n){{f{i}(n+'a');f{i}(n+'b')}}" for i in range(38))
    + "f38(q)",
    "circles": 'export * from "./x"; class A extends B {} class B extends A {} new A().x;'
    "const f = () => f(); f(); const c = d, d = c;",
    "names of the language": "const a = { __proto__: 1, constructor: 2 }; f(a.hasOwnProperty, a.toString, __proto__)",
}


@pytest.mark.parametrize("name", BAD)
def test_the_worker_survives(name, read):
    sources = read({"convex/x.ts": BAD[name], "convex/y.ts": f"{SERVER}export const q = query(async () => 1);"})
    assert "y:q" in sources.functions
    file = sources.files["convex/x.ts"]
    assert file.readable or file.reason == "nested too deeply"


@pytest.mark.parametrize("folder", EVALS, ids=lambda one: one.name)
def test_truncated_answers_never_stop_the_worker(folder, read):
    chance = random.Random(folder.name)
    whole = files_in(folder / "answer")
    for _ in range(40):
        cut = {
            path: text[: chance.randrange(len(text) + 1)] if chance.random() < 0.6 else text
            for path, text in whole.items()
        }
        sources = read(cut)
        failures(folder, sources, cut)
        assert all(file.readable for file in sources.files.values())


# The graders


def test_every_selection_eval_has_alternatives():
    assert [one.name for one in GRADED] == [one.name for one in EVALS]
    assert all(len(list((CASES / one.name).iterdir())) >= 2 for one in GRADED)


@pytest.mark.parametrize("folder", EVALS, ids=lambda one: one.name)
def test_the_grader_accepts_the_answer(folder, read):
    files = files_in(folder / "answer")
    assert failures(folder, read(files), files) == {}


ALTERNATIVES = [one for folder in GRADED for one in sorted((CASES / folder.name).iterdir())]


@pytest.mark.parametrize("case", ALTERNATIVES, ids=lambda one: f"{one.parent.name}-{one.name}")
def test_the_grader_accepts_another_correct_answer(case, read):
    folder = ROOT / "evals" / "007-components" / case.parent.name
    files = files_in(folder / "answer", case)
    assert failures(folder, read(files), files) == {}


WRONG = [one for folder in EVALS for one in sorted((folder / "wrong").iterdir())]


@pytest.mark.parametrize("case", WRONG, ids=lambda one: f"{one.parent.parent.name}-{one.name}")
def test_the_grader_refuses_a_wrong_answer(case, read):
    folder = case.parent.parent
    expect = tomllib.loads((case / "expect.toml").read_text())
    named = expect["check"] if isinstance(expect["check"], list) else [expect["check"]]
    files = files_in(folder / "answer", case, without=tuple(expect.get("delete", ())))
    failed = failures(folder, read(files), files)
    assert set(named) <= set(failed)


@pytest.mark.parametrize("folder", EVALS, ids=lambda one: one.name)
def test_the_grader_refuses_an_empty_answer(folder, read):
    for files in ({}, {"package.json": (folder / "answer" / "package.json").read_text()}):
        assert len(failures(folder, read(files), files)) >= 3
