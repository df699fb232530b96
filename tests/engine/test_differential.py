"""Random programs give the same results on the engine and on convex-test, which is an oracle for tests only."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .support.core import Core
from .support.toolchain import toolchain

SUPPORT = Path(__file__).parent / "support"

FILES = {
    "diff.ts": f"""
        import {{ mutation }} from "./_generated/server";
        import {{ v }} from "convex/values";
        {(SUPPORT / "differential_program.mjs").read_text()}
        export const run = mutation({{ args: {{ ops: v.any() }}, handler: (ctx, {{ ops }}) => program(ctx, ops) }});
    """,
    "schema.ts": """
        import { defineSchema, defineTable } from "convex/server";
        import { v } from "convex/values";
        export default defineSchema({ rows: defineTable(v.any()).index("by_a", ["a"]).index("by_a_b", ["a", "b"]) });
    """,
}


@pytest.mark.parametrize("first", [0, 1000])
def test_random_programs_agree_with_the_oracle(fresh: Core, tmp_path: Path, first: int) -> None:
    (tmp_path / "node_modules").symlink_to(toolchain().oracle())
    for name in ("differential.mjs", "differential_program.mjs"):
        shutil.copy(SUPPORT / name, tmp_path)
    command = [toolchain().node, tmp_path / "differential.mjs", fresh.url, str(first), "200"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1]) == {"compared": 200}
