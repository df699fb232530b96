"""Deploy: the real Convex CLI of the submission's own packages pushes to a fresh backend."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_convex_evals.cage.levels import INSIDE, exit_code
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import Finished, run_command
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import Failed, Passed, StepName

if TYPE_CHECKING:
    from pytest_convex_evals.backends.base import Backend

PUSH_S = 120.0
LIMITS = Limits(memory=4096 * MB, scratch=256 * MB, open_files=4096, cpu_s=60)
_PROJECT, _RELAY, _REACH, _SCRATCH = "/project", f"{INSIDE}/relay", f"{INSIDE}/reach.mjs", "/tmp"  # noqa: S108
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that a limit does not send."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SHOWN_LINES = 30


class DeployStep:
    """Blocks: what is not deployed cannot be tested."""

    name: StepName = "deploy"
    blocks = True

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
        done = push(bench, backend)
        said = _COLOUR.sub("", f"{done.output}{done.complaints}").strip()
        (bench.folder / "deploy.log").write_text(said + "\n", encoding="utf-8")
        if done.timed_out:
            raise Trouble("tool", f"the push did not end within {PUSH_S:.0f} s", remedy="see deploy.log in the folder")
        # Some refusals end the CLI with exit code 0, so the backend has the last word.
        if backend.deployed() and done.exit_code == 0:
            return StepResult(Passed())
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        if done.killed and -done.exit_code in _FROM_OUTSIDE:
            raise Trouble("tool", f"the Convex CLI was ended by signal {-done.exit_code}", remedy="run it again")
        if done.killed:
            return StepResult(Failed(cause="limit", reason=f"the push used up its {_what_ran_out(-done.exit_code)}"))
        lines = [line for line in said.splitlines() if line.strip()]
        return StepResult(Failed(cause="push", reason="\n".join(lines[-_SHOWN_LINES:]) or "the push was refused"))


def push(bench: Bench, backend: Backend) -> Finished:
    """Run the CLI. It evaluates nothing that was submitted, but it reads what the sources name: so it is caged, too."""
    cage, toolchain = bench.tools.cage(), bench.tools.toolchain()
    packages = (bench.project / "node_modules").resolve()
    scratch = bench.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    node, home = cage.node_inside, cage.place(_SCRATCH, scratch)
    environment = {"PATH": f"{os.path.dirname(node)}{os.pathsep}{os.defpath}", "HOME": home, "TMPDIR": home}  # noqa: PTH120
    environment |= {"CI": "1", "NO_COLOR": "1"}
    read = {str(packages): packages, _REACH: toolchain.script("reach")}
    ways: list[str] = []
    if backend.relay is not None:
        read[_RELAY] = backend.relay
        environment["CAGE_RELAY"] = f"{_RELAY}:{urlsplit(backend.url).port},{urlsplit(backend.site_url).port}"
        ways = ["--import", _REACH]
    program = Program(read, {_PROJECT: bench.project}, _PROJECT, environment, processes=True, limits=LIMITS)
    cli = packages / "convex" / "bin" / "main.js"
    where = ["--url", backend.url, "--admin-key", backend.admin_key]
    command = [*cage.prefix(program), node, *ways, str(cli), "dev", "--once", "--typecheck", "disable", *where]
    done = run_command(command, cwd=bench.project, environment=environment, deadline_s=PUSH_S)
    return replace(done, exit_code=exit_code(done.exit_code))


def _what_ran_out(number: int) -> str:
    return f"{LIMITS.cpu_s} s of processor time" if number == signal.SIGXCPU else "memory or space"
