"""The scores backend as a project on disk, with its packages at the versions of its lock file."""

import shutil
from pathlib import Path

from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import Manifest, read_manifest
from pytest_convex_evals.grading.packages import PackageStore

SCORES = Path(__file__).parents[3] / "evalScores"


def copy_project(folder: Path) -> Path:
    """A copy that tests may change; the original is never written to."""
    project = folder / "evalScores"
    shutil.copytree(SCORES, project, ignore=shutil.ignore_patterns("node_modules", ".env.local"))
    (project / "node_modules").symlink_to(_packages())
    return project


def _packages() -> Path:
    manifest = read_manifest((SCORES / "package.json").read_text())
    assert isinstance(manifest, Manifest), manifest
    lock = (SCORES / "package-lock.json").read_text()
    installed = PackageStore(toolchain_root() / "packages", ensure_toolchain()).install(manifest, lock)
    assert isinstance(installed, Path), installed
    return installed / "node_modules"
