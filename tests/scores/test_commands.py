"""`convex-evals scores`, `token`, `deploy`, `mint` and `upload` on one backend, as people use them."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.suites import Suite

from .support.journals import MadeRun

TIMEOUT_S = 120


class Laptop:
    """A folder in which commands are given, with a scores backend that `convex-evals scores` started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.variables = folder, {}
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            self.ports = [str(server.getsockname()[1]) for server in (one, other)]
        self.url = f"http://127.0.0.1:{self.ports[0]}"
        self.start()

    def start(self) -> None:
        ports = ["--port", self.ports[0], "--site-port", self.ports[1]]
        self.server = self._popen("scores", *ports)
        shown = ""
        for line in self.server.stdout:
            shown += line
            if line.startswith("Ctrl-C"):
                break
        found = re.search(r"CONVEX_SELF_HOSTED_ADMIN_KEY='(\S+)' convex-evals token create laptop --url (\S+)", shown)
        assert found, shown
        assert found[2] == self.url
        self.key = found[1]

    def stop(self) -> str:
        self.server.send_signal(signal.SIGTERM)
        return self.server.communicate(timeout=TIMEOUT_S)[0]

    def _popen(self, *arguments: str) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest_convex_evals.cli.main", *arguments],
            cwd=self.folder,
            env={**kept, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self._popen(*arguments)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == code, output
        return output


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    made = Laptop(tmp_path_factory.mktemp("laptop"))
    yield made
    made.stop()


def test_everything_works_on_a_laptop_without_an_account(laptop: Laptop) -> None:
    laptop.variables = {"CONVEX_EVAL_URL": laptop.url}
    assert "the key of the deployment is not set" in laptop.run("token", "list", code=1)
    laptop.variables["CONVEX_SELF_HOSTED_ADMIN_KEY"] = "wrong"
    assert "the key is not one of this deployment" in laptop.run("token", "list", code=1)
    laptop.variables["CONVEX_SELF_HOSTED_ADMIN_KEY"] = laptop.key
    minter = re.search(r"CONVEX_AUTH_TOKEN=(\S+)", laptop.run("token", "create", "minter", "--scope", "mint"))
    made = laptop.run("token", "create", "laptop", "--scope", "report", "--days", "7")
    token = re.search(r"CONVEX_AUTH_TOKEN=(\S+)", made)
    assert token, made
    assert "There is a token laptop already" in laptop.run("token", "create", "laptop", code=1)
    listed = laptop.run("token", "list")
    assert re.search(r"laptop +report ", listed)
    assert token[1] not in listed

    assert minter
    laptop.variables = {"CONVEX_EVAL_URL": laptop.url, "CONVEX_AUTH_TOKEN": minter[1]}
    suite = Suite(laptop.folder / "evals")
    suite.add("000-m/000-one")
    assert "there is no version yet" in laptop.run("mint")
    assert "nobody can be asked here" in laptop.run("mint", "v1", code=1)
    assert "version v1 is" in laptop.run("mint", "v1", "--yes")
    suite.add("000-m/000-one", task="Another task\n")
    suite.add("000-m/001-two")
    assert re.findall(r"^  (\w+) +(.*)$", laptop.run("mint"), re.MULTILINE) == [
        ("added", "eval 000-m/001-two"),
        ("changed", "eval 000-m/000-one"),
    ]

    laptop.variables["CONVEX_AUTH_TOKEN"] = token[1]
    assert "this needs mint" in laptop.run("mint", code=1)
    MadeRun(laptop.folder / ".evals", "abcd1234-20260101T000000Z").whole()
    assert f"scores: 3 results delivered to {laptop.url}" in laptop.run("upload", "abcd")
    assert laptop.stop().endswith("the scores backend has ended\n")
    assert "Connection refused" in laptop.run("mint", code=1)
    laptop.start()
    assert "nothing was done" not in laptop.run("upload", "latest", "--again")

    laptop.variables["CONVEX_SELF_HOSTED_ADMIN_KEY"] = laptop.key
    assert "token laptop is revoked" in laptop.run("token", "revoke", "laptop")
    assert "has been revoked" in laptop.run("upload", "latest", "--again", code=1)
    assert "The token laptop has been revoked" in laptop.run("mint", code=1)


def test_deploy_means_development_unless_production_is_said(laptop: Laptop) -> None:
    laptop.variables = {"CONVEX_SELF_HOSTED_ADMIN_KEY": laptop.key}
    assert "which has no address" in laptop.run("deploy", code=1)
    config = laptop.folder / "scores.toml"
    config.write_text(f'production = "{laptop.url}"\n')
    assert "give --production if that is meant" in laptop.run("deploy", "--url", laptop.url, code=1)
    shown = laptop.run("deploy", "--production")
    assert f"push the scores backend to production ({laptop.url})" in shown
    assert "npx convex run migrations:runAll" in shown
    assert "npx convex run --component migrations lib:getStatus --watch" in shown
    laptop.variables = {"CONVEX_EVAL_URL": "production", "CONVEX_AUTH_TOKEN": "x"}
    assert "which only CI on the branch main writes to" in laptop.run("mint", "v9", "--yes", code=1)
