"""A pytest plugin that grades one submission the slow way: fixtures deploy it and the reference by the real CLI.

The chain of cold processes ends with `pytest -p benchmarks.cold_session GRADER`; the environment says what to deploy.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend
from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.props import Props
from pytest_convex_evals.grading.reference import Reference
from pytest_convex_evals.grading.steps.base import Bench
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import load_eval

_NAMES = ("app", "clock", "http", "screen", "reference", "poll_until", "files", "sources")


class Cell:
    """Submission and reference, each on a backend of its own."""

    def __init__(self) -> None:
        item = load_eval(Path(os.environ["COLD_TASK"]))
        folder = Path(os.environ["COLD_FOLDER"])
        # Nothing of the slow way is caged: its backends have no way out of a cage, which a screen would need.
        self.tools = Tools(ensure_toolchain, toolchain_root(), sandbox="node")
        self.seconds: dict[str, float] = {}
        self._reference = self._deploy(folder / "reference", "convex dev (reference)")
        self.found = Reference(self._reference.schema(), self._reference.functions())
        self.backend = self._deploy(folder / "project", "convex dev")
        files = item.answer_files()
        self.props = Props(Bench(item, Submission(files), folder, self.tools, files, self.backend))

    def _deploy(self, project: Path, name: str) -> EmbeddedBackend:
        started = time.perf_counter()
        toolchain = self.tools.toolchain()
        backend = EmbeddedBackend(Core.start(toolchain))
        backend.use_packages(project / "node_modules")
        cli = project / "node_modules" / "convex" / "bin" / "main.js"
        where = ["--url", backend.url, "--admin-key", backend.admin_key]
        environment = {"PATH": f"{toolchain.node.parent}{os.pathsep}{os.defpath}", "HOME": str(project), "CI": "1"}
        command = [str(toolchain.node), str(cli), "dev", "--once", *where]
        subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
        self.seconds[name] = time.perf_counter() - started
        return backend

    def close(self) -> None:
        """End everything, and leave the times."""
        self.props.__exit__()
        self.backend.close()
        self._reference.close()
        self.tools.close()
        Path(os.environ["COLD_TIMES"]).write_text(json.dumps(self.seconds), encoding="utf-8")


@pytest.fixture(scope="session")
def cell() -> Iterator[Cell]:
    """Deployed once, for all checks."""
    made = Cell()
    yield made
    made.close()


@pytest.fixture
def props(cell: Cell) -> Iterator[Props]:
    """Each check begins with an empty backend."""
    cell.props.begin_check()
    yield cell.props
    cell.props.end_check()


def _fixture(name: str) -> Callable[..., Any]:
    def make(cell: Cell, props: Props) -> Any:
        return cell.found if name == "reference" else props.makers[name]()

    return pytest.fixture(make, name=name)


for _name in _NAMES:
    globals()[f"provide_{_name}"] = _fixture(_name)
