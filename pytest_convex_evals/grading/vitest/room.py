"""Where a vitest grader runs: its cage, its network, its backends and what it is told about them.

The grader is code of the suite, and trusted as such; but it meets submitted code, so it gets a cage of its own. In it
are Node, packages, the eval, what its suite shares, and the submission's project; nothing of the environment but the
variables of the layout. Other processes are not there: submitted code runs elsewhere.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_convex_evals.cage.levels import INSIDE
from pytest_convex_evals.cage.program import MB, Limits, Program
from pytest_convex_evals.errors import Trouble
from pytest_convex_evals.files import passing_folder
from pytest_convex_evals.grading.reference import backend_with_reference
from pytest_convex_evals.grading.vitest.programs import c_library, programs
from pytest_convex_evals.suite.vitest import ANSWER_PORT, asks_for_reference

if TYPE_CHECKING:
    from pytest_convex_evals.backends.base import Backend
    from pytest_convex_evals.grading.steps.base import Bench
    from pytest_convex_evals.grading.vitest.network import Network

_LIMITS = Limits(memory=4096 * MB, open_files=4096)
_PROCESS_LIMITS = Limits(memory=2048 * MB, open_files=4096, cpu_s=120)
_ANSWER, _ASK = f"{INSIDE}/answer", f"{INSIDE}/ask"
_PROGRAMS, _INSTALLED = f"{INSIDE}/bin", f"{INSIDE}/installed/node_modules"
_BOOT_S = 30.0
_REPORT_S = 60.0
"""What a report may take beyond the time of the grader itself."""
_IPC = {"NODE_CHANNEL_FD": "3", "NODE_CHANNEL_SERIALIZATION_MODE": "advanced"}
"""How Node finds the pipe to whoever started it; it takes them out of the environment itself."""


class Room:
    """Opened while the submission is being deployed, so that vitest is there when the tests begin."""

    def __init__(self, bench: Bench, backend: Backend | None) -> None:
        suite = bench.item.vitest
        assert suite is not None
        self._bench, self._suite = bench, suite
        self._name = secrets.token_hex(8)
        self.answer: Backend | None = None
        self._network: Network | None = None
        self._environment = {"MODEL_OUTPUT_DIR": str(bench.project.resolve())}
        self._booted = False
        self._ask: Path | None = None
        """Holds the socket on which the grader asks for processes."""
        try:
            self._open(backend)
        except BaseException:
            self.close()
            raise

    def _open(self, backend: Backend | None) -> None:
        bench, process = self._bench, None
        if backend is not None:
            if asks_for_reference(bench.item.grader, self._suite):
                self.answer = backend_with_reference(bench.item, bench.tools)
                self.answer.accept_development_key()
                self._environment[ANSWER_PORT] = str(_ports(self.answer)[0])
            backend.accept_development_key()
            api, site = _ports(backend)
            self._environment |= {"CONVEX_PORT": str(api), "CONVEX_SITE_PORT": str(site)}
            gate = None
            if backend.relay is not None:
                self._network = bench.tools.networks().take()
                process, gate = self._network.open(backend.relay, [api, site]), self._network.gate
            backend.share_network(gate, process, [] if self.answer is None else _ports(self.answer))
        processes = self._processes(process)
        command, folder = self._command(process, processes)
        params = {"name": self._name, "command": command, "folder": folder, "processes": processes}
        params |= self._server_params()
        bench.tools.vitest.request("boot", params, deadline_s=_BOOT_S)
        self._booted = True

    def _server_params(self) -> dict[str, str]:
        grader = str(self._bench.item.grader.resolve())
        return {"suite": str(self._suite.root), "grader": grader, "cache": str(self._bench.tools.cache / "vitest")}

    def _processes(self, network: int | None) -> dict[str, Any] | None:
        """How processes run that the grader starts: beside it, in cages without the grader and its suite."""
        bench, tools = self._bench, self._bench.tools
        cage, toolchain = tools.cage(), tools.toolchain()
        if not cage.isolates:
            return None
        self._ask = passing_folder("cage-")
        project, scratch = bench.project.resolve(), self._scratch()
        packages = toolchain.folder.resolve()
        read: dict[str, Path | str] = {str(packages): packages, "/bin/sh": "/bin/sh"}
        write: dict[str, Path | str] = {str(project): project}
        if (project / "node_modules").is_dir():
            installed = (project / "node_modules").resolve()
            if (installed / "vite").is_dir():
                # Vite writes beside the packages that it is one of: there it finds a folder that leads to them.
                read[_INSTALLED] = installed
                write[str(installed)] = self._links(installed)
            else:
                read[str(installed)] = installed
        read |= c_library(cage.libraries)
        if Path("/usr/bin/env").exists():
            read["/usr/bin/env"] = "/usr/bin/env"
        read |= {f"{_PROGRAMS}/{name}": path for name, path in programs(tools.cache, cage.node, packages).items()}
        program = Program(read, write, processes=True, scratch=scratch, network=network, limits=_PROCESS_LIMITS)
        return {
            "socket": str(self._ask / "socket"),
            "prefix": cage.prefix(program),
            "path": f"{_PROGRAMS}:{project}/node_modules/.bin",
            "folders": [str(project), str(scratch), str(bench.folder / "grader-packages")],
        }

    def _links(self, installed: Path) -> Path:
        folder = self._bench.folder / "grader-packages"
        folder.mkdir(exist_ok=True)
        for entry in installed.iterdir():
            (folder / entry.name).symlink_to(f"{_INSTALLED}/{entry.name}")
        return folder.resolve()

    def _scratch(self) -> Path:
        folder = self._bench.folder / "grader-tmp"
        folder.mkdir(exist_ok=True)
        return folder.resolve()

    def _command(self, network: int | None, processes: dict[str, Any] | None) -> tuple[list[str], str]:
        """The command line of the caged worker, and where it is started."""
        bench, tools = self._bench, self._bench.tools
        cage, toolchain = tools.cage(), tools.toolchain()
        project = bench.project.resolve()
        read = [toolchain.folder.resolve(), bench.item.root.resolve(), *self._suite.shared]
        if (project / "node_modules").is_dir():
            read.append((project / "node_modules").resolve())
        places: dict[str, Path | str] = {str(path): path for path in read}
        answer = ""
        if self.answer is not None and self.answer.relay is not None:
            places[_ANSWER] = self.answer.relay
            answer = f"{_ANSWER}:{','.join(map(str, _ports(self.answer)))}"
        asking = ["", ""]
        if processes is not None and self._ask is not None:
            places[_ASK] = self._ask
            asking = [f"{_ASK}/socket", str(toolchain.script("child").resolve())]
        folder = str(self._suite.root)
        write: dict[str, Path | str] = {str(project): project}
        scratch = self._scratch()
        program = Program(places, write, folder, _IPC, True, scratch, network, _LIMITS)
        script = [str(toolchain.script("grader").resolve()), _compiled(toolchain.dist.resolve()), answer, *asking]
        return [*cage.prefix(program), cage.node_inside, "--no-warnings", *script], folder

    def run(self, seconds: float) -> dict[str, Any]:
        """The report of vitest on the grader."""
        self._booted = False
        params = {
            "name": self._name,
            "project": self._environment["MODEL_OUTPUT_DIR"],
            "env": self._environment,
            "seconds": seconds,
            **self._server_params(),
        }
        report: dict[str, Any] = self._bench.tools.vitest.request("run", params, deadline_s=seconds + _REPORT_S)
        return report

    def close(self) -> None:
        """End what was opened; may be called twice."""
        if self._booted:
            self._booted = False
            with suppress(Trouble):  # a server that is gone took its workers along
                self._bench.tools.vitest.request("drop", {"name": self._name}, deadline_s=_BOOT_S)
        if self._ask is not None:
            shutil.rmtree(self._ask, ignore_errors=True)
        if self._network is not None:
            self._network.close()
            self._network = None
        if self.answer is not None:
            self.answer.close()
            self.answer = None


def _ports(backend: Backend) -> list[int]:
    """Of the API and of the HTTP actions."""
    return [int(urlsplit(url).port or 0) for url in (backend.url, backend.site_url)]


def _compiled(dist: Path) -> str:
    """The folder of compiled code, when set-up has made one."""
    folder = dist / "compiled"
    return os.fspath(folder) if folder.is_dir() else ""
