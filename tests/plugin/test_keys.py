"""Keys are held by the generation child alone, and stand nowhere."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import ANSWER
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.process_tree import command_of, descendants, environment_of
from tests.support.sessions import Project
from tests.support.suites import RIGHT, answer_text

GRADER = '''\
"""No key can be seen from here."""

import os
import subprocess
from pathlib import Path

KEY = "-".join(("sk", "very", "secret"))


def test_the_environment_has_no_key(files):
    assert [name for name, value in os.environ.items() if KEY in value] == []


def test_children_get_no_key(files):
    assert KEY not in subprocess.run(["env"], capture_output=True, text=True).stdout


def test_workers_were_started_without_a_key(files):
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert KEY not in Path("/proc/self/environ").read_text()


def test_the_toolchain_has_no_key(sources):
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [pid for pid in children if KEY in Path(f"/proc/{pid}/environ").read_text()] == []
'''
FULL_GRADER = """\
def test_keeps_notes(app):
    app.mutation("notes:add", {"text": "a"})
    assert [note["text"] for note in app.query("notes:all")] == ["a"]
"""
KEY = "sk-very-secret"
A_MOMENT = 50
"""Looks."""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_a_key_is_seen_by_the_provider_and_by_nobody_else(project: Project, workers: list[str]) -> None:
    seen: dict[tuple[int, str], bytes] = {}
    copies: Counter[int] = Counter()
    ended = threading.Event()

    def look() -> None:
        """All the time, at every process of the session."""
        while not ended.wait(0.02):
            for pid in descendants(session.pid):
                with suppress(OSError):
                    command = command_of(pid)
                    copies[pid] += command == command_of(session.pid)
                    # A process that was forked off looks like its parent for a moment, and only for a moment.
                    if command != command_of(session.pid) or copies[pid] > A_MOMENT:
                        seen[pid, command] = seen.get((pid, command), b"") or environment_of(pid)

    def answer(request: dict[str, Any]) -> Reply:
        if "003-told" in request["messages"][-1]["content"]:
            said = {"message": f"Incorrect API key provided: {KEY}.", "type": "invalid_request_error"}
            return Reply(status=401, error=said)
        return Reply(answer_text(ANSWER if "004-full" in request["messages"][-1]["content"] else RIGHT))

    for number in range(3):
        project.suite.add(f"000-m/{number:03}-keys", grader=GRADER)
    project.suite.add("000-m/003-told")
    project.suite.add("000-m/004-full", grader=FULL_GRADER, answer=ANSWER, toml=None)
    with OpenAIServer(answer) as server:
        project.env(OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, MY_AUTH_TOKEN=KEY, AWS_SECRET_ACCESS_KEY=KEY)
        (project.root / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n", encoding="utf-8")
        session = project.start("evals", "--models", "gpt-5", "-vv", "-l", *workers)
        watcher = threading.Thread(target=look)
        watcher.start()
        output, _ = session.communicate(timeout=240)
        ended.set()
        watcher.join()
        assert set(server.keys) == {f"Bearer {KEY}"}
    assert session.returncode == 1, output
    assert "4 passed, 1 error" in output
    commands = " ".join(command for _, command in seen)
    for part in ("pytest_convex_evals.generation.child", "toolchain.mjs", "core.mjs", "runner.cjs"):
        assert part in commands
    assert len({pid for pid, _ in seen}) >= (6 if workers else 4)
    for (_, command), environment in seen.items():
        assert KEY not in command
        assert KEY.encode() not in environment, command
    assert KEY not in output
    written = [path for path in project.root.rglob("*") if path.is_file() and path.name != ".env"]
    assert len([path for path in written if ".evals" in path.parts]) > 10
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


TOLD = """\
def test_tells_where_it_is(files):
    assert False, __file__
"""
LOST = """\
import os

raise OSError(os.path.expanduser("~/somewhere/else"))
"""


def test_no_path_of_the_home_folder_is_kept(project: Project) -> None:
    home = project.root
    project.env(HOME=str(home), npm_config_cache=str(home.parent / "npm"))
    project.suite.add("000-m/000-told", grader=TOLD)
    project.suite.add("000-m/001-lost", grader=LOST)
    answer = {
        "package.json": '{"dependencies": {"convex": "1.48.0"}}',
        "convex/file.ts": "const nothing = 1;\n",
        "convex/main.ts": 'import { a } from "./file";\nexport const answer: number = a;\n',
    }
    project.suite.add("000-m/002-types", answer=answer, toml=None)
    done = project.apart("evals", "--evals-dir", str(home / "results"))
    assert done.code == 1, done.output
    kept = [path for path in (home / "results").rglob("*") if path.is_file()]
    # run.json says where to go on after an interruption, and stays on the machine.
    kept = [path for path in kept if path.suffix in {".json", ".jsonl", ".log"} and path.name != "run.json"]
    assert {path.name for path in kept} >= {"journal.jsonl", "record.json", "tsc.log"}
    assert [path.name for path in kept if str(home).encode() in path.read_bytes()] == []
    junit = (home / "junit.xml").read_text(encoding="utf-8")
    assert "test_tells_where_it_is" in junit
    assert str(home) not in junit


def test_the_environment_is_given_back_when_the_session_ends(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    grader = "import os\n\n\ndef test_no_key(files):\n    assert 'OPENAI_API_KEY' not in os.environ\n"
    project.suite.add("000-m/000-keys", grader=grader)
    done = project.here("evals")
    assert done.code == 0, done.output
    assert os.environ["OPENAI_API_KEY"] == KEY
    assert not Path(project.root / "junit.xml").read_text(encoding="utf-8").count(KEY)
