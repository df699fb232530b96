"""Deploy: the Convex CLI of the submission's own packages pushes to a fresh backend.

The toolchain worker does what the CLI does, without its process. What it cannot do exactly is left to the CLI itself,
and the record says so.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_convex_evals.cage.levels import INSIDE, exit_code
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.cage.watch import watch
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.grading.process import Finished, run_command
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.pipes import Silence
from pytest_convex_evals.records import Failed, Passed, StepName

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_convex_evals.backends.base import Backend

PUSH_S = 120.0
_WARM_S = 60.0
"""The same in the toolchain worker, which takes tenths of a second."""
LIMITS = Limits(memory=4096 * MB, scratch=256 * MB, open_files=4096, cpu_s=60)
_PROJECT, _RELAY, _REACH, _SCRATCH = "/project", f"{INSIDE}/relay", f"{INSIDE}/reach.mjs", "/tmp"  # noqa: S108
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that a limit does not send."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BEGIN = "- Preparing Convex functions..."
"""What the CLI says when it is done with itself."""
_SHOWN_LINES = 30
_BUILT = tuple(f".{kind}" for kind in ("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "css"))


@dataclass(frozen=True, slots=True)
class Push:
    """How a push ended, as the side that pushed sees it."""

    accepted: bool
    said: str
    notes: tuple[str, ...] = ()
    """Why the CLI had to do it; empty when the toolchain worker did."""
    used_up: str = ""
    """The limit that ended it."""


class DeployStep:
    """Blocks: what is not deployed cannot be tested."""

    name: StepName = "deploy"
    blocks = True
    aside = False

    def __init__(self, before_push: Callable[[Bench, Backend], object] = lambda _bench, _backend: None) -> None:
        self._before_push = before_push

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
        self._before_push(bench, backend)
        push = push_in_process(bench, backend)
        if isinstance(push, str):
            push = push_by_cli(bench, backend, push)
        bench.keep_log(self.name, push.said)
        # Some refusals end the CLI with exit code 0, so the backend has the last word.
        if backend.deployed() and push.accepted:
            return StepResult(Passed(), notes=push.notes)
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        if push.used_up:
            return StepResult(Failed(cause="limit", reason=f"the push used up its {push.used_up}"), notes=push.notes)
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
    hidden = _names_hidden_files(bench.files)
    if hidden:
        return f"outside: {hidden}"
    params = {
        "project": str(bench.project),
        "store": str(bench.tools.packages().root),
        "url": backend.url,
        "adminKey": backend.admin_key,
    }
    try:
        answer = bench.tools.worker.request("deploy", params, deadline_s=_WARM_S)
    except Silence:
        # The CLI has limits of its own, which say whose fault it is.
        backend.prove_alive()
        return f"silent: the push did not end within {_WARM_S:.0f} s"
    if answer["outcome"] == "unfit":
        if answer["code"] == "defect":
            # What broke may be broken for the next one, too.
            bench.tools.worker.close()
        backend.prove_alive()
        if backend.runner_deaths():
            raise Trouble("cage", "the process that runs the submission died during the push")
        return f"{answer['code']}: {answer['reason']}"
    return Push(answer["outcome"] == "pushed", _COLOUR.sub("", answer["said"]).strip())


def _names_hidden_files(files: Mapping[str, str]) -> str:
    """Why a build could read files that it does not tell of: the worker is not caged, the CLI is."""
    for path, text in files.items():
        name = path.rpartition("/")[2].casefold()
        if name in {"tsconfig.json", "jsconfig.json"} and ("extends" in text or "\\" in text):
            return f"{path} may build on another file"
        if "sourceMappingURL" in text and path.casefold().endswith(_BUILT):
            return f"{path} names a source map"
    return ""


def push_by_cli(bench: Bench, backend: Backend, why: str) -> Push:
    """Run the CLI in a process of its own."""
    done = _caged_cli(bench, backend)
    said = _COLOUR.sub("", f"{done.output}{done.complaints}").strip()
    notes = (f"pushed by the Convex CLI in a process of its own: {why}",)
    if done.used_up:
        return Push(accepted=False, said=said, notes=notes, used_up=done.used_up)
    if not done.timed_out and (not done.killed or backend.deployed() or backend.runner_deaths()):
        return Push(done.exit_code == 0, said, notes)
    bench.keep_log("deploy", said)
    if done.timed_out:
        raise Trouble("tool", f"the push did not end within {PUSH_S:.0f} s", remedy="see deploy.log in the folder")
    if -done.exit_code in _FROM_OUTSIDE:
        raise Trouble("tool", f"the Convex CLI was ended by signal {-done.exit_code}", remedy="run it again")
    out_of_time = -done.exit_code == signal.SIGXCPU
    used_up = f"{LIMITS.cpu_s} s of processor time" if out_of_time else "memory or space"
    return Push(accepted=False, said=said, notes=notes, used_up=used_up)


def _caged_cli(bench: Bench, backend: Backend) -> Finished:
    """It evaluates nothing that was submitted, but it reads what the sources name: so it is caged, too."""
    cage, toolchain = bench.tools.cage(), bench.tools.toolchain()
    packages = (bench.project / "node_modules").resolve()
    scratch = bench.folder / "scratch"
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
    done = run_command(command, cwd=bench.project, environment=environment, deadline_s=PUSH_S, watch=watch(LIMITS))
    return replace(done, exit_code=exit_code(done.exit_code))
