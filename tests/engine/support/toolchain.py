"""Where the tests find Node, the built engine and the packages of the oracle."""

import os
from functools import cache
from pathlib import Path

from pytest_convex_evals.engine import setup
from pytest_convex_evals.grading.manifest import Manifest
from pytest_convex_evals.grading.packages import PackageStore

ORACLE = {"convex": "1.48.0", "convex-test": "0.0.60"}


class Toolchain:
    """Node, its packages and the bundles of the engine."""

    def __init__(self, ready: setup.Toolchain) -> None:
        self._ready = ready
        self.node = ready.node
        self.modules = ready.folder / "node_modules"
        self.core = ready.script("core")
        self.cli = self.modules / "convex" / "bin" / "main.js"
        self.compiled = ready.folder / "compiled-for-tests"
        """Where Node keeps what it has compiled: the CLI is large, and tests start it often."""

    def cli_environment(self, home: Path) -> dict[str, str]:
        """What the real CLI gets to see."""
        path = {"PATH": os.environ["PATH"], "HOME": str(home), "CI": "1"}
        return path | {"NODE_COMPILE_CACHE": str(self.compiled)}

    def oracle(self) -> Path:
        """A `node_modules` with convex-test, for differential tests only."""
        return self.packages(ORACLE)

    def convex(self, version: str) -> Path:
        """A `node_modules` with this version of the convex package."""
        return self.packages({"convex": version})

    def packages(self, dependencies: dict[str, str]) -> Path:
        """A `node_modules` with these packages."""
        packages = PackageStore(setup.toolchain_root() / "packages", self._ready).install(Manifest(dependencies))
        assert isinstance(packages, Path), packages
        return packages / "node_modules"


@cache
def toolchain() -> Toolchain:
    """The toolchain of the package, set up on first need."""
    return Toolchain(setup.ensure_toolchain())
