"""The tools of one pytest worker, each made on first need and kept for the next cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_convex_evals.backends.base import Backend
from pytest_convex_evals.backends.embedded import Core, Cores
from pytest_convex_evals.cage.choice import choose_cage
from pytest_convex_evals.cage.levels import Cage
from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.errors import SettingsError, SetupError, Trouble
from pytest_convex_evals.grading.packages import PackageStore
from pytest_convex_evals.grading.screen_spare import Spare
from pytest_convex_evals.grading.toolchain import ToolchainWorker
from pytest_convex_evals.grading.vitest.network import Networks
from pytest_convex_evals.grading.vitest.server import VitestServer
from pytest_convex_evals.options import AUTO

_REPAIR = "run `convex-evals setup --force`"


class Tools:
    """Toolchain, cage, package store, toolchain worker and backends."""

    def __init__(self, set_up: Callable[[], Toolchain], cache: Path, sandbox: str = AUTO) -> None:
        self._set_up = set_up
        self.cache = cache
        self.sandbox = sandbox
        self._toolchain: Toolchain | None = None
        self._packages: PackageStore | None = None
        self.worker = ToolchainWorker(self.toolchain)
        self.vitest = VitestServer(self.toolchain)
        self.screens = Spare(self.toolchain, self.cage)
        self._networks: Networks | None = None
        self._cores = Cores(lambda: Core.start(self.toolchain(), cage=self.cage()))

    def toolchain(self) -> Toolchain:
        """Node and its packages."""
        if self._toolchain is None:
            try:
                self._toolchain = self._set_up()
            except SetupError as error:
                raise Trouble("toolchain", str(error), remedy=error.remedy) from None
            except OSError as error:
                reason = f"the set-up of the Node toolchain failed: {error}"
                raise Trouble("toolchain", reason, remedy=_REPAIR) from None
        return self._toolchain

    def cage(self) -> Cage:
        """What submitted code runs in."""
        try:
            return choose_cage(self.sandbox, self.toolchain().node, self.cache)
        except SettingsError as error:
            raise Trouble("cage", str(error)) from None

    def packages(self) -> PackageStore:
        """Where the packages of submissions are installed."""
        root = self.cache / "packages"
        if self._packages is None or self._packages.root != root:
            self._packages = PackageStore(root, self.toolchain())
        return self._packages

    def backend(self) -> Backend:
        """A fresh, empty backend; whoever asks for it closes it."""
        return self._cores.backend()

    def networks(self) -> Networks:
        """Networks that graders share with submissions."""
        if self._networks is None:
            self._networks = Networks(self.cage(), self.toolchain())
        return self._networks

    def close(self) -> None:
        """End what was started."""
        self.vitest.close()
        self.screens.close()
        if self._networks is not None:
            self._networks.close()
            self._networks = None
        self._cores.close()
        if self._packages is not None:
            self._packages.close()
            self._packages = None
        self.worker.close()
