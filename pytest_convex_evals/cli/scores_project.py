"""The scores backend as a project on disk: where its sources are, and a copy with its packages to push from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest_convex_evals
from pytest_convex_evals.engine.setup import Toolchain, toolchain_root
from pytest_convex_evals.errors import SetupError
from pytest_convex_evals.grading.manifest import read_manifest
from pytest_convex_evals.grading.packages import PackageStore
from pytest_convex_evals.records import Failed

_NAME = "evalScores"
_LEFT_OUT = shutil.ignore_patterns("node_modules", ".env*", "*.test.ts")
MIGRATION_STEPS = (
    "npx convex run migrations:runAll",
    "npx convex run --component migrations lib:getStatus --watch",
)
"""After a push that loosened the schema, before the one that tightens it."""


def sources() -> Path:
    """The folder of the backend: beside the package in a checkout, inside of it when installed from a wheel."""
    package = Path(pytest_convex_evals.__file__).parent
    beside = package.parent / _NAME
    return beside if (beside / "package.json").is_file() else package / "scores" / "backend"


def project_copy(folder: Path, toolchain: Toolchain) -> Path:
    """A fresh copy with the packages of its lock file, so that no push writes into the sources."""
    project = folder / _NAME
    shutil.copytree(sources(), project, ignore=_LEFT_OUT)
    manifest = read_manifest((project / "package.json").read_text(encoding="utf-8"))
    lock = (project / "package-lock.json").read_text(encoding="utf-8")
    store = PackageStore(toolchain_root() / "packages", toolchain)
    packages = manifest if isinstance(manifest, Failed) else store.install(manifest, lock)
    if isinstance(packages, Failed):
        raise SetupError(
            "the packages of the scores backend",
            command="npm ci",
            output=packages.reason,
            remedy="check the network and the registry settings of npm, then run the same command again",
        )
    (project / "node_modules").symlink_to(packages / "node_modules")
    return project


def cli_of(project: Path) -> Path:
    """The project's own Convex CLI."""
    return project / "node_modules" / "convex" / "bin" / "main.js"
