"""The question before money is spent: on a terminal, above the threshold, unless somebody has answered it before."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.openai_server import OpenAIServer, Reply
from tests.support.process_tree import hear_interrupts
from tests.support.sessions import COMMON, Project
from tests.support.suites import answer_text

PRICEY = """\
[models."pricey"]
provider = "P"
litellm = "openai/pricey"
key = "PRICEY_API_KEY"
api_base = "{url}"
input_usd_per_million = 1
output_usd_per_million = 1000
"""


@pytest.fixture
def provider(project: Project) -> Iterator[OpenAIServer]:
    project.suite.add("000-m/000-right")
    with OpenAIServer(lambda _: Reply(answer_text())) as server:
        (project.root / "models.toml").write_text(PRICEY.format(url=server.url), encoding="utf-8")
        project.env(PRICEY_API_KEY="sk-test")
        project.monkeypatch.delenv("CI", raising=False)
        yield server


def on_a_terminal(project: Project, answer: str, *flags: str) -> tuple[int, str]:
    """A session whose standard streams are a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *COMMON, "evals", "--models", "pricey", *flags],
        cwd=project.root,
        env=os.environ | {"TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        output += part
        if answer and b"[y/N] " in output:
            os.write(ours, answer.encode())
            answer = ""
    os.close(ours)
    return process.wait(120), output.decode("utf-8", "replace").replace("\r", "")


def test_no_means_that_nothing_is_bought(project: Project, provider: OpenAIServer) -> None:
    code, output = on_a_terminal(project, "n\n")
    assert "pricey: 1 calls" in output
    assert "Buy these answers? [y/N]" in output
    assert "nothing was bought: --evals-yes buys without asking" in output, output
    assert code == 4
    assert provider.preflights == provider.requests == []


def test_yes_buys(project: Project, provider: OpenAIServer) -> None:
    code, output = on_a_terminal(project, "y\n")
    assert (code, len(provider.requests)) == (0, 1), output


@pytest.mark.parametrize("way", ["flag", "CI", "no terminal"])
def test_nobody_is_asked_who_has_answered_or_cannot(way: str, project: Project, provider: OpenAIServer) -> None:
    if way == "no terminal":
        done = project.here("evals", "--models", "pricey")
        code, output = done.code, done.output
    else:
        if way == "CI":
            project.env(CI="true")
        code, output = on_a_terminal(project, "", *(["--evals-yes"] if way == "flag" else []))
    assert (code, len(provider.requests)) == (0, 1), output
    assert "[y/N]" not in output
    assert "about 8.0" in output
