"""Files that are whole or absent, and locks on them."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write beside, flush to disk, rename. A reader sees the old file or the new one, never a part."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in it survive a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """JSON, atomically."""
    write_atomically(path, json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", durable=durable)


def is_locked(path: Path, *, shared: bool = False) -> bool:
    """Some process holds the lock on a file; of `shared` locks several may."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, (fcntl.LOCK_EX if shared else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


_PASSING = ("/dev/shm", "/tmp")  # noqa: S108 - a folder of its own is made there


def passing_folder(prefix: str) -> Path:
    """A folder for files that come and go with every cell, in memory where the system has such a place.

    Some file systems are slow for minutes where much was deleted. The path is short: names of sockets have 107 bytes.
    """
    for place in _PASSING:
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    return Path(tempfile.mkdtemp(prefix=prefix))
