"""Pushing one project twice, by the Convex CLI and by the toolchain worker, and what can be told apart afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend
from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.manifest import read_manifest
from pytest_convex_evals.grading.packages import link_packages
from pytest_convex_evals.grading.steps.base import Bench
from pytest_convex_evals.grading.steps.deploy import Push, make_room, push_by_cli, push_in_process
from pytest_convex_evals.grading.tools import Tools

from .lines import LineProcess
from .toolchain import toolchain

LEFT_OUT = {
    "GET /api/v1/get_canonical_urls",
    "GET /api/stream_function_logs",
    "POST /api/deploy2/report_push_completed",
}
"""What the CLI asks for itself, before and after it pushes."""

OF_THE_CLI = re.compile(
    r"Saved .* to \.env\.local$|▌ |- Preparing Convex functions\.\.\.$|✔ [0-9:]+ Convex functions ready! "
)
"""What it says about itself."""


@dataclass(frozen=True)
class Outcome:
    """Everything that a push leaves behind."""

    accepted: bool
    said: list[str]
    files: dict[str, str]
    requests: list[dict[str, Any]]
    deployment: dict[str, Any]


class Recorded:
    """A backend behind an address that remembers what was sent."""

    relay = None

    def __init__(self) -> None:
        self.backend = EmbeddedBackend(Core.start(ensure_toolchain()))
        self.admin_key = self.backend.admin_key
        self._lines = LineProcess([toolchain().node, Path(__file__).with_name("recorder.mjs")])
        self.url: str = self._lines.first()["ready"]
        self._lines.ask(target=self.backend.url)

    def begin(self, packages: Path) -> None:
        self.backend._ask("wipe")
        self.backend.use_packages(packages)
        self._lines.ask()

    def requests(self) -> list[dict[str, Any]]:
        return [one for one in self._lines.ask()["seen"] if one["what"] not in LEFT_OUT]

    def deployment(self) -> dict[str, Any]:
        """Schema, functions and crons of the app and of each component."""
        found: dict[str, Any] = {"crons": self.backend._ask("crons")}
        for component in self.backend._ask("components"):
            path = component["path"]
            spec = self.backend._ask("functionSpec", component=path)["functions"]
            found[path] = {"functions": spec, "schema": self.backend._ask("schema", component=path)}
        for cron in found["crons"]:
            del cron["nextRun"]
        return found

    def deployed(self) -> bool:
        return self.backend.deployed()

    def runner_deaths(self) -> int:
        return self.backend.runner_deaths()

    def prove_alive(self) -> None:
        self.backend.prove_alive()

    def close(self) -> None:
        self._lines.kill()
        self.backend.close()


class TwoWays:
    """Two backends and one toolchain worker for all projects: what a push leaves in the worker meets the next one."""

    def __init__(self, root: Path) -> None:
        self._root, self._count = root, 0
        self.tools = Tools(ensure_toolchain, toolchain_root(), "node")
        self._backends = {"cli": Recorded(), "worker": Recorded()}

    def push(self, files: Mapping[str, str]) -> tuple[Outcome, Outcome]:
        """The CLI's outcome and the worker's; the project's packages are those that its package.json asks for."""
        self._count += 1
        return self._one("cli", files), self._one("worker", files)

    def reason_for_cli(self, files: Mapping[str, str]) -> str:
        """Why the worker leaves a project to the CLI."""
        self._count += 1
        push = push_in_process(self._bench("worker", files), self._backends["worker"])  # type: ignore[arg-type]
        assert isinstance(push, str), push
        return push

    def replicas(self) -> Path:
        """Where the worker keeps what it builds again."""
        folder = self.tools.worker._folder
        assert folder is not None
        return folder

    def _bench(self, way: str, files: Mapping[str, str]) -> Bench:
        folder = self._root / f"{self._count:03}-{way:6}".replace(" ", "_")
        bench = Bench(None, None, folder, self.tools)  # type: ignore[arg-type]
        for name, text in files.items():
            path = bench.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        make_room(bench)
        manifest = read_manifest(files["package.json"])
        assert not hasattr(manifest, "reason"), manifest
        packages = self.tools.packages().install(manifest)
        assert isinstance(packages, Path), packages
        link_packages(bench.project, packages)
        return bench

    def _one(self, way: str, files: Mapping[str, str]) -> Outcome:
        bench, backend = self._bench(way, files), self._backends[way]
        backend.begin(bench.project / "node_modules")
        push = push_by_cli(bench, backend, "") if way == "cli" else push_in_process(bench, backend)  # type: ignore[arg-type]
        assert isinstance(push, Push), f"left to the CLI: {push}"
        assert not list((bench.folder / "scratch").glob("convex*")), "temporary files are left"
        return Outcome(
            accepted=push.accepted and backend.deployed(),
            said=_told(push.said, bench.folder, backend.url),
            files=_files(bench.project),
            requests=backend.requests(),
            deployment=backend.deployment() if backend.deployed() else {},
        )

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()
        self.tools.close()


def _told(said: str, folder: Path, url: str) -> list[str]:
    """Lines about the push itself, without what differs from one push to the next."""
    for text, name in ((str(folder), "FOLDER"), (str(folder.resolve()), "FOLDER"), (url, "URL")):
        said = said.replace(text, name)
    said = re.sub(r"\[Request ID: [0-9a-f]+\]", "[Request ID]", said)
    return [line for line in said.splitlines() if line and not OF_THE_CLI.match(line)]


def _files(project: Path) -> dict[str, str]:
    skipped = {".env.local", ".gitignore"}
    found = {}
    for path in sorted(project.rglob("*")):
        name = path.relative_to(project).as_posix()
        if path.is_file() and name not in skipped and not name.startswith("node_modules"):
            found[name] = path.read_text(encoding="utf-8")
    return found
