"""The question before money is spent: only on a terminal, only above a threshold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import pytest

from pytest_convex_evals.settings import Settings


def consent_of(
    config: pytest.Config, settings: Settings, environment: Mapping[str, str]
) -> Callable[[str], bool] | None:
    """How to ask a person; None when the answer is known. Without a terminal the answer is yes."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if settings.yes or environment.get("CI") or reporter is None:
        return None

    def ask(question: str) -> bool:
        capture = config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)  # or standard input is none
        try:
            stdin = sys.__stdin__
            if stdin is None or stdin.closed or not stdin.isatty() or not reporter.isatty:
                return True
            reporter.ensure_newline()
            reporter.write(f"{question} [y/N] ")
            reporter.flush()
            return stdin.readline().strip().lower() in {"y", "yes"}
        finally:
            if capture is not None:
                capture.resume()

    return ask


def decline() -> None:
    """End the session: nothing was spent."""
    pytest.exit("nothing was bought: --evals-yes buys without asking", returncode=pytest.ExitCode.USAGE_ERROR)
