"""Random programs give the same results on the engine and on convex-test, which is an oracle for tests only.

More, or others: `DIFFERENTIAL_PROGRAMS=100000 DIFFERENTIAL_SEED=7 pytest tests/engine/test_differential.py`
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .support.core import Core
from .support.toolchain import toolchain

PARTS = Path(__file__).parent / "support" / "differential"
PROGRAMS = int(os.environ.get("DIFFERENTIAL_PROGRAMS", "300"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "0"))
HALF = PROGRAMS // 2

FILES = {
    "diff.ts": """
        import { query, mutation, internalQuery, internalMutation } from "./_generated/server";
        import { internal } from "./_generated/api";
        import { handlers } from "./parts/program.mjs";
        const { write: writes, read: reads, page: pages, inner: inners } = handlers(internal.diff);
        export const write = mutation(writes);
        export const read = query(reads);
        export const page = internalQuery(pages);
        export const inner = internalMutation(inners);
    """,
    "schema.ts": """
        import { BATCH, makeSchema } from "./parts/schema.mjs";
        export default makeSchema(BATCH);
    """,
    "parts/program.mjs": (PARTS / "program.mjs").read_text(),
    "parts/schema.mjs": (PARTS / "schema.mjs").read_text(),
}


@pytest.mark.parametrize("first", [SEED, SEED + HALF], ids=["one half", "other half"])
def test_random_programs_agree_with_the_oracle(fresh: Core, tmp_path: Path, first: int) -> None:
    (tmp_path / "node_modules").symlink_to(toolchain().oracle())
    for part in PARTS.glob("*.mjs"):
        shutil.copy(part, tmp_path)
    command = [toolchain().node, tmp_path / "compare.mjs", fresh.url, str(first), str(HALF)]
    deadline = 300 + HALF / 5
    finished = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    assert finished.returncode == 0, finished.stderr
    outcome = json.loads(finished.stdout.splitlines()[-1])
    assert outcome.get("compared") == HALF, outcome
    # Programs do something: most operations succeed, and mistakes are among them.
    assert 0.02 < outcome["errors"] / outcome["operations"] < 0.3
