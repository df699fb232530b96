"""What each worker is doing: one small file per worker, which the controller reads when it draws."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from pytest_convex_evals.progress import AtWork

_SIZE = 1024


class StatusFile:
    """Written in place: a reader that meets half a line shows nothing this time."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._worker = worker
        self._handle: int | None = None
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(folder / worker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def tell(self, cell: str, step: str) -> None:
        """The worker has entered a step of a cell; nothing at all when `cell` is empty."""
        if self._handle is not None:
            # Of the machine, not of the process, and nobody sets it: the controller reads the same clock.
            text = json.dumps([cell[:200], step, time.monotonic()])
            with suppress(OSError):
                os.pwrite(self._handle, text.encode().ljust(_SIZE), 0)

    def close(self) -> None:
        """Nothing is worked on any more."""
        if self._handle is not None:
            self.tell("", "")
            os.close(self._handle)
            self._handle = None


def read_statuses(folder: Path) -> list[AtWork]:
    """Everybody who works, in the order of their names."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            with suppress(OSError, ValueError, TypeError):
                cell, step, since = json.loads(path.read_bytes())
                if cell:
                    found.append(AtWork(path.name, str(cell), str(step), float(since)))
    return found


def remove_statuses(folder: Path) -> None:
    """The session has ended."""
    shutil.rmtree(folder, ignore_errors=True)
