"""Disks that are full, and have room again, while a generation child works."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.generation import Child


def limit_files(child: Child, size: int) -> None:
    """No file of the child grows beyond this, as on a disk that is full."""
    pid = child.client._process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


class TinyDisk:
    """A disk of its own in memory. Full, it is as large as what lies on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._full = threading.Event()
        self._keeper: threading.Thread | None = None

    def fill(self) -> None:
        """Not a byte is left, also when files are deleted."""
        self._full.set()
        self._shrink()
        self._keeper = threading.Thread(target=self._keep_full, daemon=True)
        self._keeper.start()

    def free(self) -> None:
        """There is room again."""
        self._full.clear()
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None
        mount(self.folder, "remount,size=2g")

    def _keep_full(self) -> None:
        while self._full.is_set():
            if os.statvfs(self.folder).f_bfree:
                self._shrink()
            time.sleep(0.02)

    def _shrink(self) -> None:
        """Fails when more was written meanwhile: then there is a next time."""
        disk = os.statvfs(self.folder)
        used = max(1, disk.f_blocks - disk.f_bfree)
        mount(self.folder, f"remount,size={used * disk.f_frsize}")


def mount(folder: Path, options: str) -> bool:
    """A disk in memory."""
    if sys.platform != "linux" or os.geteuid():
        return False
    return not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], capture_output=True
    ).returncode


@contextmanager
def disk_of_its_own(folder: Path) -> Iterator[TinyDisk | None]:
    """None: that takes rights that are not ours, and the folder lies where its parent does."""
    folder.mkdir(parents=True)
    if not mount(folder, "size=2g"):
        yield None
        return
    try:
        yield TinyDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
