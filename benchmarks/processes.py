"""Wall time, processor time and memory of a command with everything that it starts."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_S = 0.25


@dataclass(slots=True)
class Cost:
    """What a command has cost."""

    wall_s: float
    cpu_s: float
    output: str = ""
    peaks: dict[str, int] = field(default_factory=dict)
    """The largest resident size seen of processes whose command line has a text, in bytes."""


def adopt_orphans() -> None:
    """Descendants whose parent died become children of this process, so that their time is counted."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def measure(command: Sequence[str], cwd: Path, environment: Mapping[str, str], watch: Sequence[str] = ()) -> Cost:
    """Run to the end; a command that fails is no measurement."""
    before, started = _children_cpu(), time.perf_counter()
    child = subprocess.Popen(
        command, cwd=cwd, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peaks = dict.fromkeys(watch, 0)
    ended = threading.Event()
    sampler = threading.Thread(target=_sample, args=(child.pid, peaks, ended), daemon=True)
    if watch:
        sampler.start()
    output, _ = child.communicate()
    wall = time.perf_counter() - started
    ended.set()
    _reap()
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-4000:]}")
    return Cost(wall, _children_cpu() - before, output, peaks)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Wait for orphans; they were told to end."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    parents = dict(_parents())
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found


def family_cpu(pid: int) -> float:
    """Processor seconds of a process and its descendants, with those that have ended and were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for one in family(pid):
        with suppress(OSError):
            # The clock that Linux keeps for all threads of another process.
            total += time.clock_gettime((~one << 3) | 2)
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[13]) + int(fields[14])) / ticks
    return total


def _parents() -> Iterator[tuple[int, int]]:
    """Each process with its parent; no program is asked, which would be one of them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def resident(pid: int) -> int:
    """Bytes; nothing for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _sample(pid: int, peaks: dict[str, int], ended: threading.Event) -> None:
    while not ended.wait(_SAMPLE_S):
        for one in family(pid):
            try:
                command = Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            for text in peaks:
                if text in command:
                    peaks[text] = max(peaks[text], resident(one))
