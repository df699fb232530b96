"""Deploy: the real Convex CLI of the submission's own packages pushes to a fresh backend."""

from __future__ import annotations

import os
import re

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import run_command
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import Failed, Passed, StepName

PUSH_S = 120.0
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SHOWN_LINES = 30


class DeployStep:
    """Blocks: what is not deployed cannot be tested."""

    name: StepName = "deploy"
    blocks = True
    aside = False

    def run(self, bench: Bench) -> StepResult:
        """Push once; the exit code and the backend decide."""
        if not (bench.project / "convex").is_dir():
            return StepResult(Failed(cause="push", reason="the project has no convex/ folder"))
        cli = bench.project / "node_modules" / "convex" / "bin" / "main.js"
        if not cli.is_file():
            return StepResult(Failed(cause="push", reason="package.json does not ask for the package convex"))
        backend = bench.tools.backend()
        bench.backend = backend
        backend.use_packages(bench.project / "node_modules")
        scratch = bench.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        node = bench.tools.toolchain().node
        where = ["--url", backend.url, "--admin-key", backend.admin_key]
        done = run_command(
            [str(node), str(cli), "dev", "--once", "--typecheck", "disable", *where],
            cwd=bench.project,
            environment={
                "PATH": f"{node.parent}{os.pathsep}{os.defpath}",
                "HOME": str(scratch),
                "TMPDIR": str(scratch),
                "CI": "1",
                "NO_COLOR": "1",
            },
            deadline_s=PUSH_S,
        )
        said = _COLOUR.sub("", f"{done.output}{done.complaints}").strip()
        (bench.folder / "deploy.log").write_text(said + "\n", encoding="utf-8")
        if done.timed_out:
            raise Trouble("tool", f"the push did not end within {PUSH_S:.0f} s", remedy="see deploy.log in the folder")
        # Some refusals end the CLI with exit code 0, so the backend has the last word.
        if backend.deployed() and done.exit_code == 0:
            return StepResult(Passed())
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        if done.killed:
            raise Trouble("tool", f"the Convex CLI was ended by signal {-done.exit_code}", remedy="run it again")
        lines = [line for line in said.splitlines() if line.strip()]
        return StepResult(Failed(cause="push", reason="\n".join(lines[-_SHOWN_LINES:]) or "the push was refused"))
