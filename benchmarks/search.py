"""Text search of the embedded engine: a query over ten thousand documents, from call to answer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from pytest_convex_evals.backends.base import ANONYMOUS
from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore

_DOCUMENTS, _BATCH, _SEARCHES = 10_000, 1_000, 101
_PACKAGES = {"convex": "1.48.0"}
_FILES = {
    "package.json": '{"name": "bench", "dependencies": {"convex": "1.48.0"}}',
    "convex/schema.ts": """\
import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";
export default defineSchema({
  rows: defineTable({ text: v.string(), kind: v.number() })
    .searchIndex("by_text", { searchField: "text", filterFields: ["kind"] }),
});
""",
    "convex/main.ts": """\
import { queryGeneric as query } from "convex/server";
import { v } from "convex/values";
export const search = query({ args: { text: v.string(), kind: v.number() }, handler: async (ctx, { text, kind }) => {
  const found = ctx.db.query("rows").withSearchIndex("by_text", (q) => q.search("text", text).eq("kind", kind));
  return (await found.take(10)).length;
} });
""",
}


def figures() -> Iterator[str]:
    """The median of searches for two words and the beginning of a third, with one filter."""
    toolchain = ensure_toolchain(lambda line: print(line, file=sys.stderr, flush=True))
    source = random.Random(7)
    words = [_word(source) for _ in range(5_000)]
    commonness = [1 / rank for rank in range(1, len(words) + 1)]
    backend = EmbeddedBackend(Core.start(toolchain))
    try:
        with tempfile.TemporaryDirectory() as folder:
            _push(toolchain, backend, Path(folder))
        started = time.perf_counter()
        for start in range(0, _DOCUMENTS, _BATCH):
            texts = [" ".join(source.choices(words, commonness, k=source.randint(10, 60))) for _ in range(_BATCH)]
            backend.insert("rows", [{"text": text, "kind": (start + at) % 4} for at, text in enumerate(texts)])
        print(f"  indexing: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        taken = []
        for _ in range(_SEARCHES):
            first, second, third = source.choices(words, commonness, k=3)
            args = {"text": f"{first} {second} {third[:2]}", "kind": 1.0}
            started = time.perf_counter()
            backend.call("query", "main:search", args, identity=ANONYMOUS, component="", deadline_s=60)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        backend.close()
    yield f"engine text search of {_DOCUMENTS} documents: {median(taken):.0f} ms"


def _word(source: random.Random) -> str:
    return "".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(3, 10)))


def _push(toolchain: Toolchain, backend: EmbeddedBackend, folder: Path) -> None:
    packages = PackageStore(toolchain_root() / "packages", toolchain).install(Manifest(_PACKAGES))
    if not isinstance(packages, Path):
        raise RuntimeError(f"the packages could not be installed: {packages}")
    (folder / "node_modules").symlink_to(packages / "node_modules")
    (folder / "convex").mkdir()
    for path, text in _FILES.items():
        (folder / path).write_text(text, encoding="utf-8")
    cli = folder / "node_modules" / "convex" / "bin" / "main.js"
    where = ["--url", backend.url, "--admin-key", backend.admin_key]
    command = [str(toolchain.node), str(cli), "dev", "--once", "--typecheck", "disable", *where]
    environment = {"PATH": f"{toolchain.node.parent}{os.pathsep}{os.defpath}", "HOME": str(folder), "CI": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the push failed:\n{done.stdout}{done.stderr}")
