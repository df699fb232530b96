"""The embedded engine with a data folder: writes that are flushed before they are acknowledged, and the way back."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.engine import bench_project, deployed_core, fill, progress, run_node, running_core
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain

_ROUNDS, _DOCUMENTS = 5, 100_000
_DEADLINE_S = 120.0
_WRITES = """\
import { ConvexHttpClient } from "convex/browser";
import { anyApi as api } from "convex/server";
const [, , url, writers, seconds] = process.argv;
const client = new ConvexHttpClient(url);
let count = 0;
async function write(until) {
  while (performance.now() < until) {
    await client.mutation(api.main.add, { n: count }, { skipQueue: true });
    count++;
  }
}
const round = (ms) => Promise.all(Array.from({ length: Number(writers) }, () => write(performance.now() + ms)));
await round(1000);
count = 0;
const started = performance.now();
await round(seconds * 1000);
console.log(count / ((performance.now() - started) / 1000));
"""
_WRITERS, _SECONDS = "32", "4"


def figures() -> Iterator[str]:
    """Medians of several. A write is a mutation of its own; recovery lasts from the start of the process to ready."""
    toolchain = ensure_toolchain(progress)
    with tempfile.TemporaryDirectory() as name:
        folder = bench_project(Path(name), toolchain)
        (folder / "writes.mjs").write_text(_WRITES, encoding="utf-8")
        memory = _writes_per_second(toolchain, folder)
        progress(f"  writes in memory: {memory:.0f}/s")
        durable = [_writes_per_second(toolchain, folder, f"--data={folder}/writes{at}") for at in range(3)]
        yield f"engine durable writes: {median(durable):.0f}/s"
        yield f"engine recovery of {_DOCUMENTS} documents: {_recovery_ms(toolchain, folder):.0f} ms"


def _writes_per_second(toolchain: Toolchain, folder: Path, *options: str) -> float:
    with deployed_core(toolchain, folder, *options) as (_, ready):
        return float(run_node(toolchain, folder, "writes.mjs", ready["url"], _WRITERS, _SECONDS).split()[-1])


def _recovery_ms(toolchain: Toolchain, folder: Path) -> float:
    option = f"--data={folder}/recovery"
    with deployed_core(toolchain, folder, option) as (core, _):
        fill(core, _DOCUMENTS)
    taken = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        with running_core(toolchain, option) as (core, _):
            taken.append((time.perf_counter() - started) * 1000)
            found = core.request("stats", {}, deadline_s=_DEADLINE_S)["documents"]
        if found != _DOCUMENTS:
            raise RuntimeError(f"{found} documents instead of {_DOCUMENTS}")
    progress(f"  recoveries: {', '.join(f'{one:.0f}' for one in taken)} ms")
    return median(taken)
