"""What every pytest start pays for having the plugin installed: its import, and its registration."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from statistics import median

_ROUNDS = 11
_PROGRAM = """\
import time
import pytest
from _pytest.config import get_config

manager = get_config().pluginmanager
started = time.perf_counter()
import pytest_convex_evals.plugin as plugin
manager.register(plugin, "convex-evals")
print(time.perf_counter() - started)
"""


def figures() -> Iterator[str]:
    """The median of several fresh interpreters."""
    command = [sys.executable, "-c", _PROGRAM]
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(_ROUNDS)
    ]
    yield f"plugin import: {median(seconds) * 1000:.0f} ms"
