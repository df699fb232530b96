"""The backend's own tests and types, with the packages of its lock file."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.support.toolchain import toolchain

from .support.project import SCORES, copy_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("project"))


def run(project: Path, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [toolchain().node, project / "node_modules" / script, *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(project), "CI": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_vitest_suite_passes(project: Path) -> None:
    shown = run(project, "vitest/vitest.mjs", "run", "--maxWorkers=1", "--no-isolate")
    for path in (SCORES / "convex").glob("*.test.ts"):
        assert f"✓ convex/{path.name}" in shown, shown


def test_the_types_hold(project: Path) -> None:
    run(project, "typescript/bin/tsc", "--project", "convex")


def test_the_lock_file_carries_no_addresses() -> None:
    assert "resolved" not in (SCORES / "package-lock.json").read_text()
