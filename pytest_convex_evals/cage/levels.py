"""The levels of the cage, and the command line that puts a program into one.

`bwrap` and `namespaces` hold the same promises by different means: own user, process, mount, network, IPC and UTS
namespaces, a read-only root of only what the program needs, no /proc, and a filter of system calls. `node` is what is
left elsewhere: Node's permission model, which Node itself holds. Limits of the kernel come with every level.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_convex_evals.cage.filter import filter_program
from pytest_convex_evals.cage.program import Program

Level = Literal["bwrap", "namespaces", "node"]
LEVELS: tuple[Level, ...] = ("bwrap", "namespaces", "node")
"""From the strongest to the weakest."""
INSIDE = "/cage"
"""The folder of a cage that holds what we put there."""
_LAUNCHER = Path(__file__).with_name("launcher.py")
_NETWORK = Path(__file__).with_name("network.py")
_HOSTS = "127.0.0.1 localhost\n"
_STAT = f"1 (node) R 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0 0 12288{' 0' * 28}\n"
"""In the place of /proc/self/stat: there is no /proc, and Node reads its size there."""
_NOBODY = "65534"
_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Cage:
    """One level on this machine, ready for use."""

    level: Level
    node: Path
    """The Node that caged programs are run by."""
    files: Path
    """Holds what every cage gets: made once, never written again."""
    libraries: tuple[str, ...] = ()
    launcher: str = ""
    """The program of the level: bwrap or Python."""

    @property
    def isolates(self) -> bool:
        """Programs see a root of their own."""
        return self.level != "node"

    @property
    def node_inside(self) -> str:
        """Node's path as a caged program is started."""
        return f"{INSIDE}/node" if self.isolates else str(self.node)

    def place(self, inside: str, outside: Path | str) -> str:
        """The path under which a program finds a file: its place inside, where there is an inside."""
        return inside if self.isolates else str(outside)

    def prefix(self, program: Program) -> list[str]:
        """What comes before the command line of a program."""
        limits = program.limits
        values = {"c": 0, "n": limits.open_files, "d": limits.memory // 1024, "f": limits.file // 512}
        if limits.cpu_s is not None:
            # First the signal that says why; the first process of a namespace would ignore it, and is killed at once.
            values |= {"S -t": limits.cpu_s, "H -t": limits.cpu_s + (_GRACE_S if program.processes else 0)}
        # One that the system cannot set is left out: macOS has no limit on memory.
        script = "".join(f"ulimit -{what} {value} 2>/dev/null || :; " for what, value in values.items())
        if not self.isolates:
            return ["/bin/sh", "-c", f'{script}exec "$@"', "cage"]
        wanted = self.files / ("processes.bpf" if program.processes else "single.bpf")
        build = self._bwrap(program) if self.level == "bwrap" else self._namespaces(program)
        if program.network is not None:
            build = [*_python(_NETWORK), "join", str(program.network), "--", *build]
        return ["/bin/sh", "-c", f'{script}exec "$@" 9<"$0"', str(wanted), *build]

    def network_prefix(self) -> list[str]:
        """What comes before the command line of a trusted program that gets a new network, and nothing else."""
        if self.level == "bwrap":
            return [self.launcher, "--die-with-parent", "--unshare-user", "--unshare-net", "--dev-bind", "/", "/", "--"]
        return [*_python(_NETWORK), "hold", "--"]

    def _read(self, program: Program) -> dict[str, str]:
        own = {
            **{path: path for path in self.libraries},
            f"{INSIDE}/node": str(self.node),
            "/etc/hosts": str(self.files / "hosts"),
            "/proc/self/stat": str(self.files / "stat"),
            "/dev/null": "/dev/null",
        }
        return own | {inside: str(outside) for inside, outside in program.read.items()}

    def _bwrap(self, program: Program) -> list[str]:
        command = [self.launcher, "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
        command += ["--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY, "--unshare-cgroup-try"]
        command += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "cage"]
        command += ["--unshare-net"] if program.network is None else []
        # The first process must collect others; a program without others is the first, and its launcher collects it.
        command += [] if program.processes else ["--as-pid-1"]
        memory = ["--size", str(program.limits.scratch), "--perms", "1777", "--tmpfs"]
        command += [*(memory if program.scratch is None else ["--bind", str(program.scratch)]), "/tmp"]  # noqa: S108
        for inside, outside in self._read(program).items():
            command += ["--dev-bind" if inside == "/dev/null" else "--ro-bind", outside, inside]
        for inside, source in program.write.items():
            command += ["--bind", str(source), inside]
        for name, value in program.environment.items():
            command += ["--setenv", name, value]
        return [*command, "--remount-ro", "/", "--chdir", program.folder, "--seccomp", "9", "--"]

    def _namespaces(self, program: Program) -> list[str]:
        command = [*_python(_LAUNCHER), "scratch", str(program.limits.scratch)]
        command += ["" if program.scratch is None else os.path.realpath(program.scratch)]
        # Links are followed here: inside the cage they would lead elsewhere.
        for inside, outside in self._read(program).items():
            command += ["read", inside, os.path.realpath(outside)]
        for inside, source in program.write.items():
            command += ["write", inside, os.path.realpath(source)]
        for name, value in program.environment.items():
            command += ["variable", name, value]
        command += ["processes", "", ""] if program.processes else []
        command += ["joined", "", ""] if program.network is not None else []
        return [*command, "folder", program.folder, "", "--"]


def _python(script: Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(script)]


def make_cage(level: Level, node: Path, files: Path) -> Cage:
    """A level without a proof that it holds; raises OSError when a part of it is not there."""
    if level == "node":
        return Cage(level, node, files)
    launcher = _find("bwrap") if level == "bwrap" else sys.executable
    content = {
        "hosts": _HOSTS.encode(),
        "stat": _STAT.encode(),
        "single.bpf": filter_program(processes=False),
        "processes.bpf": filter_program(processes=True),
    }
    folder = files / hashlib.sha256(repr(content).encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        if not (folder / name).is_file():
            partial = folder / f".{name}.{os.getpid()}"
            partial.write_bytes(data)
            partial.rename(folder / name)
    return Cage(level, node, folder, _libraries(node), launcher)


def _find(name: str) -> str:
    """A program of the system, not one that the environment of a project puts before it."""
    for folder in ("/usr/bin", "/usr/local/bin", "/bin", *os.get_exec_path()):
        path = Path(folder) / name
        if path.is_absolute() and os.access(path, os.X_OK):
            return str(path)
    raise FileNotFoundError(2, "is not installed", name)


def _libraries(program: Path) -> tuple[str, ...]:
    """The shared libraries that a program of ours loads."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=30, check=True)
    words = (word for line in done.stdout.splitlines() for word in line.split())
    return tuple(dict.fromkeys(word for word in words if word.startswith("/")))


def exit_code(code: int) -> int:
    """The exit code of a caged program: a launcher reports a signal as 128 plus its number."""
    return 128 - code if code > 128 else code


def innermost(pid: int) -> int:
    """The program that a launcher started, as seen from outside."""
    for _ in range(8):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        if not children:
            break
        pid = int(children[-1])
    return pid
