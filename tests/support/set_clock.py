"""A wall clock that a test sets while a child process runs. The system's own belongs to everybody on the machine.

The child is a real one: Python loads a `sitecustomize` before anything else, and from then on all that asks this
process for the time of day hears the time that the test has set. Monotonic clocks stay what they are, as they do
when somebody sets the clock of a system.
"""

from __future__ import annotations

import datetime
import mmap
import os
import struct
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_OFFSET, _SEEN = struct.Struct("d"), struct.Struct("q")
_SIZE = _OFFSET.size + _SEEN.size


class WallClock:
    """`with WallClock(folder, monkeypatch) as clock`: of all Python children that are started meanwhile."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir(parents=True)
        shared = folder / "offset"
        shared.write_bytes(bytes(_SIZE))
        self._shared = _map(shared)
        start = f"import sys\nsys.path.append({str(_ROOT)!r})\n"
        start += f"from tests.support.set_clock import follow\nfollow({str(shared)!r})\n"
        (folder / "sitecustomize.py").write_text(start, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)

    def set(self, seconds: float) -> None:
        """So far from the true time."""
        _OFFSET.pack_into(self._shared, 0, seconds)

    @property
    def seen(self) -> int:
        """How often a child looked at its clock and found it changed."""
        return int(_SEEN.unpack_from(self._shared, _OFFSET.size)[0])

    def __enter__(self) -> WallClock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shared.close()


def _map(path: Path) -> mmap.mmap:
    with path.open("r+b") as stream:
        return mmap.mmap(stream.fileno(), _SIZE)


def follow(path: str) -> None:
    """From now on the time of day in this process is what the test says."""
    shared, last, true_time = _map(Path(path)), [0.0], time.time

    def offset() -> float:
        (set_to,) = _OFFSET.unpack_from(shared, 0)
        if set_to != last[0]:
            last[0] = set_to
            _SEEN.pack_into(shared, _OFFSET.size, _SEEN.unpack_from(shared, _OFFSET.size)[0] + 1)
        return float(set_to)

    def now() -> float:
        return true_time() + offset()

    plain: dict[str, Any] = {name: getattr(time, name) for name in ("gmtime", "localtime", "ctime", "strftime")}
    true_clock = time.clock_gettime

    def clock(which: int) -> float:
        return true_clock(which) + (offset() if which == time.CLOCK_REALTIME else 0.0)

    replaced: dict[str, Any] = {
        "time": now,
        "time_ns": lambda: int(now() * 1e9),
        "clock_gettime": clock,
        "clock_gettime_ns": lambda which: int(clock(which) * 1e9),
        "gmtime": lambda seconds=None: plain["gmtime"](now() if seconds is None else seconds),
        "localtime": lambda seconds=None: plain["localtime"](now() if seconds is None else seconds),
        "ctime": lambda seconds=None: plain["ctime"](now() if seconds is None else seconds),
        "strftime": lambda form, when=None: plain["strftime"](
            form, plain["localtime"](now()) if when is None else when
        ),
    }
    for name, function in replaced.items():
        setattr(time, name, function)
    _replace_datetime(now)


def _replace_datetime(now: Any) -> None:
    """Its own clock is not that of `time`; whatever is a date or a datetime stays one."""

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, plain[cls]) if cls in plain else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, plain[cls]) if cls in plain else type.__subclasscheck__(cls, kind)

    class Datetime(datetime.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

    class Date(datetime.date, metaclass=Kind):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

    plain: dict[type, type] = {Datetime: datetime.datetime, Date: datetime.date}
    for name, kind in (("datetime", Datetime), ("date", Date)):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
        setattr(datetime, name, kind)
