"""Deploy: the Convex CLI of the submission's own packages pushes to a fresh backend.

The toolchain worker does what the CLI does, without its process. What it cannot do exactly is left to the CLI itself,
and the record says so.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import run_command
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.pipes import Silence
from pytest_convex_evals.records import Failed, Passed, StepName

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_convex_evals.backends.base import Backend

PUSH_S = 120.0
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BEGIN = "- Preparing Convex functions..."
"""What the CLI says when it is done with itself."""
_SHOWN_LINES = 30


@dataclass(frozen=True, slots=True)
class Push:
    """How a push ended, as the side that pushed sees it."""

    accepted: bool
    said: str
    notes: tuple[str, ...] = ()
    """Why the CLI had to do it; empty when the toolchain worker did."""


class DeployStep:
    """Blocks: what is not deployed cannot be tested."""

    name: StepName = "deploy"
    blocks = True
    aside = False

    def run(self, bench: Bench) -> StepResult:
        """Push once; whoever pushes and the backend decide."""
        if not (bench.project / "convex").is_dir():
            return StepResult(Failed(cause="push", reason="the project has no convex/ folder"))
        if not _cli(bench).is_file():
            return StepResult(Failed(cause="push", reason="package.json does not ask for the package convex"))
        backend = bench.tools.backend()
        bench.backend = backend
        backend.use_packages(bench.project / "node_modules")
        make_room(bench)
        push = push_in_process(bench, backend)
        if isinstance(push, str):
            push = push_by_cli(bench, backend, push)
        (bench.folder / "deploy.log").write_text(push.said + "\n", encoding="utf-8")
        # Some refusals end the CLI with exit code 0, so the backend has the last word.
        if backend.deployed() and push.accepted:
            return StepResult(Passed(), notes=push.notes)
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        return StepResult(Failed(cause="push", reason=_reason(push.said)), notes=push.notes)


def make_room(bench: Bench) -> None:
    """What a push needs beside the project: room for temporary files, and a tsconfig that says nothing.

    Without it esbuild would take the next one above, which belongs to somebody else.
    """
    (bench.folder / "scratch").mkdir(exist_ok=True)
    (bench.folder / "tsconfig.json").write_text("{}\n", encoding="utf-8")


def _cli(bench: Bench) -> Path:
    return bench.project / "node_modules" / "convex" / "bin" / "main.js"


def _reason(said: str) -> str:
    before, found, after = said.partition(_BEGIN)
    lines = [line for line in (after if found else before).splitlines() if line.strip()]
    return "\n".join(lines[-_SHOWN_LINES:]) or "the push was refused"


def push_in_process(bench: Bench, backend: Backend) -> Push | str:
    """Let the toolchain worker push, or say why the CLI must do it."""
    params = {
        "project": str(bench.project),
        "store": str(bench.tools.packages().root),
        "url": backend.url,
        "adminKey": backend.admin_key,
    }
    try:
        answer = bench.tools.worker.request("deploy", params, deadline_s=PUSH_S)
    except Silence:
        raise Trouble("tool", f"the push did not end within {PUSH_S:.0f} s", remedy="run it again") from None
    if answer["outcome"] == "unfit":
        backend.prove_alive()
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        return f"{answer['code']}: {answer['reason']}"
    return Push(answer["outcome"] == "pushed", _COLOUR.sub("", answer["said"]).strip())


def push_by_cli(bench: Bench, backend: Backend, why: str) -> Push:
    """Run the CLI in a process of its own."""
    scratch = bench.folder / "scratch"
    node = bench.tools.toolchain().node
    where = ["--url", backend.url, "--admin-key", backend.admin_key]
    done = run_command(
        [str(node), str(_cli(bench)), "dev", "--once", "--typecheck", "disable", *where],
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
    if done.timed_out or (done.killed and not backend.deployed() and not backend.runner_deaths()):
        (bench.folder / "deploy.log").write_text(said + "\n", encoding="utf-8")
        if done.timed_out:
            raise Trouble("tool", f"the push did not end within {PUSH_S:.0f} s", remedy="see deploy.log in the folder")
        raise Trouble("tool", f"the Convex CLI was ended by signal {-done.exit_code}", remedy="run it again")
    return Push(done.exit_code == 0, said, (f"pushed by the Convex CLI in a process of its own: {why}",))
