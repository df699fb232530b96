"""`convex-evals setup`."""

from __future__ import annotations

from pytest_convex_evals.cli.output import say
from pytest_convex_evals.engine.setup import ensure_toolchain, is_ready


def run_setup(*, force: bool, quiet_when_ready: bool) -> int:
    """Set the Node toolchain up, with a line for each thing that takes time."""
    if is_ready() and not force:
        if not quiet_when_ready:
            say(f"the toolchain is ready: {ensure_toolchain().folder}")
        return 0
    toolchain = ensure_toolchain(lambda line: say(f"set-up: {line}"), force=force)
    say(f"set-up: the toolchain is ready in {toolchain.folder}")
    return 0
