"""`convex-evals backend`, with real processes."""

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pytest_convex_evals.backends.embedded import Pushes
from pytest_convex_evals.cli.backend import _outcome
from pytest_convex_evals.engine.setup import ensure_toolchain
from tests.support.process_tree import descendants, hear_interrupts, lives, wait_until

COMMAND = [sys.executable, "-m", "pytest_convex_evals.cli.main", "backend"]
FUNCTION = """
import { query } from "./_generated/server";
export const answer = query({ args: {}, handler: async () => VALUE });
"""
SECONDS = 60.0


class Running:
    """The command in a process group of its own, with its output by line."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.seen: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def until(self, start: str) -> str:
        """The rest of the next line that starts so."""
        while True:
            line = self.lines.get(timeout=SECONDS)
            assert line is not None, f"ended without {start!r}:\n" + "\n".join(self.seen)
            self.seen.append(line)
            if line.startswith(start):
                return line.removeprefix(start).strip()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)


@pytest.fixture
def backend():
    started: list[Running] = []

    def start(*arguments):
        started.append(Running(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def project(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "project", "dependencies": {"convex": "1.48.0"}}')
    (tmp_path / "node_modules").symlink_to(ensure_toolchain().folder / "node_modules")
    (tmp_path / "convex").mkdir()
    write(tmp_path, "1")
    return tmp_path


def write(project: Path, value: str) -> None:
    (project / "convex/main.ts").write_text(FUNCTION.replace("VALUE", value))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(url: str, body: object, key: str = "") -> tuple[int, object]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Convex {key}"} if key else {})
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def answer(url: str) -> object:
    return post(f"{url}/api/query", {"path": "main:answer", "args": {}})[1]


def test_ports_and_key_are_those_asked_for_and_the_use_is_explained(backend):
    port, site_port = free_port(), free_port()
    running = backend("--port", port, "--site-port", site_port, "--admin-key", "name|secret")
    url = running.until("backend ")
    assert url == f"http://127.0.0.1:{port}"
    assert running.until("site ").split()[0] == f"http://127.0.0.1:{site_port}"
    assert running.until("admin key ") == "name|secret"
    assert running.until("  npx convex dev ") == f"--url {url} --admin-key 'name|secret'"
    assert running.until("  CONVEX_SELF_HOSTED_URL=") == url
    assert running.until("  CONVEX_SELF_HOSTED_ADMIN_KEY=") == "'name|secret'"
    assert post(f"{url}/api/check_admin_key", {}, "name|secret")[0] == 200
    assert post(f"{url}/api/check_admin_key", {}, "name|other")[0] in (401, 403)


def test_a_project_is_pushed_at_start_and_whenever_it_changes(backend, project):
    running = backend("--dir", project)
    url = running.until("backend ")
    running.until("push: ended")
    assert answer(url) == {"status": "success", "value": 1}
    write(project, "22")
    running.until("push: ended")
    assert answer(url) == {"status": "success", "value": 22}
    (project / "convex/more.ts").write_text("export const x = 1; throw new Error('at import');")
    running.until("push: failed (exit code 1)")
    assert any("Uncaught Error: at import" in line for line in running.seen)
    assert answer(url) == {"status": "success", "value": 22}
    (project / "convex/more.ts").unlink()
    running.until("push: ended")
    assert answer(url) == {"status": "success", "value": 22}


def test_a_push_that_was_not_activated_is_refused_though_the_cli_exits_with_0(backend, project):
    running = backend("--dir", project)
    url = running.until("backend ")
    key = running.until("admin key ")
    running.until("push: ended")
    over = threading.Event()

    def overtake() -> None:
        while not over.wait(0.01):
            post(f"{url}/api/deploy2/start_push", {"adminKey": key, "appDefinition": {}})

    other = threading.Thread(target=overtake)
    other.start()
    try:
        write(project, "22")
        assert running.until("push: refused: ").endswith("; waiting for changes")
    finally:
        over.set()
        other.join(SECONDS)
    assert any("Schema was overwritten by another push." in line for line in running.seen)
    assert answer(url) == {"status": "success", "value": 1}
    write(project, "333")
    running.until("push: ended")
    assert answer(url) == {"status": "success", "value": 333}


def test_the_reason_of_a_refusal_is_the_backends_if_it_knows_one():
    assert _outcome(0, Pushes(2, None), 1) == "ended"
    assert _outcome(0, Pushes(1, "InvalidConfig: no"), 1) == "refused: InvalidConfig: no"
    assert _outcome(0, Pushes(1, None), 1).startswith("refused: the CLI gave up before the end")
    assert _outcome(1, Pushes(1, "InvalidConfig: no"), 1) == "failed (exit code 1)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["push: /", "push: ended"])
def test_a_signal_ends_it_and_leaves_no_process(backend, project, number, moment):
    running = backend("--dir", project)
    running.until(moment)
    wait_until(lambda: len(descendants(running.process.pid)) >= 3, "core, runner and watchdog")
    below = descendants(running.process.pid)
    os.kill(running.process.pid, number)
    running.until("the backend has ended")
    assert running.process.wait(SECONDS) == 0
    wait_until(lambda: not any(map(lives, below)), "the end of every process")
    assert not any("Traceback" in line for line in running.seen)


def test_a_backend_that_dies_is_a_message(backend):
    running = backend()
    running.until("Ctrl-C ends")
    (core,) = [pid for pid in descendants(running.process.pid) if os.getpgid(pid) == pid and is_core(pid)]
    os.kill(core, signal.SIGKILL)
    assert re.search(r"^died .*\(exit code -9\)", running.until("the backend "))
    assert running.process.wait(SECONDS) == 1


def is_core(pid: int) -> bool:
    return b"core.mjs" in Path(f"/proc/{pid}/cmdline").read_bytes()


def refusal(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("flag", ["--port", "--site-port"])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_in_use_is_a_message(flag, family, host):
    try:
        taken = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"{host} is not there")
    with taken:
        port = taken.getsockname()[1]
        remedy = f"choose another one with {flag}, or leave it out for any free port"
        assert refusal(flag, str(port)) == (1, f"port {port} is in use.\n  what to do: {remedy}\n")


def test_one_port_for_two_uses_is_a_message():
    assert refusal("--port", "4000", "--site-port", "4000")[1].startswith("--port and --site-port are both 4000.\n")


@pytest.mark.parametrize("text", ["0", "65536", "-1", "abc", "1.5", ""])
def test_what_is_no_port_is_a_message(text):
    code, complaint = refusal(f"--port={text}")
    assert code == 2
    assert f"argument --port: {text!r} is not a port: a number from 1 to 65535" in complaint


@pytest.mark.parametrize("text", ["", "a b", "ä", "a\nb"])
def test_what_is_no_key_is_a_message(text):
    code, complaint = refusal(f"--admin-key={text}")
    assert code == 2
    assert "without spaces" in complaint


def test_a_folder_without_functions_is_a_message(tmp_path):
    code, complaint = refusal("--dir", tmp_path)
    assert code == 1
    assert complaint.startswith(f"{tmp_path} has no convex/ folder.\n  what to do: ")
    (tmp_path / "convex.json").write_text('{"functions": "src/convex/"}')
    assert refusal("--dir", tmp_path)[1].startswith(f"{tmp_path} has no src/convex/ folder.\n")
    assert refusal("--dir", tmp_path / "none")[0] == 1


def test_a_project_without_the_package_is_a_message(tmp_path):
    (tmp_path / "convex").mkdir()
    remedy = "run `npm install convex` in that folder"
    expected = f"{tmp_path} does not have the package convex installed.\n  what to do: {remedy}\n"
    assert refusal("--dir", tmp_path) == (1, expected)
