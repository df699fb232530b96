"""A world with things to steal and to break, and a way to grade hostile submissions in it."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_convex_evals.backends.embedded import Core, EmbeddedBackend
from pytest_convex_evals.cage.levels import LEVELS
from pytest_convex_evals.cells import Cell
from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.records import CellRecord
from pytest_convex_evals.store.runs import RunFolder
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.worker import CellGrader
from tests.faults.conftest import ANSWER
from tests.support.cages import cage_of
from tests.support.process_tree import descendants, programs, wait_until

GRADER = """\
def test_attack(app, http):
    http.answer("/redirect", status=302, headers={"Location": "http://127.0.0.1:{PORT}/"})
    said = app.{KIND}("evil:go", {"url": http.url})
    assert said == "refused", said


def test_honest_functions_work(app):
    app.mutation("notes:add", {"text": "a"})
    assert [note["text"] for note in app.query("notes:all")] == ["a"]
"""
HARMLESS = """\
import { v } from "convex/values";
import { {KIND} } from "./_generated/server";

export const go = {KIND}({ args: { url: v.string() }, handler: async () => await Promise.resolve("refused") });
"""
HONEST = GRADER.partition("\n\n\n")[2]
_PROGRAMS_OF_A_FRESH_CORE = 4
"""Its watchdog, and runners that have run nothing: one for use, one in reserve, one for actions when cells had some."""


class Listener:
    """Counts connections that nobody may make."""

    def __init__(self) -> None:
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@dataclass
class World:
    """What an attack must not touch."""

    root: Path
    tools: Tools
    listener: Listener
    other: EmbeddedBackend
    """The backend of another cell."""
    all_tools: Mapping[str, Tools]
    """Of every level: their workers serve many cells."""
    token: str = field(default_factory=lambda: f"token-{secrets.token_hex(16)}")

    def __post_init__(self) -> None:
        self.of_others = set(descendants(os.getpid()))
        self.outside, self.home = self.root / "outside", self.root / "home"
        for folder in (self.outside, self.home):
            folder.mkdir()
        environment = {"HOSTILE_API_KEY": self.token}
        self.victim = subprocess.Popen(["/bin/sleep", "600"], env=environment, start_new_session=True)
        self.secret = self.home / "key"
        self.secret.write_text(self.token)
        (self.home / "key.json").write_text(json.dumps({"token": self.token}))
        (self.home / "broken.json").write_text(f'{{"token": {self.token} ]')
        (self.home / "key.ts").write_text(f'export const key = "{self.token}" as const;\n')
        (self.home / "tsconfig.json").write_text(json.dumps({"compilerOptions": {"target": self.token}}))
        (self.home / "evil.js").write_text(f"export const evil = {self.token} {self.token};\n")

    def filled(self, text: str) -> str:
        values = {
            "SECRET": str(self.secret),
            "HOME": str(self.home),
            "JOURNAL": str(self.root / "store" / "runs" / "testtest-run" / "journal.jsonl"),
            "OUTSIDE": str(self.outside),
            "PORT": str(self.listener.port),
            "PID": str(self.victim.pid),
            "OTHER": self.other.url,
            "STORE": str(self.store),
            "SUITE": str(self.root / "evals" / "000-hostile" / "000-notes"),
        }
        return re.sub("|".join(f"{{{name}}}" for name in values), lambda found: values[found[0][1:-1]], text)

    @property
    def store(self) -> Path:
        from pytest_convex_evals.grading.manifest import read_manifest

        manifest = read_manifest(ANSWER["package.json"])
        found = self.tools.packages().install(manifest)  # type: ignore[arg-type]
        assert isinstance(found, Path)
        return found / "node_modules"

    def grade(self, files: Mapping[str, str], attack: str = "") -> CellRecord:
        """Grade the honest answer with hostile files laid over it."""
        kind = "query" if "import { query }" in files.get("convex/evil.ts", "") else "action"
        grader = HONEST
        if attack:
            grader = f"{attack}\n\n{HONEST}"
        elif "go" in files.get("convex/evil.ts", ""):
            grader = GRADER.replace("{KIND}", kind)
        folder = self.root / "evals" / "000-hostile" / "000-notes"
        answer = {**ANSWER, "convex/evil.ts": HARMLESS.replace("{KIND}", kind)}
        for path, text in {
            "TASK.txt": "Keep notes.",
            "grader.py": self.filled(grader),
            **{f"answer/{name}": text for name, text in answer.items()},
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        laid = {self.filled(path): self.filled(text) for path, text in files.items()}
        submission = Submission({**ANSWER, **laid})
        run = RunFolder.of("testtest-run", str(self.root / "store"), "")
        cells = CellGrader(run, "", self.tools, None, lambda _item, _cell: submission)
        return cells.grade(
            load_eval(folder / "TASK.txt"), Cell("000-hostile", "000-notes", "somebody", "default"), "id"
        )

    def leaks(self, record: CellRecord) -> list[str]:
        """Where the secret stands that must stand nowhere."""
        found = ["record"] if self.token in record.model_dump_json() else []
        files = (path for path in (self.root / "store").rglob("*") if path.is_file() and not path.is_symlink())
        return found + [path.name for path in files if self.token.encode() in path.read_bytes()]

    @property
    def own(self) -> set[int]:
        """Processes that are there for all cells."""
        workers = [tools.worker._child.process.pid for tools in self.all_tools.values() if tools.worker._child]
        pids = [self.other._core.child.process.pid, self.victim.pid, *workers, *self._idle_cores()]
        return {one for pid in pids for one in (pid, *descendants(pid))}

    def _idle_cores(self) -> list[int]:
        return [core.child.process.pid for tools in self.all_tools.values() for core in tools._cores._idle]

    def left_running(self) -> set[int]:
        """Processes of a cell that is over; a core that waits for the next one has only what it was started with."""
        crowded = {pid for pid in self._idle_cores() if len(programs(pid)) > _PROGRAMS_OF_A_FRESH_CORE}
        return (set(descendants(os.getpid())) - self.own - self.of_others) | crowded

    def close(self) -> None:
        self.listener.close()
        self.victim.kill()
        self.victim.wait()


@pytest.fixture(scope="session")
def all_tools() -> Iterator[dict[str, Tools]]:
    made = {level: Tools(ensure_toolchain, toolchain_root(), level) for level in LEVELS}
    yield made
    for tools in made.values():
        tools.close()


@pytest.fixture(scope="session")
def other_cell() -> Iterator[EmbeddedBackend]:
    backend = EmbeddedBackend(Core.start(ensure_toolchain()))
    yield backend
    backend.close()


@pytest.fixture
def world_at(tmp_path, all_tools, other_cell, monkeypatch) -> Iterator[object]:
    """A world whose submissions are graded at a level."""
    made: list[World] = []

    def world_at(level: str) -> World:
        cage_of(level)  # type: ignore[arg-type]
        world = World(tmp_path, all_tools[level], Listener(), other_cell, all_tools)
        monkeypatch.setenv("HOSTILE_API_KEY", world.token)
        made.append(world)
        return world

    yield world_at
    for world in made:
        wait_until(lambda world=world: not world.left_running(), "nothing is left running")
        world.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many submissions came to nothing, level by level."""
    counts = {level: dict.fromkeys(("passed", "failed", "error"), 0) for level in LEVELS}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            level = report.nodeid.rpartition("-")[2].removesuffix("]")
            if "comes_to_nothing" in report.nodeid and level in counts:
                counts[level][outcome] += 1
    for level, found in counts.items():
        if any(found.values()):
            told = ", ".join(f"{count} {outcome}" for outcome, count in found.items())
            terminalreporter.write_line(f"hostile submissions, {level}: {told}")
