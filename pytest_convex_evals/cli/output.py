"""Plain text for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def say(line: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
