"""Which level a session gets: the one asked for, or the strongest that holds on this machine."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from pytest_convex_evals.cage.filter import known_machine
from pytest_convex_evals.cage.levels import INSIDE, LEVELS, Cage, Level, make_cage
from pytest_convex_evals.cage.program import Program
from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.options import AUTO

_PROBE = Path(__file__).with_name("probe.mjs")
_INSIDE = f"{INSIDE}/probe.mjs"
_PROBE_S = 60.0
REMEDIES: dict[Level, str] = {
    "bwrap": "install bubblewrap (on Debian and Ubuntu: apt-get install bubblewrap) and allow user namespaces, "
    "or choose another level with --evals-sandbox",
    "namespaces": "allow unprivileged user namespaces (sysctl user.max_user_namespaces; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0), or choose another level with --evals-sandbox",
    "node": "",
}


def choose_cage(asked: str, node: Path, cache_folder: Path) -> Cage:
    """The cage of the level asked for, tried out; `auto` falls back to the level `node`, which is always there."""
    reasons = []
    for level in LEVELS if asked == AUTO else [one for one in LEVELS if one == asked]:
        problem, cage = try_level(level, node, cache_folder)
        if cage is not None:
            return cage
        reasons.append((level, problem))
    level, problem = reasons[0]
    raise SettingsError(f"the sandbox {level} is not available here: {problem}.\n  what to do: {REMEDIES[level]}")


@cache
def try_level(level: Level, node: Path, cache_folder: Path) -> tuple[str, Cage | None]:
    """The cage, or why it does not hold; asked once per process."""
    files = cache_folder / "cage"
    if level == "node":
        return "", make_cage(level, node, files)
    if sys.platform != "linux" or not known_machine():
        return "it needs Linux on x86_64 or aarch64", None
    try:
        cage = make_cage(level, node, files)
        problem = _broken_by(cage)
    except (OSError, subprocess.SubprocessError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        return f"{getattr(error, 'filename', None) or level}: {said}", None
    return (problem, None) if problem else ("", cage)


def _broken_by(cage: Cage) -> str:
    """What a program in the cage can do that it must not; empty when the cage holds."""
    program = Program(read={_INSIDE: _PROBE}, environment={})
    with tempfile.NamedTemporaryFile() as secret, socket.create_server(("127.0.0.1", 0)) as server:
        secret.write(secrets.token_bytes(16))
        port = server.getsockname()[1]
        script = cage.place(_INSIDE, _PROBE)
        command = [*cage.prefix(program), cage.node_inside, script, secret.name, str(port)]
        done = subprocess.run(
            command,
            env={"CAGE_PROBE": "must not be seen"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return said[-1] if said else f"its launcher ended with exit code {done.returncode}"
    try:
        could = json.loads(done.stdout)["done"]
    except (ValueError, KeyError, TypeError):
        return "the program that tries it out said nothing"
    return f"a program inside could {', '.join(could)}" if could else ""
