"""Pushing projects: in process for rules, by the real CLI for features."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .core import Core
from .lines import LineProcess
from .toolchain import toolchain


class PushError(Exception):
    """The server refused a push."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class Bundler:
    """Bundles as the CLI does, in one Node process for all tests."""

    def __init__(self) -> None:
        tools = toolchain()
        self.lines = LineProcess([tools.node, Path(__file__).with_name("bundler.mjs"), tools.modules])

    def body(self, files: dict[str, str]) -> dict[str, Any]:
        if folder := os.environ.get("RECORD_PROJECTS"):
            text = json.dumps(files)
            (Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json").write_text(text)
        answer = self.lines.ask(files=files)
        if "failure" in answer:
            raise AssertionError(answer["failure"])
        return answer["body"]

    def push(self, core: Core, files: dict[str, str]) -> dict[str, Any]:
        """Start, wait, finish. Returns the answer of start_push."""
        started = self._post(core, "start_push", self.body(files))
        waited = self._post(core, "wait_for_schema", {"schemaChange": started["schemaChange"], "timeoutMs": 1000})
        if waited["type"] != "complete":
            raise PushError(200, waited["type"], waited.get("error", ""))
        self._post(core, "finish_push", {"startPush": started, "dryRun": False})
        return started

    def _post(self, core: Core, name: str, body: dict[str, Any]) -> Any:
        answer = core.post(f"/api/deploy2/{name}", {"adminKey": core.key, **body})
        if answer.status != 200:
            raise PushError(answer.status, **{key: answer.json()[key] for key in ("code", "message")})
        return answer.json()

    def close(self) -> None:
        self.lines.close()


@dataclass(frozen=True)
class CliResult:
    code: int
    output: str


def write_project(folder: Path, files: dict[str, str], version: str | None = None) -> None:
    """A project on disk with the toolchain's packages, or with another version of convex."""
    (folder / "package.json").write_text(
        '{"name": "project", "dependencies": {"convex": "%s"}}' % (version or "1.48.0")
    )
    if not (folder / "node_modules").exists():
        modules = toolchain().modules if version is None else toolchain().convex(version)
        (folder / "node_modules").symlink_to(modules)
    for name, text in files.items():
        path = folder / "convex" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run_cli(core: Core, folder: Path, *command: str) -> CliResult:
    """The real CLI against the core."""
    tools = toolchain()
    finished = subprocess.run(
        [
            tools.node,
            folder / "node_modules" / "convex" / "bin" / "main.js",
            *command,
            "--url",
            core.url,
            "--admin-key",
            core.key,
        ],
        cwd=folder,
        env=tools.cli_environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return CliResult(finished.returncode, finished.stdout + finished.stderr)


def cli_push(core: Core, folder: Path, files: dict[str, str], version: str | None = None) -> CliResult:
    write_project(folder, files, version)
    return run_cli(core, folder, "dev", "--once", "--typecheck", "disable")


def run_node(script: str, folder: Path, deadline: float = 120, **environment: str) -> str:
    """Runs an ES module with the toolchain's packages in reach; its standard output."""
    path = folder / "script.mjs"
    path.write_text(script)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(toolchain().modules)
    finished = subprocess.run(
        [toolchain().node, path],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=deadline,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
