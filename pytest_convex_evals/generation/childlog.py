"""What the generation child says in its log. A log that cannot be written is no reason to stop, or not to end."""

from __future__ import annotations

import os
import traceback
from contextlib import suppress

_STDERR = 2


def log(text: str) -> None:
    """Past Python's stream: what a full disk refuses must not lie there and be refused again with the next line."""
    with suppress(OSError):
        os.write(_STDERR, f"{text}\n".encode(errors="replace"))


def log_defect() -> None:
    """The exception that is being handled."""
    log(traceback.format_exc())
