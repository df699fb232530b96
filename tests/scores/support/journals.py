"""Runs on disk as sessions leave them, made without running anything."""

import json
import random
from pathlib import Path
from typing import Any

from pytest_convex_evals.cells import Cell
from pytest_convex_evals.records import CellRecord, CheckRecord, Errored, Failed, GenerationRecord, Passed, StepRecord
from pytest_convex_evals.scores.archives import SourceStore, archive
from pytest_convex_evals.store.journal import Journal
from pytest_convex_evals.store.runs import RunFolder, create_run

MODELS = ("gpt-5", "claude")


class MadeRun:
    """A run whose journal grows as a test wants it."""

    def __init__(
        self, store: Path, run_id: str, evals: int = 3, models: tuple[str, ...] = MODELS[:1], **suite: Any
    ) -> None:
        self.folder = RunFolder.of(run_id, str(store), "")
        self.evals = [f"{number % 4:03}-group/{number:03}-eval" for number in range(evals)]
        self.models = models
        create_run(self.folder, {"run_id": run_id, "settings": {"outputs": ""}})
        self.journal = Journal(self.folder.journal)
        self.begin(**suite)

    @staticmethod
    def at(store: Path, run_id: str) -> RunFolder:
        return RunFolder.of(run_id, str(store), "")

    def begin(self, fingerprint: str = "f" * 32, evals: list[str] | None = None, asked: bool = True) -> None:
        """A session starts; nobody is asked when submissions are graded again."""
        planned = self.evals if evals is None else evals
        sources = SourceStore(self.folder.store)
        self.journal.append("run_started", run_id=self.folder.id, cells=[])
        self.journal.append(
            "suite",
            at="2026-01-02T03:04:05.678+00:00",
            experiment="default",
            cells=[[name, model, 1] for model in self.models for name in planned],
            fingerprint=fingerprint,
            evals=self.evals,
            parts={"prompts": "1", **{f"eval {name}": fingerprint for name in self.evals}},
            sources={name: sources.keep(archive({"TASK.txt": f"Write {name}".encode()})) for name in self.evals},
            models={
                name: {"slug": name, "display": name.upper(), "provider": "p", "formerly": []}
                for name in self.models
                if asked
            },
            backend={"kind": "embedded"},
            git_commit="abc",
            ci_url=None,
        )

    def verdict(self, name: str, model: str, verdict: Any, attempt: int = 1, **changes: Any) -> None:
        """A cell ends."""
        cell = Cell(*name.split("/"), model, "default")
        folder = self.folder.cell(cell) / str(attempt)
        (folder / "project" / "convex").mkdir(parents=True, exist_ok=True)
        (folder / "project" / "convex" / "a.ts").write_text(f"export const a = '{name} {model} {attempt}';\n")
        generation = GenerationRecord(
            key=f"{self.folder.id} {name} {model}",
            litellm_id=model,
            answered_by=model,
            parameters={},
            finish_reason="stop",
            input_tokens=10,
            output_tokens=20,
            cost_usd=0.001,
            duration_s=1.25,
        )
        check = CheckRecord(name="test_a", verdict=verdict, duration_s=0.01, detail="")
        record = CellRecord(
            run_id=self.folder.id,
            eval=name,
            category=cell.category,
            name=cell.name,
            model=model,
            experiment="default",
            repeat=1,
            attempt=attempt,
            node_id=f"evals/{name}/TASK.txt::{cell.item_name}",
            verdict=verdict,
            steps=(StepRecord(name="tests", verdict=verdict, duration_s=0.5, checks=(check,)),),
            generation=generation,
            pipeline="full",
            backend="embedded",
            backend_version="1",
            sandbox="bwrap",
            fingerprint="c",
            folder=folder.relative_to(self.folder.outputs).as_posix(),
            started_at="2026-01-02T03:05:00.000+00:00",
            grading_s=0.75,
        )
        self.journal.append("cell_finished", record=record.model_copy(update=changes).model_dump(mode="json"))

    def grade(self, seed: int = 1) -> None:
        """All cells, with verdicts by the seed."""
        chance = random.Random(seed)
        for model in self.models:
            for name in self.evals:
                self.verdict(name, model, chance.choices(VERDICTS, weights=(6, 3, 1))[0])

    def finish(self, **fields: Any) -> None:
        """The session ends."""
        at = {"at": "2026-01-02T04:00:00.000+00:00"} | fields
        self.journal.append("run_finished", exit_status=0, missing=0, **at)

    def whole(self) -> "MadeRun":
        """All of it."""
        self.grade()
        self.finish()
        return self

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder.path / "upload.jsonl").read_text().splitlines()]


VERDICTS = (
    Passed(),
    Failed(cause="checks", reason="1 of 2 checks failed"),
    Errored(cause="backend", reason="the backend died"),
)
