"""The network of one cell: a loopback interface that a grader shares with the Node actions of the submission.

Nothing else is in it. A gate of ours opens the ports of the deployment before anybody else can, and leads the `fetch`
of other actions in. Graders and submitted code meet there as they would on a machine of their own, and nowhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pytest_convex_evals.cage.levels import Cage, innermost
from pytest_convex_evals.engine.setup import Toolchain
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import passing_folder
from pytest_convex_evals.pipes import LineChild, Refused

_START_S = 30.0


class Network:
    """Begins to start when it is made."""

    def __init__(self, cage: Cage, toolchain: Toolchain) -> None:
        self._folder = passing_folder("cage-")
        self.gate = self._folder / "gate.sock"
        """Whoever connects names a port inside, and is led there."""
        command = [*cage.network_prefix(), str(toolchain.node), str(toolchain.script("gate")), str(self.gate)]
        self._child = LineChild(
            command,
            cwd=toolchain.folder,
            environment={},
            name="the gate of the grader's network",
            cause="cage",
            remedy="run the same command again",
        )

    def open(self, relay: Path, ports: Sequence[int]) -> int:
        """Lead these ports to the socket files of a relay; the number of a process in this network."""
        self._child.greeting(_START_S)
        try:
            self._child.request("serve", {"folder": str(relay), "ports": list(ports)}, deadline_s=_START_S)
        except Refused as error:
            raise Trouble("cage", f"the gate of the grader's network refused: {error}") from None
        return innermost(self._child.process.pid)

    def close(self) -> None:
        """The network ends with the last process in it."""
        self._child.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Networks:
    """One for each cell; the next one is always ready."""

    def __init__(self, cage: Cage, toolchain: Toolchain) -> None:
        self._cage, self._toolchain = cage, toolchain
        self._spare: Network | None = None

    def take(self) -> Network:
        """A fresh network; whoever takes it closes it."""
        network = self._spare or Network(self._cage, self._toolchain)
        self._spare = Network(self._cage, self._toolchain)
        return network

    def close(self) -> None:
        """End the one that nobody needs."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None
