"""Install: the packages that the submission asks for, from the registry, with scripts off."""

from __future__ import annotations

import shutil

from pytest_convex_evals.errors import disk_trouble
from pytest_convex_evals.grading.manifest import read_manifest
from pytest_convex_evals.grading.packages import LOCK_FILE, link_packages
from pytest_convex_evals.grading.steps.base import Bench, StepResult
from pytest_convex_evals.records import Failed, Passed, StepName


class InstallStep:
    """Blocks: without packages nothing can be pushed."""

    name: StepName = "install"
    blocks = True
    aside = False

    def run(self, bench: Bench) -> StepResult:
        """Check package.json, then install or reuse a set of packages."""
        manifest = read_manifest(bench.files.get("package.json"))
        if isinstance(manifest, Failed):
            return StepResult(manifest)
        try:
            packages = bench.tools.packages().install(manifest, bench.submission.lock)
            if isinstance(packages, Failed):
                return StepResult(packages)
            shutil.copyfile(packages / LOCK_FILE, bench.folder / LOCK_FILE)
            link_packages(bench.project, packages)
        except OSError as error:
            raise disk_trouble(error, "the package store") from None
        return StepResult(Passed())
