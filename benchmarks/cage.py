"""The cage: what it adds to the start of a process, and so to a cell."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pytest_convex_evals.cage.choice import try_level
from pytest_convex_evals.cage.levels import INSIDE, LEVELS, Cage
from pytest_convex_evals.cage.program import Limits, Program
from pytest_convex_evals.engine.setup import Toolchain, ensure_toolchain, toolchain_root

_ROUNDS = 25
_BARE = "none"


def figures() -> Iterator[str]:
    """Lines for `make bench`."""
    toolchain = ensure_toolchain()
    cages: dict[str, Cage | None] = {_BARE: None}
    for level in LEVELS:
        cage = try_level(level, toolchain.node, toolchain_root())[1]
        if cage is not None:
            cages[level] = cage
    runner = _shortest(cages, lambda cage: _runner_ms(toolchain, cage))
    launch = _shortest(cages, lambda cage: _launch_ms(toolchain, cage))
    for name, times in (("runner start", runner), ("launch", launch)):
        yield f"cage {name}: " + ", ".join(f"{level} {value:.1f} ms" for level, value in times.items())
    # A cell waits for two of them: its first runner and the CLI; other runners start while something else is done.
    yield f"cage overhead: {2 * (launch[list(cages)[1]] - launch[_BARE]):.1f} ms"


def _shortest(cages: Mapping[str, Cage | None], measure: Callable[[Cage | None], float]) -> dict[str, float]:
    """All levels in turn; other work on the machine only ever adds to a time."""
    taken: dict[str, list[float]] = {level: [] for level in cages}
    for _ in range(_ROUNDS):
        for level, cage in cages.items():
            taken[level].append(measure(cage))
    return {level: min(times) for level, times in taken.items()}


def _start(toolchain: Toolchain, cage: Cage | None, script: Path, inside: str, program: Program) -> list[str]:
    if cage is None:
        return [str(toolchain.node), str(script)]
    return [*cage.prefix(program), cage.node_inside, cage.place(inside, script)]


def _runner_ms(toolchain: Toolchain, cage: Cage | None) -> float:
    """From the start of the process to its first message."""
    script, inside = toolchain.script("runner"), f"{INSIDE}/runner.cjs"
    command = [*_start(toolchain, cage, script, inside, Program(read={inside: script})), "udf"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(3, theirs.fileno()),
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3),
            env={"TZ": "UTC"},
        )
        ours.recv(8)
        taken = time.perf_counter() - started
        ours.close()
        theirs.close()
        process.kill()
        process.wait()
    return taken * 1000


def _launch_ms(toolchain: Toolchain, cage: Cage | None) -> float:
    """A cage as the CLI has it around a program that ends at once, so that little else is measured."""
    modules = {f"{INSIDE}/node_modules": toolchain.folder / "node_modules"}
    program = Program(read=modules, processes=True, limits=Limits(memory=2**32))
    command = [str(toolchain.node)] if cage is None else [*cage.prefix(program), cage.node_inside]
    started = time.perf_counter()
    subprocess.run([*command, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000
