"""The live view: some lines below everything that pytest prints, drawn by the controller on a terminal.

pytest writes through one file object. While the view is up, that object is ours: it takes the view away, lets the text
pass, and draws the view again below it. So whatever pytest or another plugin prints there stays as it is.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_EVERY_S = 0.5
_PLAIN_EVERY_S = 5.0
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CLEAR_BELOW = "\x1b[J"


class Area:
    """Stands in for the file that pytest writes to."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._drawn = 0
        self._column = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        """What others print, above the view."""
        with self._lock:
            self._erase()
            self._file.write(text)
            self._column = self._after(text)
            if "\n" in text or self._column:
                self._draw()
        return len(text)

    def show(self, lines: list[str]) -> None:
        """Draw other lines; none takes the view away."""
        with self._lock:
            self._lines = lines
            self._erase()
            self._draw()
            self._file.flush()

    def _after(self, text: str) -> int:
        """The column of the cursor, as far as it matters: where the last line of others ends."""
        head, _, last = text.rpartition("\n")
        ended = bool(head) or text.startswith("\n")
        last, carried = last.rpartition("\r")[2], "" if ended or "\r" in last else " " * self._column
        return len(carried) + len(_ESCAPE.sub("", last))

    def _erase(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            back = f"\x1b[{self._column}C" if self._column else ""
            # The line of others is left alone: what stands behind the cursor is theirs.
            self._file.write(f"\r{up}{_CLEAR_BELOW}\x1b[1A{back}")
            self._drawn = 0

    def _draw(self) -> None:
        if self._lines:
            self._file.write("".join(f"\n{line}" for line in self._lines))
            self._drawn = len(self._lines)


class Ticker:
    """Shows how things stand, now and then, until it is stopped."""

    def __init__(self, tick: Callable[[], None], every_s: float) -> None:
        self._tick, self._every = tick, every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="convex-evals-progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            with suppress(OSError, ValueError):  # a terminal that has gone away
                self._tick()

    def stop(self) -> None:
        """No more; what was begun is finished."""
        self._stopped.set()
        self._thread.join(self._every + 1.0)


class LiveView:
    """The view on a terminal."""

    def __init__(self, writer: Any, lines: Callable[[int], list[str]]) -> None:
        self._writer, self._lines = writer, lines
        self._area = Area(writer._file)
        writer._file = self._area
        self._ticker = Ticker(self._tick, _EVERY_S)

    def _tick(self) -> None:
        size = shutil.get_terminal_size()
        self._area.show(self._lines(size.columns - 1)[: max(1, size.lines // 2)])

    def close(self) -> None:
        """Take the view away and give pytest its file back."""
        self._ticker.stop()
        self._area.show([])
        self._writer._file = self._area._file


class PlainLines:
    """One line every few seconds where nothing can be drawn, and only when it says something new."""

    def __init__(self, say: Callable[[str], None], line: Callable[[], str]) -> None:
        self._say, self._line, self._last = say, line, ""
        self._ticker = Ticker(self._tick, _PLAIN_EVERY_S)

    def _tick(self) -> None:
        line = self._line()
        if line != self._last:
            self._last = line
            self._say(line)

    def close(self) -> None:
        """A last line, and no more."""
        self._ticker.stop()
        with suppress(OSError, ValueError):
            self._tick()


def can_draw(config: Any, reporter: Any) -> bool:
    """A terminal that understands, and nobody else who writes to it behind pytest's back."""
    writer = getattr(reporter, "_tw", None)
    return (
        writer is not None
        and hasattr(writer, "_file")
        and bool(getattr(reporter, "isatty", False) or writer._file.isatty())
        and getattr(writer, "hasmarkup", False)
        and config.get_verbosity() >= 0
        and not config.getoption("usepdb", False)
        and (config.getoption("capture", "fd") != "no" or config.getoption("dist", "no") != "no")
    )
