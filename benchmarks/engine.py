"""The embedded engine: start, calls, indexed reads beside convex-test, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import family, resident
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore
from pytest_convex_evals.pipes import LineChild

_STARTS, _ROUNDS = 11, 3
_DOCUMENTS, _BATCH = 100_000, 1_000
_PACKAGES = {"convex": "1.48.0", "convex-test": "0.0.60"}
_DEADLINE_S = 120.0
_SCHEMA = """\
import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";
export default defineSchema({ rows: defineTable({ n: v.number(), text: v.string() }).index("by_n", ["n"]) });
"""
_PROGRAM = """\
import { mutationGeneric as mutation, queryGeneric as query } from "convex/server";
import { v } from "convex/values";
export const add = mutation({ args: { n: v.number() }, handler: async (ctx, { n }) => {
  await ctx.db.insert("rows", { n, text: "x" });
} });
export const fill = mutation({ args: { from: v.number(), count: v.number() }, handler: async (ctx, { from, count }) => {
  for (let i = 0; i < count; i++) await ctx.db.insert("rows", { n: from + i, text: "x" });
} });
export const reads = query({ args: { times: v.number() }, handler: async (ctx, { times }) => {
  let sum = 0;
  for (let i = 0; i < times; i++) {
    const rows = await ctx.db.query("rows").withIndex("by_n", (q) => q.gte("n", (i * 7919) % 9_990)).take(10);
    sum += rows.length;
  }
  return sum;
} });
"""
_CALLS = """\
import { ConvexClient } from "convex/browser";
import { anyApi as api } from "convex/server";
const client = new ConvexClient(process.argv[2]);
for (let i = 0; i < 300; i++) await client.mutation(api.main.add, { n: i });
const times = [];
for (let i = 0; i < 1000; i++) {
  const started = performance.now();
  await client.mutation(api.main.add, { n: i });
  times.push(performance.now() - started);
}
await client.close();
console.log(times.sort((a, b) => a - b)[500]);
"""
_READS = """\
import { ConvexHttpClient } from "convex/browser";
import { anyApi as api } from "convex/server";
import { convexTest } from "convex-test";
import * as main from "./main.mjs";
import schema from "./schema.mjs";
async function measure(client, rounds) {
  for (let from = 0; from < 10_000; from += 1_000) await client.mutation(api.main.fill, { from, count: 1_000 });
  await client.query(api.main.reads, { times: 1 });
  const taken = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const rows = await client.query(api.main.reads, { times: 1_000 });
    taken.push(performance.now() - started);
    if (rows !== 10_000) throw new Error(`${rows} rows`);
  }
  return taken.sort((a, b) => a - b)[rounds >> 1];
}
const modules = { "./_generated/api.js": async () => ({}), "./main.ts": async () => main };
const engine = await measure(new ConvexHttpClient(process.argv[2]), 5);
const oracle = await measure(convexTest({ schema, modules }), 1);
console.log(JSON.stringify({ engine, oracle }));
"""


def figures() -> Iterator[str]:
    """Medians of several; convex-test, which takes seconds, reads once."""
    toolchain = ensure_toolchain(progress)
    yield f"engine start: {median(_start_ms(toolchain) for _ in range(_STARTS)):.0f} ms"
    with tempfile.TemporaryDirectory() as name:
        folder = bench_project(Path(name), toolchain)
        yield f"engine call: {median(_call_ms(toolchain, folder) for _ in range(_ROUNDS)):.1f} ms"
        yield f"engine indexed reads vs convex-test: {_reads_ratio(toolchain, folder):.0f} x"
        yield f"engine memory at {_DOCUMENTS} documents: {_memory_mb(toolchain, folder):.0f} MB"


def progress(line: str) -> None:
    """For people, on standard error."""
    print(line, file=sys.stderr, flush=True)


def bench_project(folder: Path, toolchain: Toolchain) -> Path:
    """A project with convex and convex-test, and the scripts beside it."""
    packages = PackageStore(toolchain_root() / "packages", toolchain).install(Manifest(_PACKAGES))
    if not isinstance(packages, Path):
        raise RuntimeError(f"the packages could not be installed: {packages}")
    (folder / "node_modules").symlink_to(packages / "node_modules")
    (folder / "convex").mkdir()
    files = {
        "package.json": json.dumps({"name": "bench", "dependencies": _PACKAGES}),
        "convex/schema.ts": _SCHEMA,
        "convex/main.ts": _PROGRAM,
        "schema.mjs": _SCHEMA,
        "main.mjs": _PROGRAM,
        "calls.mjs": _CALLS,
        "reads.mjs": _READS,
    }
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@contextmanager
def running_core(toolchain: Toolchain, *options: str) -> Iterator[tuple[LineChild, dict[str, Any]]]:
    """A core and what it says when it is ready; killed at the end."""
    child = LineChild(
        [str(toolchain.node), str(toolchain.script("core")), *options],
        cwd=toolchain.folder,
        environment={"PATH": os.defpath},
        name="the backend",
        cause="backend",
    )
    try:
        yield child, child.greeting(_DEADLINE_S)
    finally:
        child.close()


@contextmanager
def deployed_core(toolchain: Toolchain, folder: Path, *options: str) -> Iterator[tuple[LineChild, dict[str, Any]]]:
    """A core with the project pushed."""
    with running_core(toolchain, *options) as (core, ready):
        cli = folder / "node_modules" / "convex" / "bin" / "main.js"
        where = ["--url", ready["url"], "--admin-key", ready["adminKey"]]
        run_node(toolchain, folder, str(cli), "dev", "--once", "--typecheck", "disable", *where)
        yield core, ready


def run_node(toolchain: Toolchain, folder: Path, *arguments: str) -> str:
    """The standard output of a script."""
    environment = {"PATH": f"{toolchain.node.parent}{os.pathsep}{os.defpath}", "HOME": str(folder), "CI": "1"}
    command = [str(toolchain.node), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:2])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _start_ms(toolchain: Toolchain) -> float:
    """From the start of the process to the first answer over HTTP."""
    started = time.perf_counter()
    with running_core(toolchain) as (_, ready):
        body = json.dumps({"path": "_system/cli/tables", "args": {}, "format": "json"}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Convex {ready['adminKey']}"}
        request = urllib.request.Request(f"{ready['url']}/api/query", body, headers)
        with urllib.request.urlopen(request, timeout=_DEADLINE_S) as answer:
            answer.read()
        return (time.perf_counter() - started) * 1000


def _call_ms(toolchain: Toolchain, folder: Path) -> float:
    """The median of mutations over WebSocket, each in a fresh context."""
    with deployed_core(toolchain, folder) as (_, ready):
        milliseconds = float(run_node(toolchain, folder, "calls.mjs", ready["url"]).split()[-1])
    progress(f"  call: {milliseconds:.2f} ms")
    return milliseconds


def _reads_ratio(toolchain: Toolchain, folder: Path) -> float:
    """How many times longer convex-test takes for the same reads."""
    with deployed_core(toolchain, folder) as (_, ready):
        found = json.loads(run_node(toolchain, folder, "reads.mjs", ready["url"]).splitlines()[-1])
    progress(f"  reads: {found['engine']:.0f} ms, convex-test {found['oracle']:.0f} ms")
    return float(found["oracle"]) / float(found["engine"])


def fill(core: LineChild, count: int) -> None:
    """Documents of about 100 bytes, a thousand at a time."""
    for start in range(0, count, _BATCH):
        documents = [{"n": number, "text": "x" * 100} for number in range(start, start + _BATCH)]
        core.request("insert", {"table": "rows", "documents": documents}, deadline_s=_DEADLINE_S)


def _memory_mb(toolchain: Toolchain, folder: Path) -> float:
    """Core and runners together."""
    with deployed_core(toolchain, folder) as (core, _):
        fill(core, _DOCUMENTS)
        stats = core.request("stats", {}, deadline_s=_DEADLINE_S)
        if stats["documents"] < _DOCUMENTS:
            raise RuntimeError(f"{stats['documents']} documents instead of {_DOCUMENTS}")
        progress(f"  memory of the core: {stats['memory'] / 1e6:.0f} MB")
        return sum(resident(pid) for pid in family(core.process.pid)) / 1e6
