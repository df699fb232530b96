# ruff: noqa: E501 - programs in tables stay on one line
"""Code that is run: attempts from functions of every kind, from imports and from the bundle."""

from __future__ import annotations

from tests.hostile.case import CAGED, ESCAPE, Case, action, clean_node_action, node_action, query

DEVELOPMENT_KEY = "0135d8598650f8f5cb0f30c34ec2e2bb62793bc28717c8eb6fb577996d50be5f4281b59181095065c5d0f86a2c31ddbe9b597ec62b47ded69782cd"
FRAME = (
    "const frame = (header: object, payload = ''): Buffer => { const head = Buffer.from(JSON.stringify(header));"
    " const whole = Buffer.alloc(8 + head.length + payload.length); whole.writeUInt32LE(4 + head.length + payload.length, 0);"
    " whole.writeUInt32LE(head.length, 4); head.copy(whole, 8); whole.write(payload, 8 + head.length); return whole; };"
)
FILL = """\
import { v } from "convex/values";
import { api } from "./_generated/api";
import { action } from "./_generated/server";

export const go = action({ args: { url: v.string() }, handler: async (ctx): Promise<string> => {
  for (let n = 0; n < 400; n++) {
    try { await ctx.runMutation(api.fill.more, {}); } catch (error) {
      if (String(error).includes("more than this backend has room for")) return "full";
      throw error;
    }
  }
  return "did it";
} });
"""
STORE = """\
import { v } from "convex/values";
import { action } from "./_generated/server";

export const go = action({ args: { url: v.string() }, handler: async (ctx): Promise<string> => {
  for (let n = 0; n < 200; n++) {
    try { await ctx.storage.store(new Blob(["x".repeat(15_000_000)])); } catch (error) {
      if (String(error).includes("more than this backend has room for")) return "full";
      throw error;
    }
  }
  return "did it";
} });
"""
CRON = """\
def test_attack(app, clock):
    clock.start("2026-01-05T12:00:00Z")
    clock.advance(minutes=1)
    assert [run.status for run in app.cron_runs()] == [], "it ran"
"""
LOOPS_AT_IMPORT = 'import { query } from "./_generated/server";\n{CODE}\nexport const go = query({ args: {}, handler: async () => 1 });\n'


def stopped(name: str, attempts: str, files: dict[str, str], **more: object) -> Case:
    """The attempt is refused, and the functions beside it work."""
    return Case(name, attempts, files, "tests", "passed", **more)  # type: ignore[arg-type]


def fails(name: str, attempts: str, files: dict[str, str], reason: str = "", **more: object) -> Case:
    """The attempt takes the check down that made it, and no other."""
    return Case(name, attempts, files, "tests", "failed", "checks", reason, **more)  # type: ignore[arg-type]


def crashes(name: str, attempts: str, files: dict[str, str], **more: object) -> Case:
    """Its process dies, twice, and that of the reference does not."""
    return Case(name, attempts, files, "tests", "failed", "crashed", **more)  # type: ignore[arg-type]


def not_pushed(name: str, attempts: str, code: str, reason: str = "") -> Case:
    files = {"convex/evil.ts": LOOPS_AT_IMPORT.replace("{CODE}", code)}
    return Case(name, attempts, files, "deploy", "failed", "push", reason)


FILES = [
    stopped("read a key", "read a file of the home folder", node_action('return load("fs").readFileSync("{SECRET}")'),
            quick=True),
    stopped("read another process", "read the environment of its parents",
            node_action('return load("fs").readFileSync("/proc/{PID}/environ", "latin1")')),
    stopped("list processes", "look at other processes", node_action('return load("fs").readdirSync("/proc/{PID}/fd")')),
    stopped("list home", "list home folders", node_action('return load("fs").readdirSync("/root")')),
    stopped("write outside", "write a file of the machine",
            node_action('load("fs").writeFileSync("{OUTSIDE}/written", "x"); return 1'), quick=True),
    stopped("symlink", "link to a folder of the machine",
            node_action('load("fs").symlinkSync("{OUTSIDE}", "/tmp/link"); return 1')),
    stopped("poison the store", "change a package for later cells",
            node_action('load("fs").appendFileSync("{STORE}/convex/package.json", " "); return 1')),
    stopped("poison from inside", "change a package through the folder that it may read",
            node_action('load("fs").writeFileSync("/cage/node_modules/convex/package.json", "{}"); return 1')),
    stopped("heap snapshot", "write a file through V8", node_action('return load("v8").writeHeapSnapshot("{OUTSIDE}/heap")')),
    stopped("report", "write a file through a report",
            node_action('const r = (process as any).report; r.directory = "{OUTSIDE}"; const f = r.writeReport("r.json"); '
                        'if (!f) throw new Error("no"); return f')),
    stopped("disk bomb", "fill the disk", node_action(
        'const fs = load("fs"); for (let n = 0; n < 64; n++) fs.writeFileSync("/tmp/bomb" + n, Buffer.alloc(4e6)); return 1')),
    Case("bundle a secret", "let the bundler read a file of the machine",
         {"convex/evil.ts": 'import { action } from "./_generated/server";\nimport secret from "{SECRET}.json";\n'
          "export const go = action({ args: {}, handler: async () => JSON.stringify(secret) });\n"},
         "deploy", "failed", "push", stopped_by=CAGED, quick=True),
    Case("bundle a broken secret", "let a message of the bundler show a file of the machine",
         {"convex/more.ts": 'import secret from "{HOME}/broken.json";\nexport const found: unknown = secret;\n'},
         "deploy", "failed", "push", stopped_by=CAGED),
    Case("bundle a script of the machine", "let a message of the bundler show a file of the machine",
         {"convex/more.ts": 'export * from "{HOME}/evil.js";\n'}, "deploy", "failed", "push", stopped_by=CAGED),
    Case("build on a config of the machine", "let a message about a config show a file of the machine",
         {"tsconfig.json": '{"extends": "{HOME}/tsconfig.json"}'}, "tests", "passed", everywhere=False),
    Case("source map of the machine", "let the bundler read a device that never ends",
         {"convex/more.ts": "export const more = 1;\n//# sourceMappingURL=/dev/zero\n"}, "tests", "passed", everywhere=False),
    stopped("poison the journal", "write a verdict", node_action('load("fs").appendFileSync("{JOURNAL}", "{}"); return 1')),
    Case("component among the packages", "let the CLI write into the package store",
         {"package.json": '{"dependencies": {"convex": "1.48.0", "@convex-dev/aggregate": "0.3.1"}}',
          "convex/convex.config.ts": 'import { defineApp } from "convex/server";\n'
          'import c from "../node_modules/@convex-dev/aggregate/src/component/convex.config";\n'
          "const app = defineApp();\napp.use(c);\nexport default app;\n"}, "deploy", "failed", "push", everywhere=False),
    Case("bundle the reference", "let the bundler read the answer of the suite",
         {"convex/more.ts": 'import answer from "{SUITE}/answer/package.json";\nexport const found = answer.name;\n'}, "deploy", "failed", "push", stopped_by=CAGED),
]  # fmt: skip

PROCESSES = [
    stopped("shell", "start a program",
            node_action('return load("child_process").execSync("touch {OUTSIDE}/shell").toString()'), quick=True),
    stopped("spawn bomb", "start processes without end", node_action(
        'const c = load("child_process"); for (let n = 0; n < 50; n++) c.spawn("/bin/sleep", ["30"], { detached: true });'
        ' return 1')),
    stopped("worker threads", "start a thread with other rights",
            node_action('return new (load("worker_threads").Worker)("1", { eval: true }).threadId')),
    stopped("native code", "load a library",
            node_action('return (process as any).dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6")')),
    stopped("internal bindings", "reach the file system below the permission model",
            node_action('return (process as any).binding("fs").internalModuleStat("{SECRET}") === 0 ? 1 : '
                        '(() => { throw new Error("no"); })()')),
    stopped("debugger", "open a port for a debugger", node_action('load("inspector").open(0); return load("inspector").url()')),
    stopped("signal the grader", "kill the process that grades",
            node_action('process.kill({PID}, "SIGTERM"); return 1'), stopped_by=CAGED),
    crashes("abort", "take its process down", clean_node_action("process.abort();")),
    stopped("exit", "end with success", node_action("process.exit(0); return 1")),
    crashes("real exit", "end with success by the real call",
            clean_node_action("(process as unknown as { reallyExit: (code: number) => void }).reallyExit(0);")),
    fails("outlive", "work on after its call", node_action(
        'setInterval(() => { for (;;); }, 50); return 1'), "did it"),
    stopped("change the user", "become another user", node_action("process.setuid?.(1234); return process.getuid?.()"),
            stopped_by=CAGED),
]  # fmt: skip

NETWORK = [
    stopped("port", "reach a server of the machine", node_action(
        'return await new Promise((resolve, reject) => load("net").connect({PORT}, "127.0.0.1")'
        '.on("connect", () => resolve("connected")).on("error", reject))'), stopped_by=CAGED, quick=True),
    stopped("port scan", "find servers of the machine", node_action(
        'const own = [args.url, process.env.CONVEX_CLOUD_URL, process.env.CONVEX_SITE_URL].map((u) => new URL(u as string).port);'
        ' const ports = [...Array(200).keys()].map((n) => {PORT} - 100 + n).filter((p) => p < 65536 && !own.includes(String(p)));'
        ' const open = (p: number) => new Promise((ok) => { const s = load("net").connect(p, "127.0.0.1");'
        ' s.on("connect", () => { s.destroy(); ok(p); }).on("error", () => ok(0)); });'
        ' const found = (await Promise.all(ports.map(open))).filter(Boolean); if (found.length === 0) throw 1; return found.join()'),
        stopped_by=CAGED),
    fails("keys of an issuer", "let the core fetch keys from a server of the machine",
          {**action('const part = (v: unknown) => btoa(JSON.stringify(v)).replaceAll("=", "");'
                    ' const token = [part({ alg: "RS256", kid: "k" }), part({ iss: "http://127.0.0.1:{PORT}", aud: "a", sub: "s", exp: 4e9 }), "AAAA"].join(".");'
                    ' const body = JSON.stringify({ path: "notes:all", args: {}, format: "json" });'
                    ' const headers = { Authorization: "Bearer " + token, "Content-Type": "application/json" };'
                    ' return (await fetch(process.env.CONVEX_CLOUD_URL + "/api/query", { method: "POST", headers, body })).text()'),
           "convex/auth.config.ts": 'export default { providers: [{ domain: "http://127.0.0.1:{PORT}", applicationID: "a" }] };\n'},
          "did it: .*cannot be reached from here", quick=True),
    stopped("development key", "act as an administrator of its own deployment",
            action('const body = JSON.stringify({ path: "_system/frontend/listTableScan", args: { table: "notes", limit: 5 }, format: "json" });'
                   f' const headers = {{ Authorization: "Convex {DEVELOPMENT_KEY}", "Content-Type": "application/json" }};'
                   ' const answer = await fetch(process.env.CONVEX_CLOUD_URL + "/api/query", { method: "POST", headers, body });'
                   ' if (answer.status === 403) throw 1; return answer.status')),
    stopped("port by fetch", "reach a server of the machine by fetch",
            node_action('return (await fetch("http://127.0.0.1:{PORT}/")).status')),
    stopped("port by fetch from an action", "reach a server of the machine by fetch",
            action('return (await fetch("http://127.0.0.1:{PORT}/")).status')),
    stopped("redirect", "reach a server of the machine through the grader's fixture",
            action('return (await fetch(args.url + "/redirect")).status')),
    stopped("port by http", "reach a server of the machine by node:http", node_action(
        'return await new Promise((ok, no) => load("http").get("http://127.0.0.1:{PORT}/", (r: any) => ok(r.statusCode)).on("error", no))'),
        stopped_by=CAGED),
    stopped("other cell", "reach the backend of another cell", node_action(
        'return await new Promise((ok, no) => load("http").get("{OTHER}/version", (r: any) => ok(r.statusCode)).on("error", no))'),
        stopped_by=CAGED),
    stopped("name server", "look a name up", node_action(
        'return await load("dns").promises.resolve4("example.com")'), everywhere=False),
]  # fmt: skip

LOOPS = [
    fails("loop in a query", "never end", query("for (;;); return 1"), "timed out", quick=True),
    fails("loop in microtasks", "never end",
          query("const spin = (): any => Promise.resolve().then(spin); return await spin()"), "timed out|memory"),
    fails("loop in a getter", "never end when its result is read",
          query("return { toString() { for (;;); } }"), "timed out"),
    fails("loop in a regular expression", "never end in one step",
          query('return /^(a+)+$/.test("a".repeat(60) + "b")'), "timed out"),
    stopped("endless recursion", "exhaust the stack",
          query("const f = (n: number): number => f(n + 1) + 1; return f(0)")),
    not_pushed("loop at import", "never end at the push", "for (;;);"),
    not_pushed("memory at import", "exhaust memory at the push", "const all = []; for (;;) all.push(new Array(1e6).fill(1));"),
    Case("loop in the schema", "never end at the push", {"convex/schema.ts": "for (;;);\nexport default {} as any;\n"},
         "deploy", "failed", "push"),
    Case("loop in crons", "never end at the push", {"convex/crons.ts": "for (;;);\nexport default {} as any;\n"},
         "deploy", "failed", "push"),
    Case("loop in a cron", "never end when its time has come",
         {"convex/crons.ts": 'import { cronJobs } from "convex/server";\nimport { internal } from "./_generated/api";\n'
          'const crons = cronJobs();\ncrons.interval("loop", { minutes: 1 }, internal.loops.forever, {});\nexport default crons;\n',
          "convex/loops.ts": 'import { internalMutation } from "./_generated/server";\n'
          "export const forever = internalMutation({ args: {}, handler: async () => { for (;;) await Promise.resolve(); } });\n"},
         "tests", "failed", "checks", "ran", attack=CRON),
    fails("heap in a query", "exhaust the heap",
          query("const all: unknown[] = []; for (;;) all.push(new Array(1e5).fill(all.length))"), "memory|timed out"),
    stopped("buffers in a query", "exhaust memory beside the heap",
          query("const all: unknown[] = []; for (;;) all.push(new Uint8Array(5e7).fill(1))")),
    fails("heap in a Node action", "exhaust the heap",
          node_action("const all: unknown[] = []; for (;;) all.push(new Array(1e5).fill(all.length))"), "memory|died"),
    stopped("buffers in a Node action", "exhaust memory beside the heap",
            node_action("const all: unknown[] = []; for (let n = 0; n < 400; n++) all.push(Buffer.alloc(2e7, 1)); return 1"),
            quick=True),
]  # fmt: skip

FLOODS = [
    fails("log flood", "fill the log", query('for (;;) console.log("x".repeat(1e5))'), "timed out|memory|log"),
    fails("log flood from an action", "fill the log",
          action('for (let n = 0; n < 20000; n++) console.log("x".repeat(10000)); return 1'), "."),
    fails("error stream flood", "fill the error stream",
          node_action('for (let n = 0; n < 2000; n++) process.stderr.write("x".repeat(1e5)); return 1'), "did it"),
    crashes("message flood", "let the core do nothing but read", clean_node_action(
        f'{FRAME} const log = frame({{ t: "log", call: 1e9, level: "INFO" }}); const many = Buffer.concat(Array<Buffer>(2000).fill(log)); for (;;) tell(many);')),
    crashes("unread answers", "ask without listening to the answers", clean_node_action(
        f"{FRAME} const asks: Buffer[] = []; for (let id = 1; id <= 2000; id++) asks.push(frame("
        ' { t: "syscall", call: 1, id: 1e6 + id, op: "1.0/getUserIdentity" }, "{}")); const many = Buffer.concat(asks); for (;;) tell(many);')),
    crashes("huge message", "announce a message of four gigabytes", clean_node_action('tell(Buffer.from("ffffffff00000000", "hex"));')),
    fails("fill the deployment", "keep data until the memory of the machine is used up", {
        "convex/evil.ts": FILL,
        "convex/fill.ts": 'import { v } from "convex/values";\nimport { mutation } from "./_generated/server";\n'
        "export const more = mutation({ args: {}, handler: async (ctx) => {\n"
        '  for (let n = 0; n < 7; n++) await ctx.db.insert("notes", { text: "x".repeat(1_000_000) });\n} });\nexport const text = v.string();\n'}, "full|did not end", everywhere=False),
    fails("fill the storage", "keep files until the memory of the machine is used up", {"convex/evil.ts": STORE},
          "full|did not end", everywhere=False),
    fails("huge result", "return more than can be kept", query('return "x".repeat(3e8)'), "."),
    Case("bundle of constants", "let the bundler compute a text without end",
         {"convex/more.ts": "enum E {\n  a0 = 'xxxxxxxxxxxxxxxx',\n" + "".join(
             f"  a{n} = a{n - 1} + a{n - 1},\n" for n in range(1, 40)) + "}\nexport const x: string = E.a39;\n"},
         "deploy", "failed", everywhere=False),
    Case("bundle of two megabytes", "make the bundler work",
         {"convex/evil.ts": "export const x = " + "[" * 20_000 + "]" * 20_000 + ";\n"}, "deploy", "failed"),
]  # fmt: skip

ESCAPES = [
    stopped("out of the context", "read a file from a query",
            query(f'{ESCAPE} return outer.getBuiltinModule("fs").readFileSync("{{SECRET}}")'), quick=True),
    stopped("out of the context to the network", "open a socket from a query", query(
        f'{ESCAPE} const net = outer.getBuiltinModule("net"); const s = net.connect({{PORT}}, "127.0.0.1").on("error", () => 0);'
        ' const end = Date.now(); for (let n = 0; n < 50; n++) await Promise.resolve(); if (s.destroyed || s.connecting) throw 1;'
        " return end"), stopped_by=CAGED),
    stopped("out of the context to a process", "start a program from a query",
            query(f'{ESCAPE} return outer.getBuiltinModule("child_process").execSync("touch {{OUTSIDE}}/shell")')),
    Case("out of the context to the pipe", "send a message of the protocol that makes no sense", query(
        f'{ESCAPE} outer.getBuiltinModule("fs").writeSync(3, outer.getBuiltinModule("buffer").Buffer.from("ffffffff00000000", "hex")); return 1'),
        "tests", "error", "cage"),
    fails("forged result", "answer for another call", node_action(
        'const head = Buffer.from(JSON.stringify({ t: "done", call: 1e9, ok: true })); const frame = Buffer.alloc(8 + head.length);'
        " frame.writeUInt32LE(4 + head.length, 0); frame.writeUInt32LE(head.length, 4); head.copy(frame, 8);"
        ' load("fs").writeSync(3, frame); return 1'), "did it"),
    crashes("forged ready", "pretend to be started anew", clean_node_action(
        'const head = Buffer.from(JSON.stringify({ t: "ready" })); const frame = Buffer.alloc(8 + head.length);'
        " frame.writeUInt32LE(4 + head.length, 0); frame.writeUInt32LE(head.length, 4); head.copy(frame, 8); tell(frame);")),
    crashes("close the pipe", "hang up on the core", clean_node_action("fs.closeSync(3);")),
    fails("polluted result", "change what objects of the core have",
          query('return JSON.parse(\'{"__proto__": {"polluted": "yes"}, "constructor": {"prototype": {"polluted": "yes"}}}\')'), "."),
    fails("polluted prototypes", "change what all objects have", query(
        '(Object.prototype as any).polluted = "yes"; (Array.prototype as any).push = () => 0;'
        ' (Promise.prototype as any).then = undefined; return "polluted"'), "."),
    crashes("polluted prototypes of Node", "change what all code of its process uses",
            clean_node_action('JSON.stringify = () => "1";')),
]  # fmt: skip
CASES = [*FILES, *PROCESSES, *NETWORK, *LOOPS, *FLOODS, *ESCAPES]
