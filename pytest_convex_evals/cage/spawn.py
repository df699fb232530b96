"""Starting caged processes: from a thread that lives as long as this process.

The kernel ends a caged process with the thread that started it, which may be one of a single check.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path


@cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="cage")


def start(command: Sequence[str], *, cwd: Path | str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A process with pipes for its streams and a process group of its own; raises OSError."""
    return (
        _starter()
        .submit(
            subprocess.Popen,
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        .result()
    )
