"""What runs in a cage, and how much of everything it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Per process, held by the kernel; a cage whose program cannot start processes has them as a whole.

    The last two are for programs that can: they are counted from outside (`cage/watch.py`).
    """

    memory: int = 2048 * MB
    """Bytes of private memory, on the heap or not; stacks of threads count, so threads are limited, too."""
    scratch: int = 64 * MB
    """Bytes in /tmp, all files together."""
    file: int = 128 * MB
    """Bytes of one file."""
    open_files: int = 512
    cpu_s: int | None = None
    """Seconds of processor time until it is killed."""
    processes: int = 64
    """All at once; the kernel's own limit is per user, and does not bind root."""
    memory_of_all: int = 6144 * MB
    """Bytes of memory that is really used, by all together."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a caged program can see: nothing but Node, the C library and these."""

    read: Mapping[str, Path | str] = field(default_factory=dict)
    """Place inside → file or folder outside."""
    write: Mapping[str, Path | str] = field(default_factory=dict)
    folder: str = "/"
    """Where it starts."""
    environment: Mapping[str, str] = field(default_factory=lambda: {"TZ": "UTC"})
    processes: bool = False
    """It may start processes."""
    scratch: Path | str | None = None
    """A folder in the place of /tmp, which is in memory otherwise."""
    network: int | None = None
    """The process whose network it shares; None for a network of its own."""
    limits: Limits = field(default_factory=Limits)
