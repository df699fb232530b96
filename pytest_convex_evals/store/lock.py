"""One session at a time works on a run: it holds a lock on a file of the run as long as it lives."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from pytest_convex_evals.errors import SettingsError
from pytest_convex_evals.files import is_locked

_FILE = "session.lock"


@dataclass(slots=True)
class RunLock:
    """Held until it is released, or until this process ends in whatever way; children do not inherit it."""

    _handle: int | None

    @classmethod
    def take(cls, run: Path) -> RunLock:
        """Refuse a run that somebody else works on."""
        handle = os.open(run / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 64, 0).decode(errors="replace").strip()
            os.close(handle)
            raise SettingsError(
                f"another session works on run {run.name}: process {holder or 'unknown'}.\n"
                "  what to do: wait until it has ended, or end it (Ctrl-C keeps everything), then try again"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        return cls(handle)

    def release(self) -> None:
        """Others may have the run; may be called twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_worked_on(run: Path) -> bool:
    """Some session holds the lock."""
    return is_locked(run / _FILE)
