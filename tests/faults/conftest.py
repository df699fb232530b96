"""One real eval of the full pipeline, and a way to grade any submission for it with real tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.engine.setup import ensure_toolchain, toolchain_root
from pytest_convex_evals.grading.tools import Tools
from pytest_convex_evals.records import CellRecord
from pytest_convex_evals.store.runs import RunFolder
from pytest_convex_evals.submission import Submission
from pytest_convex_evals.suite.evals import load_eval
from pytest_convex_evals.worker import CellGrader

ANSWER = {
    "package.json": '{"name": "notes", "type": "module", "dependencies": {"convex": "1.48.0"}}\n',
    "convex/schema.ts": """\
import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

export default defineSchema({ notes: defineTable({ text: v.string() }) });
""",
    "convex/notes.ts": """\
import { v } from "convex/values";
import { action, mutation, query } from "./_generated/server";

export const add = mutation({
  args: { text: v.string() },
  handler: async (ctx, args) => await ctx.db.insert("notes", args),
});

export const all = query({ args: {}, handler: async (ctx) => await ctx.db.query("notes").take(100) });

export const ask = action({
  args: { url: v.string() },
  handler: async (_ctx, { url }) => await (await fetch(url)).text(),
});
""",
}
GRADER = """\
def test_keeps_notes(app):
    app.mutation("notes:add", {"text": "a"})
    assert [note["text"] for note in app.query("notes:all")] == ["a"]


def test_asks(app, http):
    http.answer("/hello", body="hi")
    assert app.action("notes:ask", {"url": http.url + "/hello"}) == "hi"
"""


@dataclass
class Bench:
    """An eval on disk and the tools to grade it."""

    root: Path
    tools: Tools
    graded: int = 0
    files: dict[str, str] = field(default_factory=lambda: dict(ANSWER))

    def eval_folder(self, grader: str = GRADER, answer: Mapping[str, str] = ANSWER) -> Path:
        folder = self.root / "evals" / "000-faults" / "000-notes"
        for path, content in {"TASK.txt": "Keep notes.", "grader.py": grader}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
        for path, content in answer.items():
            target = folder / "answer" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        return folder

    def grade(
        self,
        changes: Mapping[str, str] | None = None,
        *,
        without: tuple[str, ...] = (),
        grader: str = GRADER,
        answer: Mapping[str, str] = ANSWER,
    ) -> CellRecord:
        """Grade the answer with these files laid over it."""
        item = load_eval(self.eval_folder(grader, answer) / "TASK.txt")
        files = {path: text for path, text in {**ANSWER, **(changes or {})}.items() if path not in without}
        self.graded += 1
        run = RunFolder.of("testtest-run", str(self.root / "store"), "")
        cells = CellGrader(run, "", self.tools, None, lambda _item, _cell: Submission(files))
        return cells.grade(item, Cell("000-faults", "000-notes", "somebody", "default"), "id")


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    made = Tools(ensure_toolchain, toolchain_root())
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path: Path, tools: Tools) -> Bench:
    return Bench(tmp_path, tools)
