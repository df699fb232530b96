"""Builds small suites of static evals, and answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_convex_evals.generation.parser import render_files

PACKAGE = '{ "name": "project", "type": "module", "dependencies": { "convex": "1.48.0" } }\n'
RIGHT = {"package.json": PACKAGE, "convex/main.ts": "export const answer = 42;\n"}
"""The reference answer, unless an eval has its own."""
GRADER = '''\
"""The answer is 42, and others can import it."""


def test_answers_the_question(files):
    assert "42" in files["convex/main.ts"]


def test_exports_the_answer(files):
    assert files["convex/main.ts"].startswith("export")
'''
SOURCES_GRADER = '''\
"""The project depends on convex: read by the toolchain."""


def test_depends_on_convex(sources):
    assert "convex" in sources.dependencies
'''
NO_ANSWER = {"convex/main.ts": "export const answer = 41;\n"}
"""What a wrong submission lays over the answer."""
EXPECT = 'step = "tests"\ncheck = "test_answers_the_question"\nwhy = "it computes another number"\n'


@dataclass(frozen=True)
class Suite:
    """A folder of evals, made as a test wants them."""

    root: Path

    def add(
        self,
        identity: str,
        *,
        task: str = "",
        grader: str | None = GRADER,
        answer: Mapping[str, str] | None = RIGHT,
        wrong: Mapping[str, str | None] | None = None,
        toml: str | None = 'pipeline = "static"\n',
    ) -> Path:
        """An eval; `wrong` maps slugs to the text of expect.toml. Returns its folder."""
        folder = self.root / identity
        files: dict[str, str | None] = {
            "TASK.txt": task or f"Compute the answer, for {identity}.\n",
            "grader.py": grader,
            "eval.toml": toml,
        }
        files |= {f"answer/{path}": text for path, text in (answer or {}).items()}
        for slug, expect in (wrong or {}).items():
            files |= {f"wrong/{slug}/{path}": text for path, text in NO_ANSWER.items()}
            files[f"wrong/{slug}/expect.toml"] = expect
        write_tree(folder, {path: text for path, text in files.items() if text is not None})
        return folder


def write_tree(root: Path, files: Mapping[str, str]) -> None:
    """Files below a folder."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def answer_text(files: Mapping[str, str] = RIGHT) -> str:
    """What a model writes when it hands in these files."""
    return f"I simply know it.\n\n{render_files(files)}"
