"""Sessions of a suite with a model, whose results go to a scores backend."""

import json
from pathlib import Path
from typing import Any

from tests.support.openai_server import OpenAIServer, Reply
from tests.support.sessions import Done, Project
from tests.support.suites import NO_ANSWER, RIGHT, answer_text

from .deployment import TOKEN

FAILS = "001-fails"


def answers(request: dict[str, Any]) -> Reply:
    """Right, but for evals that are made to fail."""
    wrong = FAILS in request["messages"][-1]["content"]
    return Reply(answer_text({**RIGHT, **NO_ANSWER} if wrong else RIGHT))


class Scored:
    """A project with three evals and a model that answers them."""

    def __init__(self, project: Project, url: str, token: str = TOKEN) -> None:
        self.project = project
        for name in ("000-m/000-one", f"000-m/{FAILS}", "001-n/000-three"):
            project.suite.add(name)
        self.server = OpenAIServer(answers)
        project.env(OPENAI_BASE_URL=self.server.url, OPENAI_API_KEY="sk-x", CONVEX_EVAL_URL=url)
        project.env(CONVEX_AUTH_TOKEN=token)

    def run(self, *arguments: str) -> Done:
        return self.project.apart("evals", "--models", "gpt-5", *arguments)

    def close(self) -> None:
        self.server.close()


def upload_lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "upload.jsonl").read_text().splitlines()]
