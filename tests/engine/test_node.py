# ruff: noqa: E501 - programs in tables stay on one line
"""Runs the unit tests of the engine's pure modules with Node's test runner."""

import subprocess
from pathlib import Path

import pytest

from .support.toolchain import toolchain

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "pytest_convex_evals" / "engine" / "src"

BUILD = """
import { createRequire } from "node:module";
const [, , modules, source, out, sources] = process.argv;
const esbuild = createRequire(modules + "/index.js")("esbuild");
const alias = { name: "core", setup(build) { build.onResolve({ filter: /^#(core|runner|toolchain)\\// }, (args) => ({ path: sources + "/" + args.path.slice(1).replace(/\\.js$/, ".ts") })); } };
await esbuild.build({ entryPoints: [source], outfile: out, bundle: true, platform: "node", format: "esm", target: "node24", external: ["undici"], plugins: [alias], logLevel: "error" });
"""


@pytest.mark.parametrize("source", sorted(HERE.glob("node/*.test.ts")), ids=lambda path: path.name)
def test_unit_tests_in_node(source: Path, tmp_path: Path) -> None:
    tools = toolchain()
    script = tmp_path / "build.mjs"
    script.write_text(BUILD)
    (tmp_path / "node_modules").symlink_to(tools.modules)
    built = tmp_path / "tests.mjs"
    subprocess.run([tools.node, script, tools.modules, source, built, SOURCES], check=True, timeout=60)
    finished = subprocess.run(
        [tools.node, "--test", "--test-reporter=tap", built], capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stdout
    assert "# pass 0" not in finished.stdout
